// The review page: a list of answered items to check and correct with keyboard or mouse. State that must outlive a
// payload is kept on the root element.

import { around, element, part, partsOf, present, say, targetOf } from "../shared/dom.js";
import { whole } from "../shared/figures.js";
import { Help } from "../shared/help.js";
import { isField, isShortcut, watchPickers } from "../shared/keys.js";
import { mounting } from "../shared/mount.js";
import { Outbox } from "../shared/outbox.js";
import { Margin } from "./margin.js";
import { Row } from "./row.js";

/** @import { Answer, Asked, Component, ReviewData, ReviewView, Word } from "../types" */

/** @type {Record<string, Word>} */
const ANSWER_KEYS = { y: "yes", n: "no", s: "skip", m: "unsure" };
/** @type {Record<string, number>} */
const MOVES = { arrowdown: 1, arrowup: -1, home: -Infinity, end: Infinity };

const ABOUT = "Check the answers so far, and correct mistakes.";
/** @type {[string[], string][]} */
const KEYS = [
  [["↑", "↓"], "go to another item"],
  [["Y", "N", "S", "M"], "correct the answer to yes, no, skip or unsure"],
  [["U", "⌫"], "undo the last correction"],
  [["↵"], "show the item’s history"],
  [["L"], "find similar items"],
  [["/"], "search"],
  [["PgUp", "PgDn"], "turn the page"],
];

// Milliseconds.
const TYPING = 250; // pause in typing after which the search starts
const POLL = 700; // between requests while the model is being trained
const STATUS = 1000;

/** @type {Record<ReviewView, { tab: string, title: (n: number) => string, hideZero?: boolean }>} */
const VIEWS = {
  doubted: {
    tab: "Doubted",
    title: (n) =>
      n ? `${items(n, "answer")} that the model doubts most` : "No answer that the model clearly doubts",
  },
  contested: { tab: "Contested", title: (n) => `${items(n)} on which annotators disagree` },
  no: { tab: "No", title: (n) => `${items(n)} answered no` },
  yes: { tab: "Yes", title: (n) => `${items(n)} answered yes` },
  skip: { tab: "Skipped", title: (n) => `${items(n)} skipped` },
  unsure: { tab: "Unsure", title: (n) => `${items(n)} answered unsure`, hideZero: true },
  all: { tab: "All", title: (n) => `${items(n)} answered` },
};

class Review {
  /**
   * @param {ShadowRoot} root
   * @param {Component<ReviewData>} component
   */
  constructor(root, component) {
    this.component = component;
    this.data = component.data;
    this.card = part(root, ".card");
    this.views = part(root, ".views");
    this.help = new Help(this.card, () => ({ about: ABOUT, keys: KEYS }));
    /** @type {HTMLInputElement} */
    this.search = part(root, ".search");
    this.title = part(root, ".title");
    this.about = part(root, ".about");
    this.table = part(root, ".table");
    this.empty = part(root, ".empty");
    this.place = part(root, ".place");
    this.status = part(root, ".status");
    this.spoken = part(root, ".spoken");
    this.margin = new Margin(this.card);
    this.tabs = Object.keys(VIEWS).map((view) => this.makeTab(view));
    /** @type {Map<number, Row>} */
    this.rows = new Map();
    this.session = this.data.session;
    /** @type {Asked} */
    this.asked = this.askedFirst();
    this.outbox = this.openOutbox();
    /** @type {string | null} */
    this.refusal = null;
    /** @type {number | null} */
    this.current = null; // the item that keys act on
    this.isTurned = this.enterAtEnd = false;
    /** @type {{ id: string, item: number }[]} */
    this.changes = []; // changes made on this page, newest last, for undo
    this.beat = 0;
    this.abort = new AbortController();
    this.listen();
    this.showLine();
  }

  listen() {
    const { signal } = this.abort;
    document.addEventListener("keydown", (event) => this.keyPressed(event), { signal });
    watchPickers(signal);
    this.card.addEventListener("click", (event) => this.clicked(event), { signal });
    this.card.addEventListener("focusin", (event) => this.focused(event), { signal });
    this.search.addEventListener("input", () => this.typed(), { signal });
    window.addEventListener("online", () => this.outbox.send(), { signal });
    this.statusTimer = setInterval(() => this.showSaving(), STATUS);
  }

