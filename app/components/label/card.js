// The labeling card. It shows one image, takes exactly one answer to it, and keeps every answer until the server
// confirms that it is stored. Streamlit calls the default function with each new payload; state that must outlive a
// call is kept on the root element.

import { showConcept, unfoldGuideline } from "../shared/concept.js";
import { afterDrawing, around, painted, part, partsOf, present, say, targetOf } from "../shared/dom.js";
import { Gestures } from "../shared/gestures.js";
import { Help } from "../shared/help.js";
import {
  hasKeys,
  isField,
  isShifted,
  isShortcut,
  openFind,
  takeKeys,
  watchFind,
  watchPickers,
} from "../shared/keys.js";
import { Line } from "../shared/line.js";
import { mounting } from "../shared/mount.js";
import { Notes } from "../shared/notes.js";
import { inWords } from "../shared/prediction.js";
import { absenceOf } from "../shared/text.js";
import { Tidings } from "../shared/tidings.js";
import { absence } from "../shared/waiting.js";
import { Zoom } from "../shared/zoom.js";
import { picture } from "./ahead.js";
import { Autopilot } from "./autopilot.js";
import { Choices } from "./choices.js";
import { Flow, POLL } from "./flow.js";
import { FullScan } from "./fullscan.js";
import { Group } from "./group.js";
import { merged, Strip } from "./strip.js";

/** @import { Answer, CardData, Component, Item, Labeling, StripEntry } from "../types" */

/** @import { Picture } from "./ahead.js" */

/** @type {[string[], string][]} */
const AUTOPILOT_KEYS = [
  [["P"], "start or pause the autopilot"],
  [["."], "let it give one answer"],
];

// Milliseconds.
const PRESSED = 120; // how long a button looks pressed
const DIM_AFTER = 150; // longer waits dim the image
const TELL_EVERY = 1000; // between updates of the number of unsaved answers
const DOUBLE_CLICK = 350; // nobody judges an image this soon after it appears

class Card {
  /**
   * @param {ShadowRoot} root
   * @param {Component<CardData>} component
   */
  constructor(root, component) {
    this.root = root;
    this.component = component;
    this.line = new Line(component.data, {
      pending: () => this.flow.outbox.queue.pending,
      script: (answers) => this.component.setStateValue("pending", answers),
      show: (data) => this.show(data),
      isUrgent: () => !this.flow?.isOpen, // there is no flow yet while old answers are sent
    });
    this.tidings = new Tidings((kind) => this.heard(kind));
    this.data = component.data;
    this.card = part(root, ".card");
    this.question = part(root, ".question");
    this.frame = part(root, ".frame");
    this.group = new Group(part(root, ".alike"));
    this.placeholder = part(root, ".placeholder");
    this.status = part(root, ".status");
    this.spoken = part(root, ".spoken");
    this.notes = new Notes(this.card);
    this.choices = new Choices(this.card);
    this.strip = new Strip(this.card, this.choices, (entry, action) => this.correct(entry, action));
    this.fullScan = new FullScan(this.card, {
      begin: () => this.holdStill(),
      ask: (selection) => this.ask(selection),
    });
    this.autopilot = new Autopilot(this.card, {
      inView: () => this.flow.item,
      mayAnswer: (answer) => this.canAnswer(answer),
      give: (answer) => this.give(answer),
    });
    this.zoom = new Zoom(this.frame);
    this.help = new Help(this.card, () => ({
      about: this.choices.about,
      keys: [...(this.autopilot.isOn ? AUTOPILOT_KEYS : []), ...this.choices.keys(this.data)],
    }));
    /** @type {Map<string | null, string | undefined>} */
    this.pictures = new Map();
    takeKeys(this);
    this.flow = new Flow(this.data, {
      send: (answers) => this.send(answers),
      picture,
      ready: () => this.refresh(),
    });
    /** @type {number | null} */
    this.paintedAt = null; // when the item in view was painted; null before that
    /** @type {string | null} */
    this.refusal = null;
    this.abort = new AbortController();
    this.gestures = new Gestures(
      this.frame,
      this.zoom,
      {
        mayPull: () => !this.choices.areClasses && !this.autopilot.isOn && this.canAnswer("yes"),
        pulled: (answer) => this.act(answer),
      },
      this.abort.signal,
    );
    this.observer = new ResizeObserver(() => this.fit());
    this.listen();
    root.host?.setAttribute("data-runs", ""); // so that the page doesn't offer plain buttons instead
  }

