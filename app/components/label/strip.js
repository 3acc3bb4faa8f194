// The last answers, newest last; a click on one opens a menu to correct it.

import { element, glyph } from "../shared/dom.js";

const CHOICES = [
  { answer: "no", word: "No", key: "n" },
  { answer: "yes", word: "Yes", key: "y" },
  { answer: "skip", word: "Skip", key: "s" },
  { answer: "unsure", word: "Unsure", key: "m" },
];
const WORDS = Object.fromEntries(CHOICES.map(({ answer, word }) => [answer, word.toLowerCase()]));

/** What the strip shows: the server's last answers, changed by those that still wait to be saved. */
export function merged(strip, pending, pictures) {
  const shown = strip.map((entry) => ({ ...entry, saving: false }));
  for (const answer of pending) {
    const place = shown.findIndex((entry) => entry.answer_id === (answer.undoes ?? answer.corrects));
    if (answer.answer === "undo") {
      if (place >= 0) shown.splice(place, 1);
    } else if (place >= 0) {
      shown[place] = { ...shown[place], answer_id: answer.id, answer: answer.answer, saving: true };
    } else if (!answer.corrects && !shown.some((entry) => entry.answer_id === answer.id)) {
      const src = pictures.get(answer.selection) ?? "";
      shown.push({ answer_id: answer.id, item: answer.item, answer: answer.answer, src, saving: true });
    }
  }
  return shown;
}

export class Strip {
  #card;
  #place;
  #entries = [];
  #menu = null;
  #correct;

  /** `correct(entry, answer)` is called with what the person chose instead. */
  constructor(card, correct) {
    this.#card = card;
    this.#place = card.querySelector(".strip");
    this.#correct = correct;
    card.addEventListener("click", (event) => this.#clicked(event));
  }

  get last() {
    return this.#entries.at(-1) ?? null;
  }

  get menuIsOpen() {
    return this.#menu !== null;
  }

  show(entries) {
    this.#entries = entries;
    this.fit();
  }

  /** Show as many as there is room for. */
  fit() {
    const wide = this.#place.clientWidth >= this.#place.clientHeight;
    const style = getComputedStyle(this.#place);
    const size = parseFloat(style.getPropertyValue("--thumb"));
    const gap = parseFloat(style.columnGap);
    const length = wide ? this.#place.clientWidth : this.#place.clientHeight;
    const room = Math.max(0, Math.floor((length + gap) / (size + gap)));
    const shown = room ? this.#entries.slice(-room) : [];
    const present = new Map([...this.#place.querySelectorAll("button.thumb")].map((b) => [b.dataset.answerId, b]));
    const buttons = shown.map((entry) => fill(present.get(entry.answer_id) ?? makeThumb(entry), entry));
    if (this.#menu && !shown.some((entry) => entry.answer_id === this.#menu.dataset.answerId)) this.close();
    const unchanged = buttons.length === present.size && buttons.every((b, i) => this.#place.children[i] === b);
    if (!unchanged) this.#place.replaceChildren(...buttons);
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

  /** Keys while the menu is open; true if the key was meant for it. */
  pressed(event) {
    if (!this.#menu) return false;
    const items = [...this.#menu.querySelectorAll("button")];
    const at = items.indexOf(this.#menu.getRootNode().activeElement);
    const steps = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
    if (event.key === "Escape") this.close({ refocus: true });
    else if (event.key in steps) items[(at + steps[event.key] + items.length) % items.length].focus();
    else if (event.key === "Tab") this.close();
    else if (event.key === "Enter" || event.key === " ") return false;
    else items.find((item) => item.dataset.key === event.key.toLowerCase())?.click();
    return event.key !== "Tab";
  }

  #clicked(event) {
    const choice = event.target.closest("[role=menuitemradio]");
    const thumb = event.target.closest("button.thumb");
    if (choice) this.#choose(choice.dataset.correct);
    else if (thumb && this.#menu?.dataset.answerId === thumb.dataset.answerId) this.close();
    else if (thumb) this.#open(thumb);
    else this.close();
  }

  #choose(answer) {
    const entry = this.#entries.find(({ answer_id: id }) => id === this.#menu.dataset.answerId);
    this.close({ refocus: true });
    if (entry && entry.answer !== answer) this.#correct(entry, answer);
  }

  #open(thumb) {
    this.close();
    const entry = this.#entries.find(({ answer_id: id }) => id === thumb.dataset.answerId);
    this.#menu = makeMenu(entry);
    this.#card.append(this.#menu);
    const { offsetWidth: width, offsetHeight: height } = this.#menu;
    const centre = thumb.offsetLeft + (thumb.offsetWidth - width) / 2;
    const above = thumb.offsetTop - height - 8;
    this.#menu.style.left = `${Math.max(0, Math.min(centre, this.#card.clientWidth - width))}px`;
    this.#menu.style.top = `${above >= 0 ? above : thumb.offsetTop + thumb.offsetHeight + 8}px`;
    thumb.setAttribute("aria-expanded", "true");
    this.#menu.querySelector("[aria-checked=true]").focus({ preventScroll: true });
  }

  #thumb(answerId) {
    return [...this.#place.querySelectorAll("button.thumb")].find((b) => b.dataset.answerId === answerId);
  }
}

function makeThumb(entry) {
  const thumb = element("button", { type: "button", className: "thumb", "aria-haspopup": "menu" });
  thumb.setAttribute("aria-expanded", "false");
  thumb.dataset.answerId = entry.answer_id;
  thumb.append(element("img", { alt: "", draggable: false }), element("span", { className: "badge" }));
  return thumb;
}

function fill(thumb, { answer_id: id, item, answer, src, saving }) {
  const stands = `${answer} ${saving} ${src.length}`;
  if (thumb.dataset.stands === stands) return thumb;
  thumb.dataset.stands = stands;
  thumb.dataset.answerId = id;
  thumb.dataset.item = item;
  thumb.dataset.given = answer;
  thumb.dataset.saving = saving;
  const picture = thumb.querySelector("img");
  picture.hidden = !src;
  if (src && picture.src !== src) picture.src = src;
  thumb.querySelector(".badge").replaceChildren(glyph(`g-${answer}`));
  thumb.setAttribute("aria-label", `Item ${item}: ${WORDS[answer]}${saving ? ", being saved" : ""}. Correct it`);
  return thumb;
}

function makeMenu(entry) {
  const menu = element("div", { className: "menu", role: "menu", "aria-label": `Correct item ${entry.item}` });
  menu.dataset.answerId = entry.answer_id;
  for (const { answer, word, key } of CHOICES) {
    const choice = element("button", { type: "button", role: "menuitemradio", className: answer });
    choice.setAttribute("aria-checked", String(answer === entry.answer));
    choice.dataset.correct = answer;
    choice.dataset.key = key;
    choice.append(glyph(`g-${answer}`), element("span", {}, word), element("kbd", {}, key.toUpperCase()));
    menu.append(choice);
  }
  return menu;
}