  close() {
    this.abort.abort();
    this.outbox.close();
    clearInterval(this.statusTimer);
    for (const timer of [this.typingTimer, this.pollTimer]) clearTimeout(timer);
  }

  /**
   * Show a new payload from the server.
   *
   * @param {Component<ReviewData>} component
   */
  update(component) {
    this.component = component;
    this.data = component.data;
    if (this.data.session !== this.session) this.begin();
    for (const [id, reason] of this.outbox.settle(this.data.acked, this.data.refused)) {
      this.changes = this.changes.filter((change) => change.id !== id);
      this.refusal = reason;
    }
    this.showTabs();
    this.showTitle();
    this.showRows();
    this.margin.show(this.data.notes, this.data.judged);
    this.showSaving();
    this.card.dataset.state = this.isAnswered() ? "shown" : "asked";
    clearTimeout(this.pollTimer);
    if (!this.data.judged || !this.isAnswered()) this.pollTimer = setTimeout(() => this.poll(), POLL);
  }

  begin() {
    this.session = this.data.session;
    this.asked = this.askedFirst();
    this.changes = [];
    this.outbox.close();
    this.outbox = this.openOutbox();
    this.showLine();
  }

  /** @returns {Asked} */
  askedFirst() {
    return { ...this.data.asked };
  }

  openOutbox() {
    const send = (/** @type {Answer[]} */ answers) => this.component.setStateValue("pending", answers);
    return new Outbox(this.data.project, this.session, send);
  }

  showLine() {
    if (document.activeElement !== this.search) this.search.value = this.asked.line;
  }

  // The view

  /** @param {string} view */
  makeTab(view) {
    const tab = element("button", { type: "button", className: "tab" });
    tab.dataset.view = view;
    this.views.append(tab);
    return tab;
  }

  showTabs() {
    for (const tab of this.tabs) {
      const view = /** @type {ReviewView} */ (tab.dataset.view);
      const count = this.data.views[view];
      say(tab, `${VIEWS[view].tab} ${whole(count)}`);
      tab.setAttribute("aria-pressed", String(view === this.asked.view));
      tab.hidden = Boolean(VIEWS[view].hideZero) && !count && view !== this.asked.view;
    }
  }

  showTitle() {
    const { asked, listed, views, judged } = this.data;
    const { view, line } = asked;
    say(this.title, line ? `${items(listed)} found for “${line}”` : VIEWS[view].title(views[view]));
    say(this.about, this.explanation());
    const waiting = view === "doubted" && !judged && !listed;
    say(this.empty, waiting ? "The model is being trained…" : listed ? "" : "Nothing to show here.");
    this.empty.hidden = Boolean(listed);
  }

  explanation() {
    const { asked, listed, views, notes, judged } = this.data;
    const { view, line } = asked;
    if (line)
      return view === "all"
        ? "Every answer was searched."
        : `Only answers under “${VIEWS[view].tab}” were searched.`;
    if (view === "contested") return "A tie does not train the model until somebody decides it.";
    if (view !== "doubted") return "The latest answers come first.";
    if (notes.doubted === null) return judged ? "There is no model yet: it needs a yes and a no." : "";
    if (!listed) return "The model, trained without it, agrees with every answer.";
    const rest = listed - views.doubted;
    const others = rest > 0 ? `${whole(rest)} less clear ${rest === 1 ? "one follows" : "ones follow"}` : "";
    const order = views.doubted ? ["Likely mistakes first", others].filter(Boolean).join("; ") : others;
    return `${order}. Each is scored by the model without that answer. Old answers stay in the log.`;
  }

  showRows() {
    const { rows, annotator } = this.data;
    const known = this.rows;
    const pending = grouped(this.outbox.queue.own);
    const scale = Math.max(1, ...rows.map(({ score }) => Math.abs(score ?? 0)));
    this.rows = new Map(rows.map((row) => [row.item, known.get(row.item) ?? new Row(row.item)]));
    for (const row of rows) {
      present(this.rows.get(row.item)).show(row, annotator, pending.get(row.item) ?? [], scale);
    }
    const places = [...this.rows.values()].map((row) => row.place);
    const unchanged =
      places.length === this.table.children.length && places.every((p, i) => this.table.children[i] === p);
    if (!unchanged) this.table.replaceChildren(...places);
    if ([...this.rows.values()].some((row) => row.lacksPicture)) this.ask({ again: this.asked.again + 1 });
    this.showCurrent();
    this.showPlace();
  }

