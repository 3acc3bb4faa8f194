// The labeling grid. It shows many images at once. The annotator's marks are sent together and kept until the server
// confirms that they are stored. Streamlit calls the default function with each new payload; state that must outlive
// a call is kept on the root element.

import { alikeAddress } from "../shared/alike.js";
import { showConcept, unfoldGuideline } from "../shared/concept.js";
import { around, element, painted, part, present, say, targetOf } from "../shared/dom.js";
import { Help } from "../shared/help.js";
import {
  hasKeys,
  isField,
  isShortcut,
  openFind,
  releaseFocus,
  takeKeys,
  takesEnter,
  watchButtons,
  watchFind,
  watchPickers,
} from "../shared/keys.js";
import { Line } from "../shared/line.js";
import { mounting } from "../shared/mount.js";
import { Notes } from "../shared/notes.js";
import { Outbox } from "../shared/outbox.js";
import { Tidings } from "../shared/tidings.js";
import { absence, mayStillCome } from "../shared/waiting.js";
import { Draft } from "./draft.js";
import { Finder } from "./finder.js";
import { Marks } from "./marks.js";
import { Preview } from "./preview.js";
import { standing, Tiles } from "./tiles.js";

/** @import { Answer, Cell, Component, GridData, Standing, Word } from "../types" */

/** @type {Record<string, Word>} */
const MARKS = { y: "yes", n: "no", s: "skip", m: "unsure" };
/** @type {Record<string, (columns: number) => number>} */
const STEPS = {
  ArrowLeft: () => -1,
  ArrowRight: () => 1,
  ArrowUp: (columns) => -columns,
  ArrowDown: (columns) => columns,
};
/** @type {Record<string, number>} */
const PAGES = { pageup: -1, pagedown: 1 };
const ABOUT = "Mark the items, and then send all marks at once.";
/** @type {[string[], string][]} */
const KEYS = [
  [["←", "↑", "↓", "→"], "go to another item"],
  [["Y"], "yes"],
  [["N"], "no"],
  [["S"], "skip"],
  [["M"], "unsure"],
  [["⇧Y", "⇧N"], "yes or no for all that are open"],
  [["⇧P"], "as predicted for all that are open, if there are predictions"],
  [["U", "⌫"], "undo a mark; without marks, back to the last grid"],
  [["↵"], "send the marks"],
  [["Z"], "enlarge the item, then zoom in, then back to the grid"],
  [["⇧←", "⇧→"], "move a zoomed image"],
  [["L"], "find similar items"],
  [["/"], "find items"],
  [["PgUp", "PgDn"], "turn the pages of a search"],
];
/** @type {[Word | null, string][]} */
const COUNTED = [
  ["no", "no"],
  ["yes", "yes"],
  ["skip", "skipped"],
  ["unsure", "unsure"],
  [null, "open"],
];

// Milliseconds.
const DIM_GRID_AFTER = 150; // longer waits dim the grid
const PRESSED_FOR = 120; // how long a button looks pressed
const TELL_EVERY = 1000; // between updates of the number of unsaved answers
const ASK_EVERY = 700; // between requests while there are no images

class Grid {
  /**
   * @param {ShadowRoot} root
   * @param {Component<GridData>} component
   */
  constructor(root, component) {
    this.root = root;
    this.component = component;
    this.line = new Line(component.data, {
      pending: () => this.outbox.queue.pending,
      script: (answers) => this.component.setStateValue("pending", answers),
      show: (data) => this.show(data),
      isUrgent: () => true, // nothing is prepared for a grid
    });
    this.tidings = new Tidings((kind) => {
      if (kind === "concept" || (kind === "pool" && !this.cells.length))
        this.line.send(this.outbox.queue.pending);
    });
    this.data = component.data;
    root.host?.setAttribute("data-runs", ""); // so that the page doesn't offer plain buttons instead
    this.card = part(root, ".card");
    this.spoken = part(root, ".spoken");
    this.placeholder = part(root, ".placeholder");
    this.tiles = new Tiles(part(root, ".cells"));
    this.finder = new Finder(this.card, (asked) => this.component.setStateValue("asked", asked));
    this.notes = new Notes(this.card);
    takeKeys(this);
    this.session = this.data.session;
    /** @type {string | null} */
    this.current = null; // names of the cells in view
    this.draft = this.openDraft();
    this.outbox = this.openOutbox();
    /** @type {string | null} */
    this.refusal = null;
    this.hint = ""; // why an image can't be marked
    /** @type {Cell[]} */
    this.cells = []; // in view, or being loaded
    this.isLast = false; // whether the last grid is in view for corrections
    this.marks = new Marks([]);
    /** @type {number | null} */
    this.paintedAt = null;
    this.abort = new AbortController();
    this.help = new Help(this.card, () => ({ about: ABOUT, keys: KEYS }));
    const enlarge = (/** @type {Element} */ tile) => this.enlarge(this.tiles.placeOf(tile));
    this.preview = new Preview(this.card, enlarge, this.abort.signal);
    this.observer = new ResizeObserver(() => this.fit());
    this.listen();
    releaseFocus();
  }