  listen() {
    const { signal } = this.abort;
    document.addEventListener("keydown", (event) => this.keyPressed(event), { signal });
    watchPickers(signal);
    watchFind(signal);
    this.card.addEventListener("click", (event) => this.clicked(event), { signal });
    window.addEventListener("online", () => this.flow.outbox.send(), { signal });
    this.observer.observe(part(this.card, ".strip"));
    this.observer.observe(this.question);
    this.observer.observe(this.status);
  }

  /** Shrink the image for a question or a message of several lines, so that these and the buttons stay in view. */
  fit() {
    let more = 0;
    for (const text of [this.question, this.status]) {
      const line = parseFloat(getComputedStyle(text).lineHeight);
      more += Math.max(0, text.clientHeight - line);
    }
    this.card.style.setProperty("--more-lines", `${more}px`);
    this.strip.fit();
  }

  close() {
    this.abort.abort();
    this.observer.disconnect();
    this.autopilot.close();
    this.line.close();
    this.tidings.close();
    this.flow.outbox.close();
    for (const timer of [this.dimTimer, this.pollTimer, this.lateTimer]) clearTimeout(timer);
  }

  /**
   * Take a new payload of the page's script.
   *
   * @param {Component<CardData>} component
   */
  update(component) {
    this.component = component;
    this.show(this.line.take(component.data));
  }

  /** @param {CardData} data */
  show(data) {
    this.data = data;
    this.tidings.listen(data.http);
    if (this.data.session !== this.flow.session || !hasKeys(this)) {
      takeKeys(this);
      this.flow.begin(this.data);
    }
    this.refusal = this.flow.settle(this.data) ?? this.refusal;
    this.choices.update(this.data.classes);
    this.card.dataset.session = this.data.session;
    this.card.dataset.blind = String(Boolean(this.data.blind));
    this.card.dataset.groups = String(Boolean(this.data.has_groups));
    this.showItem();
    this.flow.lookAhead();
    this.autopilot.update(this.data.autopilot);
    this.refresh();
    this.showSaving();
    this.follow();
  }

  /** Get what the server has not computed yet. */
  async follow() {
    clearTimeout(this.pollTimer);
    const { data, flow } = this;
    const known = Object.keys(data.next ?? {}).length;
    const isAhead = flow.awaitsAhead && data.item && (await this.line.awaitAhead(data.item.selection, known));
    if (!isAhead && data === this.data && flow.pollAfter !== null) this.poll(flow.pollAfter);
  }

  // The view

  showItem() {
    const taken = this.flow.take(this.data);
    const { item, view } = this.flow;
    if (taken !== "kept") showConcept(this.card, view.concept);
    if (taken === "another") {
      this.paintedAt = null;
      if (item?.src) this.load(item);
      else this.showNothing(item);
      return;
    }
    if (taken === "same") this.notes.show(view);
    this.showStrip();
    this.refresh();
  }

  /**
   * Show the view that follows an answer immediately, before the server has processed the answer.
   *
   * @param {Picture} image
   */
  goOn(image) {
    this.paintedAt = null;
    showConcept(this.card, this.flow.view.concept);
    this.put(image);
    this.appear(this.flow.item);
  }

  /**
   * Decode an image, show it and wait until it is painted; only then can it be answered.
   *
   * @param {Item} item
   */
  async load(item) {
    const image = picture(item);
    try {
      await image.decode();
    } catch {
      if (this.flow.item === item) this.showNothing(item);
      return;
    }
    if (this.flow.item !== item) return;
    this.put(image);
    this.appear(item);
  }

  /** @param {Item | null} item */
  showNothing(item) {
    this.put(null);
    this.appear(item);
  }

  /**
   * Put the image of the item in view, or none, into the frame, and end gestures and zoom.
   *
   * @param {Picture | null} image
   */
  put(image) {
    this.frame.querySelector(".item")?.remove();
    if (image) this.frame.prepend(image);
    this.card.dataset.holds = image ? (image.matches(".text") ? "text" : "image") : "";
    this.gestures.cancel();
    this.zoom.take(image && this.flow.item?.original);
  }

