// The autopilot answers the card instead of a person, with the true labels and at a chosen pace. It is driven by the
// browser's animation frames, so it waits wherever a person would have to, and ends with the page.

import { element, glyph, part, partsOf, say } from "../shared/dom.js";
import { fixed, perSecond } from "../shared/figures.js";
import { isField, isShortcut } from "../shared/keys.js";

/** @import { Item, Word } from "../types" */

const PACES = [0.2, 0.5, 1, 2, 5, 10, 20]; // answers per second
const USUAL = 3;
const TAKEN =
  "The autopilot answers here. To answer yourself, choose “Label by hand again” in the menu Demo.";
const HELD_OVER = 3000; // milliseconds over which the actual pace is measured

export class Autopilot {
  /** @type {HTMLElement} */
  #card;
  /** @type {() => Item | null} */
  #inView;
  /** @type {(answer: Word) => boolean} */
  #mayAnswer;
  /** @type {(answer: Word) => void} */
  #give;
  /** @type {HTMLElement} */
  #place;
  #run = controlButton("run", "p");
  #step = controlButton("step", ".");
  /** @type {HTMLInputElement} */
  #pace;
  #shownPace = element("span", { className: "aside" });
  /** @type {Map<number, Word>} */
  #answers = new Map(); // true labels by item
  #isRunning = false;
  #due = 0;
  /** @type {number[]} */
  #given = []; // times of the latest answers
  #abort = new AbortController();

  /**
   * Create the controls.
   *
   * `inView()` returns the item in view, `mayAnswer(answer)` whether it can be answered now; `give(answer)` does it.
   *
   * @param {HTMLElement} card
   * @param {{ inView: () => Item | null, mayAnswer: (answer: Word) => boolean, give: (answer: Word) => void }} calls
   */
  constructor(card, { inView, mayAnswer, give }) {
    this.#card = card;
    this.#inView = inView;
    this.#mayAnswer = mayAnswer;
    this.#give = give;
    this.#pace = element("input", { type: "range", min: 0, max: PACES.length - 1, step: 1, value: USUAL });
    this.#pace.setAttribute("aria-label", "Pace of the autopilot");
    const head = element("div", { className: "head" }, element("span", {}, "Autopilot"), this.#shownPace);
    const controls = element("div", { className: "controls" }, this.#run, this.#step, this.#pace);
    this.#place = element(
      "div",
      { className: "autopilot", role: "group", "aria-label": "Autopilot" },
      head,
      controls,
    );
    this.#place.hidden = true;
    part(card, ".notes").append(this.#place);
    const { signal } = this.#abort;
    this.#run.addEventListener("click", () => this.toggle(), { signal });
    this.#step.addEventListener("click", () => this.step(), { signal });
    this.#pace.addEventListener("input", () => this.#changePace(), { signal });
    document.addEventListener("keydown", (event) => this.#pressed(event), { signal });
    this.#say();
  }

  /** Return the chosen pace in answers per second. */
  get #wanted() {
    return PACES[Number(this.#pace.value)];
  }

  /** Return whether this is the autopilot's session, in which keys give no answers. */
  get isOn() {
    return !this.#place.hidden;
  }

  /**
   * Take the true labels of the item in view and of those that may follow.
   *
   * @param {Record<string, Word> | null | undefined} answers null in a person's session
   */
  update(answers) {
    this.#place.hidden = !answers;
    for (const [item, answer] of Object.entries(answers ?? {})) this.#answers.set(Number(item), answer);
    for (const button of partsOf(this.#card, ":is(.answers, .tools) > *")) button.inert = this.isOn;
    for (const place of partsOf(this.#card, ".answers, .tools")) place.title = this.isOn ? TAKEN : "";
    if (!this.isOn || this.#card.dataset.state === "empty") this.pause();
    this.#say();
  }

  toggle() {
    if (this.#isRunning) this.pause();
    else this.run();
  }

  run() {
    if (!this.isOn || this.#isRunning) return;
    this.#isRunning = true;
    this.#given = [];
    this.#due = performance.now();
    this.#say();
    requestAnimationFrame(() => this.#frame());
  }

  pause() {
    this.#isRunning = false;
    this.#say();
  }

  /** Give one answer and pause. */
  step() {
    this.pause();
    this.#answer();
  }

  close() {
    this.#isRunning = false;
    this.#abort.abort();
  }

  #frame() {
    if (!this.#isRunning) return;
    const now = performance.now();
    const between = 1000 / this.#wanted;
    if (now >= this.#due && this.#answer()) {
      // Late answers are not made up for: the pace is never exceeded.
      this.#due = Math.max(this.#due + between, now + between / 2);
      this.#given.push(now);
    }
    this.#given = this.#given.filter((given) => given > now - HELD_OVER);
    this.#say();
    requestAnimationFrame(() => this.#frame());
  }

  #answer() {
    const answer = this.#answers.get(this.#inView()?.id ?? -1);
    if (!answer || !this.#mayAnswer(answer)) return false;
    this.#give(answer);
    return true;
  }

  #changePace() {
    this.#due = Math.min(this.#due, performance.now() + 1000 / this.#wanted);
    this.#given = [];
    this.#say();
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    const own = event.composedPath()[0] === this.#pace;
    if (!this.isOn || isShortcut(event) || event.repeat) return;
    if (isField(event) && !own) return;
    if (event.key.toLowerCase() === "p") this.toggle();
    else if (event.key === ".") this.step();
    else return;
    event.preventDefault();
  }

  #say() {
    const [word, symbol] = this.#isRunning ? ["Pause", "g-pause"] : ["Run", "g-run"];
    if (this.#run.dataset.says !== word) {
      this.#run.dataset.says = word;
      this.#run.replaceChildren(glyph(symbol), element("span", {}, word), element("kbd", {}, "P"));
      this.#step.replaceChildren(element("span", {}, "Step"), element("kbd", {}, "."));
    }
    this.#card.dataset.autopilot = this.isOn ? (this.#isRunning ? "running" : "paused") : "off";
    const pace = this.#wanted;
    this.#pace.setAttribute("aria-valuetext", perSecond(pace, "answer").replace("/s", " per second"));
    const held = this.#held();
    const isLate = held && held < 0.9 * pace;
    say(this.#shownPace, `${isLate ? `${fixed(1)(held)} of ` : ""}${perSecond(pace, "answer")}`);
  }

  /** Return the actual pace of the last seconds in answers per second, or null if there are too few answers. */
  #held() {
    const last = this.#given.length - 1;
    const span = this.#given[last] - this.#given[0];
    return this.#isRunning && last >= 4 && span > HELD_OVER / 2 ? (1000 * last) / span : null;
  }
}

/**
 * @param {string} name
 * @param {string} key
 */
function controlButton(name, key) {
  return element("button", {
    type: "button",
    className: `tool ${name}`,
    "aria-keyshortcuts": key.toUpperCase(),
  });
}
