// Find similar: the nearest items, which are selected with clicks or keys and answered together. State that must
// outlive a payload is kept on the root element.

import { around, element, newId, painted, part, partsOf, present, say, targetOf } from "../shared/dom.js";
import { whole } from "../shared/figures.js";
import { Help } from "../shared/help.js";
import { hasKeys, isField, isShortcut, releaseFocus, takeKeys, watchPickers } from "../shared/keys.js";
import { mounting } from "../shared/mount.js";
import { Outbox } from "../shared/outbox.js";
import { ABOUT, keysOf } from "./help.js";
import { Like } from "./like.js";
import { Margin } from "./margin.js";
import { Picks } from "./picks.js";
import { Reader } from "./reader.js";
import { standing, Tiles } from "./tiles.js";

/** @import { About, Component, Like as Query, Measure, SimilarCell, SimilarData, Taught, Word } from "../types" */

/** @type {Record<Measure, string>} */
const VALUES = { angle: "angles", distance: "distances", kernel: "kernel values", overlap: "overlaps" };
const STEPS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];
/** @type {Record<string, number>} */
const PAGES = { pageup: -1, pagedown: 1 };

// Milliseconds.
const DIM_AFTER = 150; // longer waits dim the tiles
const PRESSED_FOR = 120; // how long a button looks pressed
const TELL_EVERY = 1000; // between updates of the number of unsaved answers and the metric's age
const ASK_EVERY = 700; // between requests while something is being prepared

class Similar {
  /**
   * @param {ShadowRoot} root
   * @param {Component<SimilarData>} component
   */
  constructor(root, component) {
    this.root = root;
    this.component = component;
    this.data = component.data;
    this.cameAt = performance.now();
    root.host?.setAttribute("data-runs", "");
    this.card = part(root, ".card");
    this.spoken = part(root, ".spoken");
    this.tiles = new Tiles(part(root, ".lists"));
    this.margin = new Margin(this.card);
    this.reader = new Reader(part(root, ".reader"));
    this.like = new Like(this.card, {
      ask: (word) => this.ask(word),
      upload: (image) => this.component.setTriggerValue("upload", image),
      selected: () => this.lookForSelected(),
    });
    this.picks = new Picks();
    takeKeys(this);
    this.session = this.data.session;
    this.outbox = this.openOutbox();
    /** @type {string | null} */
    this.refusal = null;
    this.hint = "";
    /** @type {string | null} */
    this.current = null; // names of the cells in view
    /** @type {number | null} */
    this.paintedAt = null;
    this.help = new Help(this.card, () => ({ about: ABOUT, keys: keysOf(this.data.similar) }));
    this.abort = new AbortController();
    const { signal } = this.abort;
    document.addEventListener("keydown", (event) => this.keyPressed(event), { signal });
    watchPickers(signal);
    this.card.addEventListener("click", (event) => this.clicked(event), { signal });
    /** @type {(event: PointerEvent) => void} */
    const pointed = (event) => {
      if (event.pointerType === "mouse") this.pointed(event);
    };
    this.card.addEventListener("pointerover", pointed, { signal });
    this.card.addEventListener("pointerleave", pointed, { signal });
    window.addEventListener("online", () => this.outbox.send(), { signal });
    this.tellTimer = setInterval(() => this.tell(), TELL_EVERY);
    releaseFocus();
  }

  close() {
    this.abort.abort();
    this.outbox.close();
    clearInterval(this.tellTimer);
    this.reader.close();
    for (const timer of [this.dimTimer, this.askTimer]) clearTimeout(timer);
  }

  /**
   * Show a new payload from the server.
   *
   * @param {Component<SimilarData>} component
   */
  update(component) {
    this.component = component;
    this.data = component.data;
    this.cameAt = performance.now();
    const { session, acked, refused, cells, similar } = this.data;
    if (session !== this.session || !hasKeys(this)) this.begin();
    for (const reason of this.outbox.settle(acked, refused).values()) this.refusal = reason;
    if (namesOf(cells) !== this.current) this.paint(cells);
    this.show();
    clearTimeout(this.askTimer);
    if (similar.pending) this.askTimer = setTimeout(() => this.send("beat", newId()), ASK_EVERY);
    this.undim();
  }

  begin() {
    takeKeys(this);
    this.session = this.data.session;
    this.current = null;
    this.outbox.close();
    this.outbox = this.openOutbox();
  }

