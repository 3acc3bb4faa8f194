// The latest answers, newest last; a click on one opens a menu to correct it.

import { around, element, glyph, part, partsOf, targetOf, treeOf } from "../shared/dom.js";
import { isDecision } from "../shared/queue.js";
import { absenceOf } from "../shared/text.js";

/** @import { Answer, StripEntry } from "../types" */

/** @import { Choice, Choices } from "./choices.js" */

/** @typedef {StripEntry & { saving: boolean }} Entry */

/** @type {Choice} */
const UNDO = { action: "undo", answer: "undo", word: "Undo", key: "u", symbol: "g-undo" };

/**
 * Return the strip's entries: the server's latest answers, updated by those that wait to be saved.
 *
 * @param {StripEntry[]} strip
 * @param {Answer[]} pending
 * @param {Map<string | null, string | undefined>} pictures image addresses by selection
 * @returns {Entry[]}
 */
export function merged(strip, pending, pictures) {
  let shown = strip.map((entry) => ({ ...entry, saving: false }));
  let seq = newest(strip)?.seq ?? 0;
  for (const answer of pending) {
    seq += 1; // as if it were stored next
    const place = shown.findIndex((entry) => entry.answer_id === (answer.undoes ?? answer.corrects));
    if (answer.answer === "undo") {
      const { undoes } = answer;
      shown = shown.filter(({ answer_id, along }) => answer_id !== undoes && along !== undoes);
    } else if (place >= 0) {
      const { id, answer: word, concept } = answer;
      shown[place] = { ...shown[place], answer_id: id, seq, answer: word, concept, saving: true };
    } else if (!answer.corrects && !shown.some((entry) => entry.answer_id === answer.id)) {
      const src = pictures.get(answer.selection) ?? "";
      const { id, item, answer: word, concept } = answer;
      const decides = isDecision(answer);
      if (decides && word === "skip") continue; // it is not stored, and can be neither undone nor corrected
      shown.push({ answer_id: id, seq, item, answer: word, decides, concept, src, saving: true });
    }
  }
  return shown;
}

/**
 * Return the entry that was given last; a correction takes the place of the corrected answer.
 *
 * @template {StripEntry} T
 * @param {T[]} entries
 */
export function newest(entries) {
  return entries.reduce(
    (/** @type {T | null} */ last, entry) => (last && last.seq > entry.seq ? last : entry),
    null,
  );
}

export class Strip {
  /** @type {HTMLElement} */
  #card;
  /** @type {HTMLElement} */
  #place;
  /** @type {Entry[]} */
  #entries = [];
  /** @type {number | null} */
  #room = null; // number of entries that fit; null before the first measurement
  /** @type {HTMLElement | null} */
  #menu = null;
  /** @type {Choices} */
  #choices;
  /** @type {(entry: StripEntry, action: string) => void} */
  #correct;

