// The labeling card. It shows one image, takes exactly one answer to it, and keeps every answer until the
// server says that it is stored. Streamlit calls the default function again with each new payload; what must
// outlive such a call is kept on the root element.

import { element, newId, painted, say } from "../shared/dom.js";
import { hasKeys, isField, mayChoose, openFind, releaseFocus, takeKeys } from "../shared/keys.js";
import { Notes } from "../shared/notes.js";
import { Queue } from "../shared/queue.js";
import { Revival } from "../shared/revive.js";
import { Ahead, picture } from "./ahead.js";
import { Autopilot } from "./autopilot.js";
import { Choices } from "./choices.js";
import { FullScan } from "./fullscan.js";
import { Gestures } from "./gestures.js";
import { Strip, merged } from "./strip.js";
import { Zoom } from "./zoom.js";

// Milliseconds.
const PRESSED = 120; // how long a button shows that it was pressed
const DIM_AFTER = 150; // a wait longer than this is shown
const SAVING_AFTER = 1000; // an answer unsaved for longer than this is spoken of
const OFFLINE_AFTER = 5000;
const RETRIES = [2000, 3000, 5000, 8000];
const POLL = 700; // while there is no image yet
const POLL_AHEAD = 100; // while the server still computes what follows
const COURSE = 60; // rounds that the course of a number shows
const DOUBLE_CLICK = 350; // nobody judges an image so soon after it appeared

class Card {
  constructor(root) {
    this.root = root;
    this.card = root.querySelector(".card");
    this.question = root.querySelector(".question");
    this.frame = root.querySelector(".frame");
    this.placeholder = root.querySelector(".placeholder");
    this.status = root.querySelector(".status");
    this.spoken = root.querySelector(".spoken");
    this.notes = new Notes(this.card);
    this.choices = new Choices(this.card);
    this.strip = new Strip(this.card, this.choices, (entry, action) => this.correct(entry, action));
    this.fullScan = new FullScan(this.card, {
      begin: () => this.holdStill(),
      ask: (selection) => this.component.setStateValue("check", selection),
    });
    this.autopilot = new Autopilot(this.card, {
      inView: () => this.item,
      mayAnswer: (answer) => this.canAnswer(answer),
      give: (answer) => this.give(answer),
    });
    this.zoom = new Zoom(this.frame);
    this.pictures = new Map();
    this.answered = new Set();
    this.queue = null;
    this.ahead = new Ahead();
    this.turn = null; // of several concepts, the one that chooses next, and the course of its numbers
    this.view = null; // what is in view, or being loaded: item, round, notes, history
    this.item = null; // its item
    this.paintedAt = null; // when it was painted; null before
    this.undoing = null; // id of an undo that is not stored yet: what is in view may be about to change
    this.failures = 0;
    this.revival = new Revival();
    this.listen();
    root.host?.setAttribute("data-runs", ""); // the page then offers no plain buttons instead
  }