  openOutbox() {
    return new Outbox(this.data.project, this.session, (answers) => this.send("pending", answers));
  }

  /**
   * @param {string} name
   * @param {unknown} value
   */
  send(name, value) {
    this.component.setStateValue(name, value);
  }

  /** @param {SimilarCell[]} cells */
  async paint(cells) {
    this.current = namesOf(cells);
    this.picks = new Picks(cells, this.picks);
    this.paintedAt = null;
    const lists = [...new Set(cells.map((cell) => cell.list))];
    this.reader.close();
    this.tiles.paint(cells, lists);
    const mine = this.current;
    /** @type {HTMLImageElement[]} */
    const images = partsOf(this.root, ".tile img");
    await Promise.allSettled(images.map((image) => image.decode()));
    await painted();
    if (this.current !== mine) return;
    this.paintedAt = performance.now();
    this.show();
  }

  // The view

  show() {
    const { similar, notes, cells, message } = this.data;
    const { first, page, found, total, like } = similar;
    const shown = Math.min(page, Math.max(0, found - first));
    say(part(this.root, ".title"), titleOf(first, shown, total, like));
    say(part(this.root, ".how"), howOf(similar));
    const nothing = like
      ? similar.problem
        ? ""
        : "Searching for the nearest items…"
      : `Choose what to search for: ${similar.kind === "image" ? "upload an image, " : ""}take all your yes answers, or the ${similar.kind} on Label.`;
    say(part(this.root, ".placeholder"), cells.length ? "" : nothing);
    this.like.show(similar, this.oneSelected() !== null);
    this.tell();
    this.tiles.show(this.picks);
    const n = this.picks.chosen.length;
    part(this.root, ".selected").replaceChildren(element("b", {}, String(n)), " selected");
    part(this.root, ".pager").hidden = found <= page;
    part(this.root, ".sending").hidden = !cells.length && !similar.undo.length;
    say(part(this.root, ".place"), `${whole(first + 1)}–${whole(first + shown)}`);
    this.card.dataset.state = cells.length ? "shown" : "empty";
    this.card.dataset.answerable = String(this.canAnswer);
    this.card.dataset.painted = this.paintedAt === null ? "" : cells.map((cell) => cell.id).join(" ");
    this.card.dataset.pending = String(similar.pending);
    this.card.dataset.like = like?.word ?? "";
    const usable = {
      "[data-answer=no]": this.canAnswer && this.toAnswer.length > 0,
      "[data-answer=yes]": this.canAnswer && this.toAnswer.length > 0,
      "[data-undo]": this.canAnswer && similar.undo.length > 0,
      "[data-turn='-1']": first > 0,
      "[data-turn='1']": first + page < found,
    };
    for (const [button, is] of Object.entries(usable)) {
      part(this.root, button).setAttribute("aria-disabled", String(!is));
    }
    this.message = message;
    this.notes = notes;
  }

  /** Show what changes without a payload: the number of unsaved answers and the metric's age. */
  tell() {
    const { similar, notes, message } = this.data;
    const { metric } = similar;
    const age = metric.age === null ? null : metric.age + (performance.now() - this.cameAt) / 1000;
    this.margin.show({ ...similar, metric: { ...metric, age } }, notes.counts);
    this.card.dataset.saving = String(this.outbox.queue.own.length);
    say(
      part(this.root, ".status"),
      this.outbox.sentence(message) || this.refusal || this.hint || message || "",
    );
  }

  get sent() {
    return this.outbox.queue.own.length > 0;
  }

  get canAnswer() {
    return this.paintedAt !== null && !this.sent;
  }

  /**
   * Return the cells that an answer would apply to: the selected ones, else the one under the keyboard cursor.
   *
   * @returns {SimilarCell[]}
   */
  get toAnswer() {
    const { chosen, cells, cursor } = this.picks;
    if (chosen.length) return chosen;
    const under = cells[cursor];
    return this.card.dataset.keys === "true" && under?.selection ? [under] : [];
  }

  dim() {
    clearTimeout(this.dimTimer);
    this.dimTimer = setTimeout(() => this.card.setAttribute("data-waiting", ""), DIM_AFTER);
  }

  undim() {
    if (this.sent) return;
    clearTimeout(this.dimTimer);
    this.card.removeAttribute("data-waiting");
  }