  /**
   * Create the strip; `correct(entry, action)` is called with the corrected choice, or with "undo".
   *
   * @param {HTMLElement} card
   * @param {Choices} choices
   * @param {(entry: StripEntry, action: string) => void} correct
   */
  constructor(card, choices, correct) {
    this.#card = card;
    this.#choices = choices;
    this.#place = part(card, ".strip");
    this.#correct = correct;
    card.addEventListener("click", (event) => this.#clicked(event));
  }

  get last() {
    return newest(this.#entries);
  }

  get menuIsOpen() {
    return this.#menu !== null;
  }

  /** @param {Entry[]} entries */
  show(entries) {
    this.#entries = entries;
    this.#room ??= this.#measure();
    this.#fillUp(this.#room);
  }

  /** Show as many entries as fit into the strip, whose size has changed. */
  fit() {
    this.#room = this.#measure();
    this.#fillUp(this.#room);
  }

  /** Return how many entries fit. This makes the browser lay out the page, so it isn't done at each answer. */
  #measure() {
    const { clientWidth: width, clientHeight: height } = this.#place;
    const style = getComputedStyle(this.#place);
    const size = parseFloat(style.getPropertyValue("--thumb"));
    const gap = parseFloat(style.columnGap);
    return Math.max(0, Math.floor((Math.max(width, height) + gap) / (size + gap)));
  }

  /** @param {number} room */
  #fillUp(room) {
    const shown = room ? this.#entries.slice(-room) : [];
    const present = new Map(partsOf(this.#place, "button.thumb").map((b) => [b.dataset.answerId, b]));
    const buttons = shown.map((entry) => this.#fill(present.get(entry.answer_id) ?? makeThumb(entry), entry));
    if (this.#menu && !shown.some((entry) => entry.answer_id === this.#menu?.dataset.answerId)) this.close();
    // The thumbs that stay are not moved, because inserting one again would draw it again.
    for (const thumb of present.values()) if (!buttons.includes(thumb)) thumb.remove();
    buttons.forEach((thumb, i) => {
      const there = this.#place.children[i];
      if (there !== thumb) this.#place.insertBefore(thumb, there ?? null);
    });
  }

  close({ refocus = false } = {}) {
    if (!this.#menu) return;
    const { answerId } = this.#menu.dataset;
    this.#menu.remove();
    this.#menu = null;
    const thumb = this.#thumb(answerId);
    thumb?.setAttribute("aria-expanded", "false");
    if (refocus) thumb?.focus();
  }

  /**
   * Handle a key while the menu is open; return whether the key was for the menu.
   *
   * @param {KeyboardEvent} event
   */
  pressed(event) {
    if (!this.#menu) return false;
    const items = partsOf(this.#menu, "button");
    const at = items.indexOf(/** @type {HTMLElement} */ (treeOf(this.#menu).activeElement));
    /** @type {Record<string, number>} */
    const steps = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
    if (event.key === "Escape") this.close({ refocus: true });
    else if (event.key in steps) items[(at + steps[event.key] + items.length) % items.length].focus();
    else if (event.key === "Tab") this.close();
    else if (event.key === "Enter" || event.key === " ") return false;
    else items.find((item) => item.dataset.key === event.key.toLowerCase())?.click();
    return event.key !== "Tab";
  }

  /** @param {Event} event */
  #clicked(event) {
    const choice = around(targetOf(event), "[data-correct]");
    const thumb = around(targetOf(event), "button.thumb");
    if (choice) this.#choose(choice.dataset.correct);
    else if (thumb && this.#menu?.dataset.answerId === thumb.dataset.answerId) this.close();
    else if (thumb) this.#open(thumb);
    else this.close();
  }

  /** @param {string | undefined} action */
  #choose(action) {
    const entry = this.#entries.find(({ answer_id: id }) => id === this.#menu?.dataset.answerId);
    this.close({ refocus: true });
    if (entry && action && this.#choices.of(entry).action !== action) this.#correct(entry, action);
  }

  /** @param {HTMLElement} thumb */
  #open(thumb) {
    this.close();
    const entry = this.#entries.find(({ answer_id: id }) => id === thumb.dataset.answerId);
    if (!entry) return;
    this.#menu = makeMenu(entry, this.#choices);
    this.#card.append(this.#menu);
    const { offsetWidth: width, offsetHeight: height } = this.#menu;
    const centre = thumb.offsetLeft + (thumb.offsetWidth - width) / 2;
    const above = thumb.offsetTop - height - 8;
    this.#menu.style.left = `${Math.max(0, Math.min(centre, this.#card.clientWidth - width))}px`;
    this.#menu.style.top = `${above >= 0 ? above : thumb.offsetTop + thumb.offsetHeight + 8}px`;
    thumb.setAttribute("aria-expanded", "true");
    const [checked] = [...partsOf(this.#menu, "[aria-checked=true]"), ...partsOf(this.#menu, "button")];
    checked.focus({ preventScroll: true });
  }

  /**
   * @param {HTMLElement} thumb
   * @param {Entry} entry
   */
  #fill(thumb, entry) {
    const { answer_id: id, item, answer, src, saving } = entry;
    const choice = this.#choices.of(entry);
    const stands = `${choice.action} ${choice.word} ${saving} ${src.length}`;
    if (thumb.dataset.stands === stands) return thumb;
    thumb.dataset.stands = stands;
    thumb.dataset.answerId = id;
    thumb.dataset.item = String(item);
    thumb.dataset.given = answer;
    thumb.dataset.saving = String(saving);
    /** @type {HTMLImageElement} */
    const picture = part(thumb, "img");
    picture.hidden = !src;
    const isLacking = !src && !saving;
    thumb.classList.toggle("lacking", isLacking);
    thumb.title = isLacking ? absenceOf({ alt: `Item ${item}` }) : "";
    if (src && picture.src !== src) picture.src = src;
    const badge = part(thumb, ".badge");
    badge.classList.toggle("named", !choice.symbol);
    badge.replaceChildren(mark(choice));
    const name = this.#choices.nameOf(entry);
    thumb.setAttribute("aria-label", `Item ${item}: ${name}${saving ? ", being saved" : ""}. Correct it`);
    return thumb;
  }

  /** @param {string | undefined} answerId */
  #thumb(answerId) {
    return partsOf(this.#place, "button.thumb").find((b) => b.dataset.answerId === answerId);
  }
}

/** @param {Entry} entry */
function makeThumb(entry) {
  const thumb = element("button", { type: "button", className: "thumb", "aria-haspopup": "menu" });
  thumb.setAttribute("aria-expanded", "false");
  thumb.dataset.answerId = entry.answer_id;
  thumb.append(element("img", { alt: "", draggable: false }), element("span", { className: "badge" }));
  return thumb;
}

/**
 * Return a choice's symbol, or a class's name.
 *
 * @param {Choice} choice
 */
function mark({ symbol, word }) {
  return symbol ? glyph(symbol) : element("span", { className: "name" }, word);
}

/**
 * @param {Entry} entry
 * @param {Choices} choices
 */
function makeMenu(entry, choices) {
  const className = choices.areClasses ? "menu classes" : "menu";
  const menu = element("div", { className, role: "menu", "aria-label": `Correct item ${entry.item}` });
  menu.dataset.answerId = entry.answer_id;
  const given = choices.of(entry);
  const offered = choices.list.filter(({ answer }) => answer !== "skip" || !entry.decides);
  for (const choice of offered) {
    const item = makeMenuItem(choice, "menuitemradio");
    item.setAttribute("aria-checked", String(choice.action === given.action));
    menu.append(item);
  }
  if (entry.along) menu.append(makeMenuItem(UNDO, "menuitem")); // the key U undoes the whole group's answers
  return menu;
}

/**
 * @param {Choice} choice
 * @param {string} role
 */
function makeMenuItem({ action, answer, word, key, symbol }, role) {
  const item = element("button", { type: "button", role, className: answer });
  item.dataset.correct = action;
  item.dataset.key = key;
  const sign = symbol ? [glyph(symbol)] : [];
  item.append(...sign, element("span", {}, word), element("kbd", {}, key.toUpperCase()));
  return item;
}