  /** Mark the current row. Until the requested list is here, keys must not act on a row of the previous one. */
  showCurrent() {
    const { rows } = this.data;
    const isHere = this.isAnswered();
    if (isHere && !this.row) this.current = (this.enterAtEnd ? rows.at(-1) : rows[0])?.item ?? null;
    this.mark({ scroll: isHere && this.isTurned });
    if (isHere) this.isTurned = this.enterAtEnd = false;
  }

  showPlace() {
    const { first, listed, rows } = this.data;
    say(this.place, listed ? `${whole(first + 1)}–${whole(first + rows.length)} of ${whole(listed)}` : "");
    for (const button of partsOf(this.card, "[data-turn]")) {
      const possible = Number(button.dataset.turn) < 0 ? first > 0 : first + rows.length < listed;
      button.setAttribute("aria-disabled", String(!possible));
    }
    part(this.card, ".pager").hidden = listed <= rows.length;
  }

  /** Return the row that keys act on. */
  get row() {
    return this.current === null ? undefined : this.rows.get(this.current);
  }

  /** @param {{ scroll?: boolean }} [how] */
  mark({ scroll = false } = {}) {
    for (const [item, row] of this.rows) row.mark(item === this.current);
    if (scroll) this.row?.place.scrollIntoView({ block: "nearest" });
  }

  showSaving() {
    this.card.dataset.saving = String(this.outbox.queue.own.length);
    part(this.card, "[data-undo]").setAttribute("aria-disabled", String(!this.changes.length));
    const { message, problem, judged, asked, listed } = this.data;
    const training =
      judged || (asked.view === "doubted" && !listed)
        ? ""
        : "Retraining the model; these scores are from the previous one.";
    say(this.status, this.outbox.sentence(message) || this.refusal || message || problem || training);
  }

  // Actions

  /** Return whether the page shows the requested part of the requested list. */
  isAnswered() {
    const { view, line, first, fresh } = this.data.asked;
    const { asked } = this;
    return view === asked.view && line === asked.line && first === asked.first && fresh === asked.fresh;
  }

  /** @param {Partial<Asked>} changes */
  ask(changes) {
    this.asked = { ...this.asked, ...changes };
    this.card.dataset.state = "asked";
    this.component.setStateValue("asked", this.asked);
    this.showTabs();
  }

  /** Repeat the request, because the model was being trained, or because the database failed. */
  poll() {
    this.component.setStateValue("asked", { ...this.asked, beat: ++this.beat });
  }

  /** @param {Partial<Asked>} changes */
  list(changes) {
    this.current = null;
    this.ask({ first: 0, fresh: this.asked.fresh + 1, ...changes });
  }

  typed() {
    clearTimeout(this.typingTimer);
    this.typingTimer = setTimeout(() => this.find(), TYPING);
  }

  find() {
    clearTimeout(this.typingTimer);
    const line = this.search.value.trim();
    if (line === this.asked.line) return;
    this.list(this.asked.line ? { line } : { line, view: "all" });
  }

  /** @param {number} step */
  turn(step) {
    const { first, listed, rows } = this.data;
    if (step > 0 ? first + rows.length >= listed : first <= 0) return;
    this.current = null;
    this.isTurned = true;
    this.ask({ first: Math.max(0, first + step * this.data.page) });
  }

  /** @param {number} step */
  move(step) {
    if (!this.isAnswered()) return;
    const order = [...this.rows.keys()];
    const at = order.indexOf(this.current ?? -1) + step;
    if (step === 1 && at >= order.length) this.turn(1);
    else if (step === -1 && at < 0) {
      this.enterAtEnd = this.data.first > 0;
      this.turn(-1);
    } else if (order.length)
      this.select(order[Math.max(0, Math.min(order.length - 1, at))], { scroll: true });
  }

  /**
   * @param {number} item
   * @param {{ scroll?: boolean }} [how]
   */
  select(item, how) {
    if (item === this.current) return;
    this.current = item;
    this.mark(how);
    say(this.spoken, present(this.row).spoken);
  }