  /** @param {Item | null} item */
  async appear(item) {
    const { view } = this.flow;
    this.notes.show(view);
    this.showStrip();
    say(this.placeholder, this.absence(view));
    this.card.dataset.state = item ? "shown" : "empty";
    this.refresh();
    if (!item) return;
    this.pictures.set(item.selection, item.src);
    if (this.pictures.size > 40) this.pictures.delete(this.pictures.keys().next().value ?? null);
    await painted();
    if (this.flow.item !== item) return;
    this.paintedAt = performance.now();
    say(
      this.spoken,
      [`Round ${view.round}`, item.alt, inWords(item.predicted), item.alike].filter(Boolean).join(". "),
    );
    this.refresh();
  }

  /** @param {Pick<CardData, "item" | "waiting" | "concept">} view */
  absence({ item, waiting, concept }) {
    if (item) return this.frame.querySelector(".item") ? "" : `${absenceOf(item)} Skip it to continue.`;
    if (!waiting) return "";
    return absence(waiting, concept.question);
  }

  /** Set the attributes that show which actions are possible; the style sheet and the tests read them. */
  refresh() {
    const { flow } = this;
    this.card.dataset.answerable = String(this.canAnswer("yes"));
    say(part(this.frame, ".predicted"), inWords(flow.item?.predicted));
    if (!flow.isAnswered) {
      clearTimeout(this.dimTimer);
      this.card.removeAttribute("data-waiting");
    }
    const answers = ["yes", "no", "skip", "unsure"];
    this.card.dataset.ahead = String(answers.filter((answer) => flow.after(answer)).length);
    const painted = this.paintedAt === null ? null : flow.item;
    this.card.dataset.paintedItem = String(painted?.id ?? "");
    this.card.dataset.paintedSelection = painted?.selection ?? "";
    for (const button of partsOf(this.card, "[data-answer]")) {
      const isUsable = !this.autopilot.isOn && this.canAnswer(button.dataset.answer ?? "");
      button.setAttribute("aria-disabled", String(!isUsable));
    }
    const canUndo = !this.autopilot.isOn && this.strip.last;
    part(this.card, "[data-undo]").setAttribute("aria-disabled", String(!canUndo));
    this.fullScan.show(this.data.check, flow.view, this.canAnswer("skip"));
    this.group.show(flow.item, this.data.group);
  }

  showStrip() {
    const pending = this.flow.outbox.queue.own.filter(
      ({ classes }) => Boolean(classes) === this.choices.areClasses,
    );
    this.strip.show(merged(this.data.strip, pending, this.pictures));
  }

  // Actions

  /** @param {string} action */
  canAnswer(action) {
    const seen = this.paintedAt !== null && this.flow.isOpen;
    return seen && (this.frame.querySelector(".item") !== null || action === "skip");
  }

  /**
   * @param {string} action
   * @param {boolean} isAll whether it is for all near-duplicates
   */
  answer(action, isAll) {
    if (!this.canAnswer(action)) return false;
    const time = Math.round(performance.now() - present(this.paintedAt));
    const given = this.choices.given(action);
    const group = this.group.answered(isAll);
    say(this.spoken, `${this.choices.nameOf(given)}${group.length ? ` for ${group.length + 1} items` : ""}.`);
    const meaning = this.choices.means(action, this.flow.concept);
    const following = this.flow.answer(given, meaning, time, group);
    if (following) this.goOn(following.image);
    this.changed();
    if (!following) this.dimTimer = setTimeout(() => this.card.setAttribute("data-waiting", ""), DIM_AFTER);
    return true;
  }

  /** @param {StripEntry | null} entry */
  undo(entry = this.strip.last) {
    if (!entry || this.flow.isUndoing) return false;
    this.flow.undo(entry, this.choices.given("undo"));
    say(this.spoken, "Undone.");
    this.changed();
    return true;
  }

  /**
   * @param {StripEntry} entry
   * @param {string} action another choice, or "undo"
   */
  correct(entry, action) {
    if (action === "undo") {
      this.undo(entry);
      return;
    }
    const given = this.choices.given(action);
    this.flow.correct(entry, given);
    this.changed();
    say(this.spoken, `Corrected to ${this.choices.nameOf(given)}.`);
  }

