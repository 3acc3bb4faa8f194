// The line under the image that says that the item is one of several near-duplicates, such as the shots of a burst,
// with pictures of the others. One press can give all of them the same answer.

import { element, part, say } from "../shared/dom.js";

/** @import { Group as Payload, Item } from "../types" */

export class Group {
  #line;
  #pictures;
  #all;
  /** @type {number[]} */
  #members = []; // items shown, without the one in view
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
    const members = item && group?.selection === item.selection ? group.members : [];
    const written = [item?.selection, ...members.map(({ id }) => id)].join(" ");
    if (written === this.#written) return;
    this.#written = written;
    this.#members = members.map(({ id }) => id);
    this.#pictures.replaceChildren(...members.map(({ src }) => element("img", { src, alt: "" })));
    say(part(this.#all, "span"), `Answer these ${members.length + 1}`);
    this.#all.hidden = !members.length;
    this.#all.setAttribute("aria-pressed", "false");
  }

  /** Switch whether the next answer counts for all items shown. */
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
