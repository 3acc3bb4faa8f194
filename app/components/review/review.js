// The review page: a list of answered items, gone through and corrected by keyboard or mouse. What must outlive
// a new payload is kept on the root element.

import { element, say } from "../shared/dom.js";
import { whole } from "../shared/figures.js";
import { isField, isShortcut, mayChoose, releaseFocus } from "../shared/keys.js";
import { Outbox } from "../shared/outbox.js";
import { Margin } from "./margin.js";
import { Row } from "./row.js";

const ANSWER_KEYS = { y: "yes", n: "no", s: "skip", m: "unsure", "?": "unsure" };
const MOVES = { arrowdown: 1, arrowup: -1, home: -Infinity, end: Infinity };

// Milliseconds.
const TYPING = 250; // a pause in typing after which the search begins
const POLL = 700; // while the model is being trained
const STATUS = 1000;

const VIEWS = {
  doubted: {
    tab: "Doubted",
    title: (n) =>
      n ? `${items(n, "answer")} that the model doubts most` : "Nothing that the model clearly doubts",
  },
  contested: { tab: "Contested", title: (n) => `${items(n)} on which annotators disagree` },
  no: { tab: "No", title: (n) => `${items(n)} answered no` },
  yes: { tab: "Yes", title: (n) => `${items(n)} answered yes` },
  skip: { tab: "Skipped", title: (n) => `${items(n)} skipped` },
  unsure: { tab: "Unsure", title: (n) => `${items(n)} of which nobody is sure`, hideZero: true },
  all: { tab: "All", title: (n) => `${items(n)} answered` },
};

class Review {
  constructor(root) {
    this.card = root.querySelector(".card");
    for (const part of ["views", "search", "title", "about", "table", "empty", "place", "status", "spoken"]) {
      this[part] = root.querySelector(`.${part}`);
    }
    this.margin = new Margin(this.card);
    this.tabs = Object.keys(VIEWS).map((view) => this.makeTab(view));
    this.rows = new Map();
    this.outbox = null;
    this.current = null; // the item that keys are about
    this.changes = []; // what was changed here, the last one last: undo goes back through them
    this.beat = 0;
    this.listen();
  }

  listen() {
    this.abort = new AbortController();
    const { signal } = this.abort;
    document.addEventListener("keydown", (event) => this.keyPressed(event), { signal });
    for (const kind of ["keydown", "click"]) {
      document.addEventListener(kind, (event) => mayChoose(event) && releaseFocus(), {
        signal,
        capture: true,
      });
    }
    this.card.addEventListener("click", (event) => this.clicked(event), { signal });
    this.card.addEventListener("focusin", (event) => this.focused(event), { signal });
    this.search.addEventListener("input", () => this.typed(), { signal });
    window.addEventListener("online", () => this.outbox?.send(), { signal });
    this.statusTimer = setInterval(() => this.showSaving(), STATUS);
  }

  close() {
    this.abort.abort();
    this.outbox?.close();
    clearInterval(this.statusTimer);
    for (const timer of ["typing", "poll"]) clearTimeout(this[`${timer}Timer`]);
  }

  /** A new payload from the server. */
  update(component) {
    this.component = component;
    this.data = component.data;
    const { project, session, view, line, first } = this.data;
    if (session !== this.session) this.begin(project, session, { view, line, first, fresh: 0, again: 0 });
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
    if (!this.data.judged) this.pollTimer = setTimeout(() => this.poll(), POLL);
  }

  begin(project, session, asked) {
    this.session = session;
    this.asked = asked;
    this.changes = [];
    this.outbox?.close();
    this.outbox = new Outbox(project, session, (answers) => this.component.setStateValue("pending", answers));
    if (document.activeElement !== this.search) this.search.value = asked.line;
  }

  // What is in view

  makeTab(view) {
    const tab = element("button", { type: "button", className: "tab" });
    tab.dataset.view = view;
    this.views.append(tab);
    return tab;
  }