  listen() {
    const { signal } = this.abort;
    document.addEventListener("keydown", (event) => this.keyPressed(event), { signal });
    watchPickers(signal);
    watchButtons(this.card, signal);
    watchFind(signal);
    this.card.addEventListener("click", (event) => this.clicked(event), { signal });
    window.addEventListener("online", () => this.outbox.send(), { signal });
    this.tellTimer = setInterval(() => this.showSaving(), TELL_EVERY);
    this.observer.observe(part(this.root, ".cells"));
    this.observer.observe(part(this.root, ".question"));
  }

  /** Shrink the images for a question of several lines, so that the buttons stay in view. */
  fit() {
    const question = part(this.root, ".question");
    const line = parseFloat(getComputedStyle(question).lineHeight);
    this.card.style.setProperty("--more-lines", `${Math.max(0, question.clientHeight - line)}px`);
    this.tiles.fit();
  }

  close() {
    this.abort.abort();
    this.observer.disconnect();
    this.line.close();
    this.tidings.close();
    this.outbox.close();
    this.finder.close();
    clearInterval(this.tellTimer);
    for (const timer of [this.dimTimer, this.askTimer]) clearTimeout(timer);
  }

  /**
   * Take a new payload of the page's script.
   *
   * @param {Component<GridData>} component
   */
  update(component) {
    this.component = component;
    this.show(this.line.take(component.data));
  }

  /** @param {GridData} data */
  show(data) {
    this.data = data;
    this.tidings.listen(data.http);
    const { session, acked, refused, waiting } = this.data;
    if (session !== this.session || !hasKeys(this)) this.begin();
    for (const reason of this.outbox.settle(acked, refused).values()) this.refusal = reason;
    showConcept(this.card, this.data.concept);
    this.finder.show(this.data.search);
    const { cells } = this.data;
    if (namesOf(cells) !== this.current) this.showCurrent();
    else {
      say(this.placeholder, this.absence());
      this.showNotes();
      this.refresh();
    }
    this.showSaving();
    clearTimeout(this.askTimer);
    if (mayStillCome(waiting)) this.ask();
  }

  /** Start a new session, or resume after another component was in use, which may have left answers in the queue. */
  begin() {
    takeKeys(this);
    this.session = this.data.session;
    this.current = null;
    this.draft = this.openDraft();
    this.outbox.close();
    this.outbox = this.openOutbox();
  }

  openDraft() {
    return new Draft(this.data.project, this.session, this.data.search ? "id" : "selection");
  }

  openOutbox() {
    const send = (/** @type {Answer[]} */ answers) => this.line.send(answers);
    return new Outbox(this.data.project, this.session, send);
  }

  ask() {
    this.askTimer = setTimeout(() => {
      this.line.send(this.outbox.queue.pending);
      this.ask();
    }, ASK_EVERY);
  }

  showSaving() {
    this.card.dataset.saving = String(this.outbox.queue.own.length);
    say(
      part(this.root, ".status"),
      this.outbox.sentence(this.data.message) || this.refusal || this.hint || this.data.message || "",
    );
  }

  // The view

  showCurrent() {
    const { cells } = this.data;
    this.current = namesOf(cells);
    const own = this.outbox.queue.own.map(({ selection, answer }) => [selection, answer]);
    const given = new Map(/** @type {[string | null, Word][]} */ (own));
    const kept = this.draft.of(cells);
    const words = cells.map(
      ({ id, selection }) => given.get(selection) ?? kept.get(selection) ?? kept.get(id) ?? null,
    );
    this.paint(
      cells,
      new Marks(
        cells.map(() => null),
        words,
        cells.map(({ stands }) => stands ?? null),
      ),
      false,
    );
  }

  showLast() {
    const { last } = this.data;
    this.paint(last, new Marks(last.map((cell) => cell.answer)), true);
  }

  /**
   * @param {Cell[]} cells
   * @param {Marks} marks
   * @param {boolean} isLast
   */
  async paint(cells, marks, isLast) {
    Object.assign(this, { cells, marks, isLast, paintedAt: null });
    this.preview.close();
    this.refresh();
    if (!(await this.tiles.paint(cells))) return;
    this.card.dataset.state = cells.length ? "shown" : "empty";
    this.card.dataset.last = String(isLast);
    say(this.placeholder, this.absence());
    this.showNotes();
    this.showMarks();
    this.refresh();
    await painted();
    if (this.cells !== cells || !cells.length) return;
    this.paintedAt = performance.now();
    say(
      this.spoken,
      isLast
        ? "The last grid, to be corrected."
        : `Round ${this.data.round}, ${cells.length} ${cells.length === 1 ? "item" : "items"}.`,
    );
    this.refresh();
  }