  /**
   * Record the annotator's answer. It replaces their earlier answer or, if they have decided about the item, their
   * decision. Answers of other people stay.
   *
   * @param {Word} answer
   */
  answer(answer) {
    const { row } = this;
    if (!row) return;
    if (row.decidedBy !== null) {
      this.refuse(`${row.decidedBy} has decided about this item, and only they can change it.`);
      return;
    }
    if (row.mine?.answer === answer) return;
    const id = this.outbox.add({ item: row.item, answer, corrects: row.mine?.id ?? null });
    this.changes.push({ id, item: row.item });
    this.changed(`${answer}.`);
  }

  undo() {
    const last = this.changes.pop();
    if (!last) return;
    this.outbox.add({ item: last.item, answer: "undo", undoes: last.id });
    if (this.isAnswered() && this.rows.has(last.item)) this.select(last.item, { scroll: true });
    this.changed("Undone.");
  }

  /** @param {string} sentence */
  refuse(sentence) {
    this.refusal = sentence;
    this.showSaving();
    say(this.spoken, sentence);
  }

  /** @param {string} sentence */
  changed(sentence) {
    this.refusal = null;
    this.showRows();
    this.showSaving();
    say(this.spoken, sentence);
  }

  /** @param {KeyboardEvent} event */
  keyPressed(event) {
    if (isShortcut(event)) return;
    const target = /** @type {Element} */ (event.composedPath()[0]);
    if (target === this.search) this.keyInSearch(event);
    else if (isField(event) || this.help.pressed(event)) return;
    else if (this.act(event.key.toLowerCase(), event.repeat, target)) event.preventDefault();
  }

  /**
   * Perform a key's action; return whether it has one. A key held down only moves.
   *
   * @param {string} key
   * @param {boolean} repeated
   * @param {Element} target
   */
  act(key, repeated, target) {
    const onButton = target?.matches?.("button, a, summary");
    if (key in MOVES) this.move(MOVES[key]);
    else if (key === "enter" && onButton) return repeated;
    else if (repeated) return key in ANSWER_KEYS;
    else if (key in ANSWER_KEYS) this.answer(ANSWER_KEYS[key]);
    else if (key === "u" || key === "backspace") this.undo();
    else if (key === "pagedown" || key === "pageup") this.turn(key === "pagedown" ? 1 : -1);
    else if (key === "enter") this.row?.toggleHistory();
    else if (key === "l") this.row?.alike.click();
    else if (key === "/") this.search.focus();
    else return false;
    return true;
  }

  /** @param {KeyboardEvent} event */
  keyInSearch(event) {
    if (event.key === "Escape" && this.search.value) this.search.value = "";
    else if (!["Escape", "Enter", "ArrowDown"].includes(event.key)) return;
    event.preventDefault();
    this.find();
    this.search.blur();
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const target = around(
      targetOf(event),
      "[data-view],[data-undo],[data-turn],[data-answer],[data-history],.row",
    );
    const row = around(targetOf(event), ".row");
    if (row) this.select(Number(row.dataset.item));
    if (!target) return;
    // Keys act on the list again, not on the button that was clicked.
    if (event.detail > 0) target.blur();
    if (target.dataset.view) this.list({ view: /** @type {ReviewView} */ (target.dataset.view) });
    else if (target.dataset.turn) this.turn(Number(target.dataset.turn));
    else if (target.dataset.answer) this.answer(/** @type {Word} */ (target.dataset.answer));
    else if ("undo" in target.dataset) this.undo();
    else if ("history" in target.dataset) this.row?.toggleHistory();
  }

  /** @param {Event} event */
  focused(event) {
    const row = around(targetOf(event), ".row");
    if (row) this.select(Number(row.dataset.item));
  }
}

/**
 * @param {number} n
 * @param {string} word
 */
function items(n, word = "item") {
  return `${whole(n)} ${word}${n === 1 ? "" : "s"}`;
}

/**
 * @param {Answer[]} answers
 * @returns {Map<number, Answer[]>}
 */
function grouped(answers) {
  const groups = new Map();
  for (const answer of answers) groups.set(answer.item, [...(groups.get(answer.item) ?? []), answer]);
  return groups;
}

export default mounting(Review);
