// The autopilot answers the card in the place of a person, as the truth says, at the pace that is set. It goes by
// the frames that the browser paints: so it waits wherever a person would have to, and ends with the page.

import { element, glyph, part, partsOf, say } from "../shared/dom.js";
import { fixed } from "../shared/figures.js";
import { isField, isShortcut } from "../shared/keys.js";

/** @import { Item, Word } from "../types" */

const PACES = [0.2, 0.5, 1, 2, 5, 10, 20]; // answers a second
const USUAL = 3;
const HELD_OVER = 3000; // milliseconds over which the pace that is held is counted

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
  #said = element("span", { className: "aside" });
  /** @type {Map<number, Word>} */
  #answers = new Map(); // the truth, by item
  #isRunning = false;
  #due = 0;
  /** @type {number[]} */
  #given = []; // when the last answers were given
  #abort = new AbortController();

  /**
   * `inView()` is the item in view, `mayAnswer(answer)` whether it may be answered now, and `give(answer)` does.
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
    const head = element("div", { className: "head" }, element("span", {}, "Autopilot"), this.#said);
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

  /** Answers a second, as it is set. */
  get #wanted() {
    return PACES[Number(this.#pace.value)];
  }

  /** Whether this is the autopilot's session: then people's keys answer nothing. */
  get isOn() {
    return !this.#place.hidden;
  }

  /**
   * `answers` is the truth about the item in view and those that may follow, null in a person's session.
   *
   * @param {Record<string, Word> | null | undefined} answers
   */
  update(answers) {
    this.#place.hidden = !answers;
    for (const [item, answer] of Object.entries(answers ?? {})) this.#answers.set(Number(item), answer);
    for (const part of partsOf(this.#card, ".answers, .tools")) part.inert = this.isOn;
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

  /** One answer, and no more. */
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
      // What was late is not made up for: answers never come faster than the pace says.
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
    this.#pace.setAttribute("aria-valuetext", `${pace} answers a second`);
    const held = this.#held();
    say(
      this.#said,
      held && held < 0.9 * pace ? `${fixed(1)(held)} of ${pace} answers/s` : `${pace} answers/s`,
    );
  }

  /** Answers a second over the last seconds; null before they can be counted. */
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