  // Actions

  /**
   * @param {string} like
   * @param {number} first
   */
  ask(like, first = 0) {
    this.hint = "";
    this.dim();
    this.send("asked", { id: newId(), like, first });
  }

  /** @param {number} step */
  turn(step) {
    const { first, page, found, like } = this.data.similar;
    const to = first + step * page;
    if (like && to >= 0 && to < found) this.ask(like.word, to);
  }

  /**
   * Return the selected cell, else the one under the keyboard cursor; null if several are selected or there is none.
   *
   * @returns {SimilarCell | null}
   */
  oneSelected() {
    const { chosen, cells, cursor } = this.picks;
    if (chosen.length) return chosen.length === 1 ? chosen[0] : null;
    return this.card.dataset.keys === "true" ? (cells[cursor] ?? null) : null;
  }

  lookForSelected() {
    const one = this.oneSelected();
    if (one) {
      this.picks.clear();
      this.ask(String(one.id));
    } else {
      this.hint = `Select one ${this.data.similar.kind} to find similar ones.`;
      this.tell();
    }
  }

  /** @param {Word} word */
  answer(word) {
    const cells = this.toAnswer;
    if (!this.canAnswer || !cells.length) return;
    this.flash(`[data-answer=${word}]`);
    const time_taken_ms = Math.round((performance.now() - present(this.paintedAt)) / cells.length);
    this.picks.clear();
    this.refusal = null;
    this.hint = "";
    this.outbox.addAll(
      cells.map(({ id: item, selection }) => ({ item, selection, answer: word, time_taken_ms })),
    );
    say(this.spoken, `${cells.length} answered ${word}.`);
    this.dim();
    this.show();
  }

  undo() {
    const { undo } = this.data.similar;
    if (!this.canAnswer || !undo.length) return;
    this.flash("[data-undo]");
    this.outbox.addAll(undo.map(({ item, undoes }) => ({ item, answer: "undo", undoes })));
    say(this.spoken, `${undo.length} undone.`);
    this.dim();
    this.show();
  }

  /**
   * @param {number} place
   * @param {boolean} extend
   */
  pick(place, extend) {
    const cell = this.picks.cells[place];
    if (!cell) return;
    this.hint = cell.selection
      ? ""
      : `${cell.alt} is ${standing(cell)}${cell.stands === "held" ? "" : "; you can change it on Review"}.`;
    if (extend) this.picks.extend(place);
    else this.picks.toggle(place);
    this.reader.follow(cell);
    this.show();
  }

  /**
   * @param {string} key
   * @param {boolean} extend
   */
  move(key, extend) {
    if (!this.picks.cells.length) return;
    const isFirst = this.card.dataset.keys !== "true";
    this.card.dataset.keys = "true";
    const to = isFirst ? this.picks.cursor : this.tiles.toward(this.picks.cursor, key);
    if (extend) this.picks.extend(to);
    else this.picks.move(to);
    this.show();
    this.tiles.follow(to);
    this.reader.follow(this.picks.cells[to]);
  }

  /**
   * Open the text at a place, or close it if it is open.
   *
   * @param {number} place
   */
  read(place) {
    const cell = this.picks.cells[place];
    if (cell?.text) this.picks.cursor = place;
    this.reader.toggle(cell);
    this.show();
  }

  /**
   * Let the reader follow the mouse.
   *
   * @param {PointerEvent} event
   */
  pointed(event) {
    if (event.type === "pointerleave") this.reader.over(null);
    else
      this.reader.over(
        this.picks.cells[this.tiles.placeOf(targetOf(event))] ?? null,
        around(targetOf(event), ".reader") !== null,
      );
  }

  /** @param {string} selector */
  flash(selector) {
    const button = part(this.root, selector);
    button.classList.add("pressed");
    setTimeout(() => button.classList.remove("pressed"), PRESSED_FOR);
  }

  /** @param {KeyboardEvent} event */
  keyPressed(event) {
    if (!hasKeys(this) || isShortcut(event) || isField(event) || this.help.pressed(event)) return;
    const action = this.actionOf(event);
    if (!action) return;
    event.preventDefault();
    if (!event.repeat || STEPS.includes(event.key)) action();
  }