  showTabs() {
    for (const tab of this.tabs) {
      const { view } = tab.dataset;
      const count = this.data.views[view];
      say(tab, `${VIEWS[view].tab} ${whole(count)}`);
      tab.setAttribute("aria-pressed", String(view === this.asked.view));
      tab.hidden = Boolean(VIEWS[view].hideZero) && !count && view !== this.asked.view;
    }
  }

  showTitle() {
    const { view, line, listed, views, judged } = this.data;
    say(this.title, line ? `${items(listed)} found for “${line}”` : VIEWS[view].title(views[view]));
    say(this.about, this.explanation());
    const waiting = view === "doubted" && !judged && !listed;
    say(this.empty, waiting ? "The model is being trained…" : listed ? "" : "Nothing to show here.");
    this.empty.hidden = Boolean(listed);
  }

  explanation() {
    const { view, line, listed, views, notes, judged } = this.data;
    if (line)
      return view === "all"
        ? "Every answer was searched."
        : `Searched among: ${VIEWS[view].tab.toLowerCase()}.`;
    if (view === "contested")
      return "One against one is a tie: it does not train the model until somebody decides it.";
    if (view !== "doubted") return "Those answered last come first.";
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
    for (const row of rows) this.rows.get(row.item).show(row, annotator, pending.get(row.item) ?? [], scale);
    const places = [...this.rows.values()].map((row) => row.place);
    const unchanged =
      places.length === this.table.children.length && places.every((p, i) => this.table.children[i] === p);
    if (!unchanged) this.table.replaceChildren(...places);
    if (!this.rows.has(this.current)) this.current = (this.enterAtEnd ? rows.at(-1) : rows[0])?.item ?? null;
    if ([...this.rows.values()].some((row) => row.lacksPicture)) this.ask({ again: this.asked.again + 1 });
    this.mark({ scroll: this.isTurned });
    this.isTurned = this.enterAtEnd = false;
    this.showPlace();
  }

  showPlace() {
    const { first, listed, rows } = this.data;
    say(this.place, listed ? `${whole(first + 1)}–${whole(first + rows.length)} of ${whole(listed)}` : "");
    for (const button of this.card.querySelectorAll("[data-turn]")) {
      const possible = Number(button.dataset.turn) < 0 ? first > 0 : first + rows.length < listed;
      button.setAttribute("aria-disabled", String(!possible));
    }
    this.card.querySelector(".pager").hidden = listed <= rows.length;
  }

  mark({ scroll = false } = {}) {
    for (const [item, row] of this.rows) row.mark(item === this.current);
    if (scroll) this.rows.get(this.current)?.place.scrollIntoView({ block: "nearest" });
  }

  showSaving() {
    if (!this.outbox) return;
    this.card.dataset.saving = String(this.outbox.queue.own.length);
    this.card.querySelector("[data-undo]").setAttribute("aria-disabled", String(!this.changes.length));
    const { message, problem, judged, view, listed } = this.data;
    const training =
      judged || (view === "doubted" && !listed)
        ? ""
        : "The model is being retrained; the scores are those from before.";
    say(this.status, this.outbox.sentence(message) || this.refusal || message || problem || training);
  }

  // What the person does

  /** Whether the page shows what was asked for. */
  isAnswered() {
    return ["view", "line"].every((part) => this.data[part] === this.asked[part].trim());
  }

  ask(changes) {
    this.asked = { ...this.asked, ...changes };
    this.card.dataset.state = "asked";
    this.component.setStateValue("asked", this.asked);
    this.showTabs();
  }

  /** Ask the same again: the answer comes when the model is trained. */
  poll() {
    this.component.setStateValue("asked", { ...this.asked, beat: ++this.beat });
  }

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

  turn(step) {
    const { first, listed, rows } = this.data;
    if (step > 0 ? first + rows.length >= listed : first <= 0) return;
    this.current = null;
    this.isTurned = true;
    this.ask({ first: Math.max(0, first + step * this.data.page) });
  }

