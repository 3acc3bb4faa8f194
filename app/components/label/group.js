// The line under the image that says that the item is one of several near-duplicates, such as the shots of a burst,
// with pictures of the others, or of some of them. One press can give all of them the same answer.

import { element, part, say } from "../shared/dom.js";
import { whole } from "../shared/figures.js";

/** @import { Group as Payload, Item } from "../types" */

/** @type {Pick<Payload, "members" | "more">} */
const NONE = { members: [], more: [] };

export class Group {
  #line;
  #pictures;
  #all;
  /** @type {number[]} */
  #members = []; // without the item in view
  #written = "";

  /** @param {HTMLElement} place */
  constructor(place) {
    this.#line = part(place, ".line");
    this.#pictures = part(place, ".members");
    this.#all = part(place, ".all");
  }

  /**
   * @param {Item | null} item the item in view
   * @param {Payload | null | undefined} group the others, of the last payload
   */
  show(item, group) {
    say(this.#line, item?.alike ?? "");
    const { members, more } = item && group?.selection === item.selection ? group : NONE;
    const all = [...members.map(({ id }) => id), ...more];
    const written = [item?.selection, ...all].join(" ");
    if (written === this.#written) return;
    this.#written = written;
    this.#members = all;
    const rest = more.length ? [element("span", { className: "more" }, `+ ${whole(more.length)}`)] : [];
    this.#pictures.replaceChildren(...members.map(({ src }) => element("img", { src, alt: "" })), ...rest);
    say(part(this.#all, "span"), `Answer ${more.length ? "all" : "these"} ${whole(all.length + 1)}`);
    this.#all.hidden = !all.length;
    this.#all.setAttribute("aria-pressed", "false");
  }

  /** Switch whether the next answer counts for all items. */
  toggle() {
    this.#all.setAttribute("aria-pressed", String(!this.#isAll));
  }

  /**
   * Return the other items that an answer counts for.
   *
   * @param {boolean} isAll whether it was given for all items, whatever the button says
   * @returns {number[]}
   */
  answered(isAll) {
    return isAll || this.#isAll ? this.#members : [];
  }

  get #isAll() {
    return this.#all.getAttribute("aria-pressed") === "true";
  }
}