  absence() {
    const { cells, waiting, concept } = this.data;
    if (cells.length) return "";
    if (!waiting) return this.finder.isUsed ? this.finder.absence : "";
    return absence(waiting, concept.question);
  }

  showNotes() {
    const { notes, history, cells } = this.data;
    const why = this.isLast ? "last-grid" : notes.why;
    const round = this.isLast ? this.data.last_round : this.data.round;
    this.notes.show({ notes: { ...notes, why }, history, round, item: cells.find((cell) => cell.selection) });
  }

  showMarks() {
    this.tiles.show(this.marks);
    this.preview.follow(this.cells[this.marks.cursor], this.marks.words[this.marks.cursor] ?? null);
    const counted = COUNTED.filter(([word]) => word !== "unsure" || this.marks.count(word));
    const parts = counted.map(([word, label]) =>
      element("li", {}, element("b", {}, String(this.marks.count(word))), ` ${label}`),
    );
    const elsewhere = this.isLast ? 0 : this.draft.elsewhere(this.cells);
    if (elsewhere) parts.push(element("li", {}, element("b", {}, String(elsewhere)), " marked elsewhere"));
    part(this.root, ".marked").replaceChildren(...parts);
  }

  /** Return whether answers are being saved; the grid that follows them will replace this one. */
  get sent() {
    return this.outbox.queue.own.length > 0;
  }

  get canMark() {
    return this.paintedAt !== null && !this.sent;
  }

  /** Set the attributes that show which actions are possible; the style sheet and the tests read them. */
  refresh() {
    const { changed, canUndo, open } = this.marks;
    this.card.dataset.answerable = String(this.canMark);
    this.card.dataset.painted = this.paintedAt === null ? "" : this.cells.map((cell) => cell.id).join(" ");
    if (!this.sent) {
      clearTimeout(this.dimTimer);
      this.card.removeAttribute("data-waiting");
    }
    const usable = {
      "[data-send]": this.canMark && changed.length > 0,
      "[data-undo]": this.canMark && (canUndo || this.isLast || this.data.last.length > 0),
      "[data-rest=no]": this.canMark && open > 0,
      "[data-rest=yes]": this.canMark && open > 0,
      "[data-rest=predicted]": this.canMark && this.canConfirm,
    };
    part(this.root, "[data-rest=predicted]").hidden = !this.cells.some(({ predicted }) => predicted);
    for (const [button, is] of Object.entries(usable)) {
      part(this.root, button).setAttribute("aria-disabled", String(!is));
    }
    say(part(this.root, "[data-send] span"), `${this.isLast ? "Correct" : "Send"} ${changed.length}`);
    const back = this.isLast ? "Continue" : this.data.last.length ? "Last grid" : "Undo";
    say(part(this.root, "[data-undo] span"), canUndo ? "Undo" : back);
  }

  // Actions

  /** @param {(marks: Marks) => void} change */
  changeMarks(change) {
    if (!this.canMark) return;
    change(this.marks);
    this.marks.allowOnlySkip(this.tiles.missing);
    if (!this.isLast) this.draft.keep(this.cells, this.marks.unsent);
    this.showMarks();
    this.tiles.follow(this.marks.cursor);
    this.refresh();
  }

  /** @param {Word} word */
  mark(word) {
    const { alt } = this.cells[this.marks.cursor] ?? {};
    const isSettled = this.tellSettled(this.marks.cursor);
    this.changeMarks((marks) => marks.mark(word));
    if (!isSettled) say(this.spoken, `${alt}: ${word}.`);
  }

  /**
   * Show why an image can't be marked; return false if it can.
   *
   * @param {number} place
   */
  tellSettled(place) {
    const word = this.marks.settled[place];
    this.hint = word
      ? `${this.cells[place].alt} is ${standing(word)}${word === "held" ? "" : "; you can change it on Review"}.`
      : "";
    this.showSaving();
    return Boolean(word);
  }

  /** @param {string} word "yes", "no" or "predicted" */
  markRest(word) {
    this.flash(`[data-rest=${word}]`);
    const wordOf = (/** @type {number} */ place) =>
      word === "predicted" ? (this.cells[place].predicted?.answer ?? null) : /** @type {Word} */ (word);
    this.changeMarks((marks) => marks.markRest(wordOf));
  }