  move(step) {
    const order = [...this.rows.keys()];
    const at = order.indexOf(this.current) + step;
    if (step === 1 && at >= order.length) this.turn(1);
    else if (step === -1 && at < 0) {
      this.enterAtEnd = this.data.first > 0;
      this.turn(-1);
    } else if (order.length)
      this.select(order[Math.max(0, Math.min(order.length - 1, at))], { scroll: true });
  }

  select(item, how) {
    if (item === this.current) return;
    this.current = item;
    this.mark(how);
    say(this.spoken, this.rows.get(item).spoken);
  }

  /** The answer becomes the annotator's: in the place of their earlier one, or beside those of others. */
  answer(answer) {
    const row = this.rows.get(this.current);
    if (!row || row.mine?.answer === answer) return;
    const id = this.outbox.add({ item: row.item, answer, corrects: row.mine?.id ?? null });
    this.changes.push({ id, item: row.item });
    this.changed(`${answer}.`);
  }

  undo() {
    const last = this.changes.pop();
    if (!last) return;
    this.outbox.add({ item: last.item, answer: "undo", undoes: last.id });
    if (this.rows.has(last.item)) this.select(last.item, { scroll: true });
    this.changed("Undone.");
  }

  changed(said) {
    this.refusal = null;
    this.showRows();
    this.showSaving();
    say(this.spoken, said);
  }

  keyPressed(event) {
    if (isShortcut(event)) return;
    const target = event.composedPath()[0];
    if (target === this.search) this.keyInSearch(event);
    else if (!isField(event) && this.act(event.key.toLowerCase(), event.repeat, target))
      event.preventDefault();
  }

  /** True if the key means something here. What the keyboard repeats only moves. */
  act(key, repeated, target) {
    const onButton = target?.matches?.("button, a, summary");
    if (key in MOVES) this.move(MOVES[key]);
    else if (key === "enter" && onButton) return repeated;
    else if (repeated) return key in ANSWER_KEYS;
    else if (key in ANSWER_KEYS) this.answer(ANSWER_KEYS[key]);
    else if (key === "u" || key === "backspace") this.undo();
    else if (key === "pagedown" || key === "pageup") this.turn(key === "pagedown" ? 1 : -1);
    else if (key === "enter") this.rows.get(this.current)?.toggleHistory();
    else if (key === "l") this.rows.get(this.current)?.alike.click();
    else if (key === "/") this.search.focus();
    else return false;
    return true;
  }

  keyInSearch(event) {
    if (event.key === "Escape" && this.search.value) this.search.value = "";
    else if (!["Escape", "Enter", "ArrowDown"].includes(event.key)) return;
    event.preventDefault();
    this.find();
    this.search.blur();
  }

  clicked(event) {
    const target = event.target.closest(
      "[data-view],[data-undo],[data-turn],[data-answer],[data-history],.row",
    );
    const row = event.target.closest(".row");
    if (row) this.select(Number(row.dataset.item));
    if (!target) return;
    // Keys are about the list again, not about the button that the mouse left behind.
    if (event.detail > 0) target.blur();
    if (target.dataset.view) this.list({ view: target.dataset.view });
    else if (target.dataset.turn) this.turn(Number(target.dataset.turn));
    else if (target.dataset.answer) this.answer(target.dataset.answer);
    else if ("undo" in target.dataset) this.undo();
    else if ("history" in target.dataset) this.rows.get(this.current)?.toggleHistory();
  }

  focused(event) {
    const row = event.target.closest(".row");
    if (row) this.select(Number(row.dataset.item));
  }
}

function items(n, word = "item") {
  return `${whole(n)} ${word}${n === 1 ? "" : "s"}`;
}

function grouped(answers) {
  const groups = new Map();
  for (const answer of answers) groups.set(answer.item, [...(groups.get(answer.item) ?? []), answer]);
  return groups;
}

export default function (component) {
  const root = component.parentElement;
  root.closecallReview ??= new Review(root);
  root.closecallReview.update(component);
  return () => {
    root.closecallReview?.close();
    root.closecallReview = null;
  };
}