  /** Update the view after a new answer waits to be saved. */
  changed() {
    this.refusal = null;
    this.showStrip();
    this.refresh();
    this.showSaving();
  }

  /**
   * Perform a person's action; do nothing in the autopilot's session.
   *
   * @param {string} action
   * @param {boolean} [isAll] whether it is for all near-duplicates shown
   */
  act(action, isAll = false) {
    return !this.autopilot.isOn && this.give(action, isAll);
  }

  /**
   * @param {string} action
   * @param {boolean} [isAll]
   */
  give(action, isAll = false) {
    this.flash(action);
    return action === "undo" ? this.undo() : this.answer(action, isAll);
  }

  /**
   * Have the selection in view compared with a full scan.
   *
   * @param {string | null} selection
   */
  ask(selection) {
    if (this.line.isOpen) this.line.send(this.flow.outbox.queue.pending, { check: selection });
    else this.component.setStateValue("check", selection);
  }

  /** Pause the autopilot, so that only a person's answer changes the view. */
  holdStill() {
    this.autopilot.pause();
    this.refresh();
  }

  /** @param {string} action */
  flash(action) {
    const usable = action === "undo" ? this.strip.last : this.canAnswer(action);
    if (!usable) return;
    const button = part(this.card, action === "undo" ? "[data-undo]" : `[data-answer=${action}]`);
    button.classList.add("pressed");
    setTimeout(() => button.classList.remove("pressed"), PRESSED);
  }

  /** @param {KeyboardEvent} event */
  keyPressed(event) {
    if (!hasKeys(this)) return;
    if (isShortcut(event) || isField(event) || this.help.pressed(event)) return;
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
      this.act(action, isShifted(event));
    }
  }

  /**
   * Scroll a text with the page keys, wherever the focus is; return whether the key did so.
   *
   * @param {KeyboardEvent} event
   */
  leafed({ key }) {
    const sheet = this.frame.querySelector(".text");
    const pages = { PageDown: 0.9, PageUp: -0.9 }[key];
    if (!sheet || !pages) return false;
    sheet.scrollBy({ top: pages * sheet.clientHeight });
    return true;
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const button = around(targetOf(event), "[data-answer],[data-undo],.guideline,.look,.all");
    if (!button) return;
    if (button.matches(".look")) this.zoom.toggle();
    else if (button.matches(".all")) this.group.toggle();
    else if (button.matches(".guideline")) {
      unfoldGuideline(button);
    } else if (event.detail > 1 && event.timeStamp - (this.paintedAt ?? 0) < DOUBLE_CLICK) {
      return;
    } else this.act(button.dataset.answer ?? "undo");
  }

  // Saving and polling

  /**
   * Send answers. If the next image is in view already, first wait until it is drawn, because the server's work would
   * delay the drawing, and then send all answers that wait.
   *
   * @param {Answer[]} answers
   */
  async send(answers) {
    if (!this.flow?.isOpen) {
      this.line.send(answers);
      return;
    }
    await afterDrawing();
    const { pending } = this.flow.outbox.queue;
    if (pending.length && !this.abort.signal.aborted) this.line.send(pending);
  }

  /**
   * Ask for what has changed elsewhere, if it changes what is in view.
   *
   * @param {string} kind
   */
  heard(kind) {
    const { item, notes } = this.flow.view;
    const isNews = kind === "concept" || (kind === "pool" ? !item : kind === "index" && notes.awaited);
    if (isNews) this.line.send(this.flow.outbox.queue.pending);
  }

  /** @param {number} pause */
  poll(pause) {
    this.pollTimer = setTimeout(() => {
      this.line.send(this.flow.outbox.queue.pending);
      this.poll(POLL);
    }, pause);
  }

  showSaving() {
    const { outbox } = this.flow;
    this.card.dataset.saving = String(outbox.queue.own.length);
    const { message } = this.data;
    say(this.status, outbox.sentence(message) || (this.refusal ?? message ?? ""));
    clearTimeout(this.lateTimer);
    if (outbox.queue.own.length) this.lateTimer = setTimeout(() => this.showSaving(), TELL_EVERY);
  }
}

export default mounting(Card);