  /**
   * @param {KeyboardEvent} event
   * @returns {(() => void) | null}
   */
  actionOf(event) {
    const key = event.key.toLowerCase();
    const target = /** @type {Element} */ (event.composedPath()[0]);
    const onTile = this.tiles.placeOf(target);
    if (STEPS.includes(event.key)) return () => this.move(event.key, event.shiftKey);
    if (key === "y" || key === "n") return () => this.answer(key === "y" ? "yes" : "no");
    if (key === "u" || key === "backspace") return () => this.undo();
    if (key === "a") return () => this.all();
    if (key === "l") return () => this.lookForSelected();
    if (key in PAGES)
      return () => (this.reader.isKept ? this.reader.scroll(PAGES[key]) : this.turn(PAGES[key]));
    if (key === "z" && this.data.similar.kind === "text") return () => this.read(this.picks.cursor);
    if (key === "escape" && this.reader.isOpen) return () => this.reader.close();
    if (key === "escape" && this.picks.chosen.length) return () => this.clear();
    if ((key === " " || key === "enter") && onTile >= 0) {
      return () => {
        this.card.dataset.keys = "true";
        this.pick(onTile, event.shiftKey);
      };
    }
    return null;
  }

  all() {
    this.picks.all();
    this.show();
  }

  clear() {
    this.picks.clear();
    this.show();
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const place = this.tiles.placeOf(targetOf(event));
    const toRead = this.tiles.placeToRead(targetOf(event));
    const button = around(targetOf(event), "[data-answer],[data-undo],[data-turn],[data-close]");
    if (toRead >= 0) this.read(toRead);
    else if (place >= 0) {
      this.card.dataset.keys = "false";
      this.pick(place, event.shiftKey);
    } else if (button?.dataset.answer) this.answer(/** @type {Word} */ (button.dataset.answer));
    else if (button?.dataset.turn) this.turn(Number(button.dataset.turn));
    else if (button?.dataset.close !== undefined) this.reader.close();
    else if (button) this.undo();
    // Keys act on the images again, not on the button that was clicked.
    if (button && event.detail > 0) button.blur();
  }
}

/**
 * @param {number} first
 * @param {number} shown
 * @param {number} total
 * @param {Query | null} like
 */
function titleOf(first, shown, total, like) {
  if (!like) return "Find similar";
  if (!shown) return "Nothing to show";
  const of = `of ${whole(total)}`;
  return first
    ? `${whole(first + 1)} to ${whole(first + shown)} of the nearest ${of}`
    : `The ${whole(shown)} nearest ${of}`;
}

/** @param {About} about */
function howOf({ search, like, view, metric }) {
  if (!search) return "";
  const { method, awaited, in_full: full, compared, items, measure, taught } = search;
  const values = VALUES[measure];
  const original =
    view !== "original" && metric.labels == null
      ? "No metric is learned yet, so these are by the original one. "
      : "";
  const near =
    original +
    (like?.word === "yes" && like.of > 1 ? `${capitalized(values)} are to the nearest yes answer. ` : "");
  if (awaited?.problem) return `${near}${awaited.problem}. The exact scan is used instead.`;
  if (awaited)
    return `${near}The exact scan is used while ${awaited.label} is being prepared, ${Math.floor(100 * awaited.share)}\u00a0%.`;
  if (search.is_exact) return `${near}${method}: every item’s angle was computed.`;
  const codes = compared < items ? `${whole(compared)} codes` : "all codes";
  return `${near}${method}: ${codes} compared, ${whole(full)} ${values} computed.${taught ? ` ${lessonOf(taught)}` : ""}`;
}

/** @param {string} word */
const capitalized = (word) => word[0].toUpperCase() + word.slice(1);

/**
 * Return a sentence about the number of answers that the codes learned from.
 *
 * @param {Taught} taught
 */
function lessonOf({ used, of, paired, pairs }) {
  const some =
    used < of ? `${whole(used)} of ${whole(of)} answers, drawn at random` : `${whole(used)} answers`;
  const kernel =
    paired !== null && pairs !== null
      ? `, their kernel from at most ${whole(pairs)} pairs of ${whole(paired)} of these`
      : "";
  return `The codes learned from ${some}${kernel}.`;
}

/** @param {SimilarCell[]} cells */
function namesOf(cells) {
  return cells.map(({ id, list, selection, stands }) => `${list} ${id} ${selection ?? stands}`).join(",");
}

export default mounting(Similar);
