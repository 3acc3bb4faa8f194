// What the help card of Find similar says.

/** @import { SimilarData } from "../types" */

export const ABOUT = "Select items among the nearest ones, and give them all the same answer.";

/**
 * Return the keys that can be used with items of a kind.
 *
 * @param {Pick<SimilarData["similar"], "kind">} similar
 * @returns {[keys: string[], what: string][]}
 */
export function keysOf({ kind }) {
  const isText = kind === "text";
  return /** @type {[string[], string][]} */ ([
    [["←", "↑", "↓", "→"], "go to another item"],
    [["Space"], "select the item, or deselect it"],
    [["⇧←", "⇧→"], "select several in a row"],
    [["A"], "select all, or none"],
    [["Y", "N"], "yes or no for the selected items, or else for the one under the cursor"],
    [["U", "⌫"], "undo the last answers"],
    [["L"], "find items similar to the selected one"],
    ...(isText ? [[["Z"], "read a whole text"]] : []),
    [["PgUp", "PgDn"], isText ? "turn the page, or scroll a text" : "turn the page"],
    [["Esc"], isText ? "close the text, or clear the selection" : "clear the selection"],
  ]);
}