  /** Return whether an open place has a prediction. */
  get canConfirm() {
    return this.cells.some(({ predicted }, place) => predicted && this.marks.words[place] === null);
  }

  /** @param {number} step */
  move(step) {
    const to = this.marks.cursor + step;
    if (to < 0 || to >= this.cells.length) return;
    this.marks.cursor = to;
    this.showMarks();
    this.tiles.follow(to);
  }

  /**
   * Show the item at a place as large as the grid.
   *
   * @param {number} place
   */
  enlarge(place) {
    if (!this.cells[place]) return;
    this.marks.cursor = place;
    this.preview.open();
    this.showMarks();
  }

  /** Open Find similar for the item under the cursor; marks are kept. */
  lookForLike() {
    const cell = this.cells[this.marks.cursor];
    if (cell) location.assign(alikeAddress(cell.id));
  }

  /** Undo the last step; with none left, go to the last grid or, from there, back to the current one. */
  undo() {
    if (!this.canMark) return;
    this.flash("[data-undo]");
    if (this.marks.canUndo) this.changeMarks((marks) => marks.undo());
    else if (this.isLast) this.showCurrent();
    else if (this.data.last.length) this.showLast();
  }

  send() {
    const places = this.marks.changed;
    if (!this.canMark || !places.length) return;
    this.flash("[data-send]");
    const time_taken_ms = Math.round((performance.now() - present(this.paintedAt)) / places.length);
    const answers = places.map((place) => {
      const { id: item, selection, answer_id: corrects } = this.cells[place];
      return {
        item,
        selection,
        answer: /** @type {Word} */ (this.marks.words[place]),
        corrects,
        time_taken_ms,
      };
    });
    this.draft.keep(this.cells, []);
    this.refusal = null;
    this.hint = "";
    this.outbox.addAll(answers);
    say(this.spoken, `${answers.length} sent.`);
    this.showSaving();
    this.refresh();
    this.dimTimer = setTimeout(() => this.card.setAttribute("data-waiting", ""), DIM_GRID_AFTER);
  }

  /** @param {string} selector */
  flash(selector) {
    const button = part(this.root, selector);
    if (button.getAttribute("aria-disabled") === "true") return;
    button.classList.add("pressed");
    setTimeout(() => button.classList.remove("pressed"), PRESSED_FOR);
  }

  /** @param {KeyboardEvent} event */
  keyPressed(event) {
    if (!hasKeys(this) || isShortcut(event) || this.finder.pressed(event) || isField(event)) return;
    if (this.help.pressed(event)) return;
    const action = this.preview.pressed(event) ? () => {} : this.actionOf(event);
    if (!action) return;
    event.preventDefault();
    const isStep = event.key in STEPS;
    if (!event.repeat || isStep) action();
  }

  /**
   * Return the action of a key, or null; Enter on a control that is not an image activates that control.
   *
   * @param {KeyboardEvent} event
   * @returns {(() => void) | null}
   */
  actionOf(event) {
    const key = event.key.toLowerCase();
    const word = MARKS[key];
    if (event.key in STEPS) return () => this.move(STEPS[event.key](this.tiles.columns));
    if (event.shiftKey && (word === "yes" || word === "no")) return () => this.markRest(word);
    if (event.shiftKey && key === "p") return () => this.markRest("predicted");
    if (word) return () => this.mark(word);
    if (key === "u" || key === "backspace") return () => this.undo();
    if (key === "/") return () => (this.finder.isUsed ? this.finder.focus() : openFind());
    if (key === "z") return () => this.enlarge(this.marks.cursor);
    if (key === "l") return () => this.lookForLike();
    if (key in PAGES && this.finder.isUsed) return () => this.finder.turn(PAGES[key]);
    if (key === "escape" && this.isLast) return () => this.showCurrent();
    const isTile = this.tiles.placeOf(/** @type {Element} */ (event.composedPath()[0])) >= 0;
    if (key === "enter" && (isTile || !takesEnter(event))) return () => this.send();
    return null;
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const place = this.tiles.placeOf(targetOf(event));
    const button = around(targetOf(event), "[data-rest],[data-undo],[data-send],[data-turn],.guideline");
    if (place >= 0) {
      this.tellSettled(place);
      this.changeMarks((marks) => marks.turn(place));
    } else if (button?.matches(".guideline")) unfoldGuideline(button);
    else if (button?.dataset.turn) this.finder.turn(Number(button.dataset.turn));
    else if (button?.dataset.rest) this.markRest(button.dataset.rest);
    else if (button?.matches("[data-undo]")) this.undo();
    else if (button) this.send();
  }
}

/** @param {Cell[]} cells */
function namesOf(cells) {
  return cells.map(({ id, selection, stands }) => selection ?? `${id} ${stands}`).join(" ");
}

export default mounting(Grid);