  listen() {
    this.abort = new AbortController();
    const { signal } = this.abort;
    document.addEventListener("keydown", (event) => this.keyPressed(event), { signal });
    for (const kind of ["keydown", "click"]) {
      document.addEventListener(kind, (event) => mayChoose(event) && releaseFocus(), { signal, capture: true });
    }
    this.card.addEventListener("click", (event) => this.clicked(event), { signal });
    const pulls = { mayPull: () => !this.choices.areClasses && this.canAnswer("yes"), pulled: (answer) => this.act(answer) };
    this.gestures = new Gestures(this.frame, this.zoom, pulls, signal);
    window.addEventListener("online", () => this.send(), { signal });
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.card.querySelector(".strip"));
    this.observer.observe(this.question);
  }

  /** A question of several lines takes its room from the image, so that the buttons stay in view. */
  fit() {
    const line = parseFloat(getComputedStyle(this.question).lineHeight);
    this.card.style.setProperty("--more-lines", `${Math.max(0, this.question.clientHeight - line)}px`);
    this.strip.fit();
  }

  close() {
    this.abort.abort();
    this.observer.disconnect();
    this.autopilot.close();
    for (const timer of ["dim", "retry", "poll", "late"]) clearTimeout(this[`${timer}Timer`]);
  }

  /** A new payload from the server. */
  update(component) {
    this.component = component;
    this.revival.heard();
    this.data = component.data;
    const { project, session, acked, refused } = this.data;
    if (this.data.session !== this.session || !hasKeys(this)) this.begin(project, session);
    this.settle(acked, refused);
    this.choices.update(this.data.classes);
    this.card.dataset.blind = String(Boolean(this.data.blind));
    this.showItem();
    this.lookAhead();
    this.autopilot.update(this.data.autopilot);
    this.showSaving();
    clearTimeout(this.pollTimer);
    if (mayStillCome(this.data.waiting)) this.poll(POLL);
    else if (this.data.next_is_coming || this.data.check?.is_coming) this.poll(POLL_AHEAD);
  }

  /** Also where another component had its turn: it may have left answers in the queue. */
  begin(project, session) {
    takeKeys(this);
    this.session = session;
    this.view = this.item = null;
    this.queue = new Queue(project, session);
    this.answered = new Set(this.queue.own.map((answer) => answer.selection));
    this.undoing = this.queue.own.findLast((answer) => answer.answer === "undo")?.id ?? null;
    if (this.queue.size) this.send();
  }

  settle(acked, refused) {
    const known = this.queue.size;
    this.queue.settle(acked);
    for (const { id, reason } of refused) {
      const [answer] = this.queue.settle([id]);
      if (!answer) continue;
      this.answered.delete(answer.selection);
      this.refusal = reason;
    }
    if (this.queue.size < known) this.failures = 0;
    if (![...this.queue.own].some(({ id }) => id === this.undoing)) this.undoing = null;
  }

  // What is in view

  showConcept() {
    const { question, guideline, examples } = this.view.concept;
    say(this.question, question);
    const text = this.root.querySelector(".guideline");
    say(text, guideline);
    text.hidden = !guideline;
    const pictures = this.root.querySelector(".examples");
    const written = `${examples.length} ${examples.at(-1)?.length}`;
    if (pictures.dataset.written !== written) {
      pictures.dataset.written = written;
      pictures.replaceChildren(...examples.slice(0, 6).map((src) => element("img", { src, alt: "An example of yes" })));
    }
    this.root.querySelector(".lead").hidden = !guideline && !examples.length;
    this.card.dataset.lead = String(Boolean(guideline || examples.length));
  }

  showItem() {
    const { item, round, notes, history, waiting, concept } = this.data;
    if (this.item && this.queue.own.length) {
      // The server doesn't know all answers yet, and the image in view may follow the last of them.
      this.showStrip();
      this.refresh();
      return;
    }
    this.view = { item, round, notes, history, waiting, concept };
    this.showConcept();
    if (item && item.selection === this.item?.selection) {
      this.notes.show(this.view);
      this.showStrip();
      this.refresh();
      return;
    }
    this.item = item;
    this.paintedAt = null;
    if (item?.src) this.load(item);
    else this.showNothing(item);
  }

  /** Make ready what the server sent for each answer to the item in view. */
  lookAhead() {
    const { item, next, pictures, turn } = this.data;
    if (item && item.selection === this.item?.selection) {
      this.turn = turn ?? null;
      this.ahead.take(item.selection, next, pictures, () => this.refresh());
    }
  }

  /** Show at once what follows an answer; the server catches up behind. */
  goOn({ view, image }) {
    const { item, round, notes } = view;
    const concept = { ...this.view.concept, ...view.concept };
    const past = Object.entries(this.turn?.history ?? this.view.history);
    const history = Object.fromEntries(past.map(([name, values]) => [name, [...values, notes[name]].slice(-COURSE)]));
    this.view = { ...this.view, item, round, notes, history, concept };
    this.item = item;
    this.paintedAt = null;
    this.showConcept();
    this.put(image);
    this.appear(item);
  }

  /** Decode first, then swap, then wait until it is painted: only then may it be answered. */
  async load(item) {
    const image = picture(item);
    try {
      await image.decode();
    } catch {
      if (this.item === item) this.showNothing(item);
      return;
    }
    if (this.item !== item) return;
    this.put(image);
    this.appear(item);
  }

  showNothing(item) {
    this.put(null);
    this.appear(item);
  }

  /** Another image, or none, is in the frame; nobody has touched it yet. */
  put(image) {
    this.frame.querySelector(".item")?.remove();
    if (image) this.frame.prepend(image);
    this.gestures.cancel();
    this.zoom.reset();
  }

  async appear(item) {
    this.notes.show(this.view);
    this.showStrip();
    say(this.placeholder, this.absence(this.view));
    this.card.dataset.state = item ? "shown" : "empty";
    this.refresh();
    if (!item) return;
    this.pictures.set(item.selection, item.src);
    if (this.pictures.size > 40) this.pictures.delete(this.pictures.keys().next().value);
    await painted();
    if (this.item !== item) return;
    this.paintedAt = performance.now();
    say(this.spoken, `Round ${this.view.round}. ${item.alt}`);
    this.refresh();
  }

  absence({ item, waiting, concept }) {
    if (item) return this.frame.querySelector(".item") ? "" : `${item.alt} can't be shown. Skip it to go on.`;
    if (!waiting) return "";
    if (waiting.said) return waiting.said;
    if (waiting.exhausted && mayStillCome(waiting)) return "Every item so far has an answer. More are being prepared…";
    if (waiting.exhausted) return `Every item has an answer to “${concept.question}”`;
    if (!waiting.done) return "The first items are being prepared…";
    const whole = (value) => value.toLocaleString("en-US");
    return `The first items are being prepared: ${whole(waiting.done)} of ${whole(waiting.total)}`;
  }

  /** Say in attributes what may be done now; the style sheet and the tests read them. */
  refresh() {
    this.card.dataset.answerable = String(this.canAnswer("yes"));
    if (!this.item || !this.answered.has(this.item.selection)) {
      clearTimeout(this.dimTimer);
      this.card.removeAttribute("data-waiting");
    }
    const { selection } = this.item ?? {};
    const answers = ["yes", "no", "skip", "unsure"];
    this.card.dataset.ahead = answers.filter((answer) => this.ahead.after(selection, answer)).length;
    this.card.dataset.paintedItem = this.paintedAt === null ? "" : this.item.id;
    this.card.dataset.paintedSelection = this.paintedAt === null ? "" : this.item.selection;
    for (const button of this.card.querySelectorAll("[data-answer]")) {
      button.setAttribute("aria-disabled", String(!this.canAnswer(button.dataset.answer)));
    }
    this.card.querySelector("[data-undo]").setAttribute("aria-disabled", String(!this.strip.last));
    if (this.view) this.fullScan.show(this.data.check, this.view, this.canAnswer("skip"));
  }

  showStrip() {
    const pending = this.queue.own.filter(({ classes }) => Boolean(classes) === this.choices.areClasses);
    this.strip.show(merged(this.data.strip, pending, this.pictures));
  }

  // What the person does

  canAnswer(action) {
    const seen = this.paintedAt !== null && !this.answered.has(this.item.selection) && this.undoing === null;
    return seen && (this.frame.querySelector(".item") !== null || action === "skip");
  }

  answer(action) {
    if (!this.canAnswer(action)) return false;
    const { id, selection } = this.item;
    const time = Math.round(performance.now() - this.paintedAt);
    const given = this.choices.given(action);
    const following = this.ahead.after(selection, this.choices.means(action, this.turn?.concept));
    this.answered.add(selection);
    say(this.spoken, `${this.choices.said(given)}.`);
    if (following) this.goOn(following);
    const next = following?.view.item.selection ?? null;
    this.queueUp({ item: id, selection, ...given, next, time_taken_ms: time });
    if (!following) this.dimTimer = setTimeout(() => this.card.setAttribute("data-waiting", ""), DIM_AFTER);
    return true;
  }

  undo() {
    const last = this.strip.last;
    if (!last || this.undoing) return false;
    const given = this.choices.given("undo");
    this.undoing = this.queueUp({ item: last.item, selection: null, ...given, undoes: last.answer_id });
    say(this.spoken, "Undone.");
    this.refresh();
    return true;
  }

  correct(entry, action) {
    const given = this.choices.given(action);
    this.queueUp({ item: entry.item, selection: null, ...given, corrects: entry.answer_id });
    say(this.spoken, `Corrected to ${this.choices.said(given)}.`);
  }

  queueUp(answer) {
    const id = newId();
    const blank = { undoes: null, corrects: null, next: null, time_taken_ms: null };
    this.queue.add({ id, ...blank, browser_time: Date.now(), ...answer });
    this.refusal = null;
    this.showStrip();
    this.refresh();
    this.send();
    return id;
  }

  /** What a person does; in the autopilot's session nothing. */
  act(action) {
    return !this.autopilot.isOn && this.give(action);
  }

  give(action) {
    this.flash(action);
    return action === "undo" ? this.undo() : this.answer(action);
  }

  /** Nothing but a person's answer changes what is in view. */
  holdStill() {
    this.autopilot.pause();
    this.refresh();
  }

  flash(action) {
    const usable = action === "undo" ? this.strip.last : this.canAnswer(action);
    if (!usable) return;
    const button = this.card.querySelector(action === "undo" ? "[data-undo]" : `[data-answer=${action}]`);
    button.classList.add("pressed");
    setTimeout(() => button.classList.remove("pressed"), PRESSED);
  }

  keyPressed(event) {
    if (!hasKeys(this)) return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || isField(event)) return;
    const action = this.choices.byKey(event.key);
    if (event.repeat) {
      if (action || event.key === "Enter" || event.key === " ") event.preventDefault();
    } else if (this.strip.menuIsOpen) {
      if (this.strip.pressed(event)) event.preventDefault();
    } else if (this.zoom.pressed(event) || this.leafed(event)) {
      event.preventDefault();
    } else if (event.key === "/") {
      event.preventDefault();
      openFind();
    } else if (action) {
      event.preventDefault();
      this.act(action);
    }
  }

  /** Page keys move a text, wherever the focus is. */
  leafed({ key }) {
    const sheet = this.frame.querySelector(".text");
    const pages = { PageDown: 0.9, PageUp: -0.9 }[key];
    if (!sheet || !pages) return false;
    sheet.scrollBy({ top: pages * sheet.clientHeight });
    return true;
  }

  clicked(event) {
    const button = event.target.closest("[data-answer],[data-undo],.guideline,.look");
    if (!button) return;
    if (button.matches(".look")) this.zoom.toggle();
    else if (button.matches(".guideline")) {
      const open = button.getAttribute("aria-expanded") !== "true";
      button.setAttribute("aria-expanded", String(open));
    } else if (event.detail > 1 && event.timeStamp - (this.paintedAt ?? 0) < DOUBLE_CLICK) {
      return;
    } else this.act(button.dataset.answer ?? "undo");
  }

  // What waits to be saved

  /**
   * Hand the whole queue over, again and again until every answer in it is acknowledged or refused. What is left
   * over from other sessions may belong to a database that is not served now: it is kept, and tried a few times.
   */
  send() {
    clearTimeout(this.retryTimer);
    if (!this.queue.size) return;
    this.component.setStateValue("pending", this.queue.pending);
    const pause = RETRIES[Math.min(this.failures, RETRIES.length - 1)];
    this.retryTimer = setTimeout(() => {
      this.failures += 1;
      this.revival.consider(this.queue);
      if (this.queue.own.length || this.failures < RETRIES.length) this.send();
    }, pause);
    this.showSaving();
  }

  poll(pause) {
    this.pollTimer = setTimeout(() => {
      this.component.setStateValue("pending", this.queue.pending);
      this.poll(POLL);
    }, pause);
  }

  showSaving() {
    const waiting = this.queue.own;
    this.card.dataset.saving = String(waiting.length);
    clearTimeout(this.lateTimer);
    const calm = this.refusal ?? this.data.message ?? "";
    if (!waiting.length) {
      say(this.status, calm);
      return;
    }
    const age = Date.now() - Math.min(...waiting.map((answer) => answer.browser_time));
    const answers = waiting.length === 1 ? "1 answer" : `${waiting.length} answers`;
    const kept = this.queue.durable ? "kept in this browser and saved as soon as it can be" : "kept as long as this page is open";
    if (age > OFFLINE_AFTER) say(this.status, `${this.data.message ?? "The server does not answer"}. ${answers} ${kept}.`);
    else say(this.status, age > SAVING_AFTER ? `Saving ${answers}…` : calm);
    this.lateTimer = setTimeout(() => this.showSaving(), SAVING_AFTER);
  }
}

/** Whether an image will come without anybody's doing. */
function mayStillCome(waiting) {
  return waiting !== null && (!waiting.exhausted || waiting.done < waiting.total);
}

export default function (component) {
  const root = component.parentElement;
  root.closecallCard ??= new Card(root);
  root.closecallCard.update(component);
  return () => {
    root.closecallCard?.close();
    root.closecallCard = null;
  };
}
