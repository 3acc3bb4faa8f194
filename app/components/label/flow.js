// The flow of items and answers through the card, without its appearance: the item in view, the views that follow its
// answers, and the answers waiting to be saved. Until the server has all of them, its payloads don't change the view.
//
// The simulated browsers of `closecall bench team` follow the same rules (app/experiments/bench/team/card.py);
// tests/fixtures/card.json checks both.

import { present } from "../shared/dom.js";
import { Outbox } from "../shared/outbox.js";
import { mayStillCome } from "../shared/waiting.js";
import { Ahead } from "./ahead.js";

/** @import { Answer, CardData, Following, Item, Measured, Settled, StripEntry } from "../types" */

/** @import { Picture } from "./ahead.js" */
/** @import { Given } from "./choices.js" */

/** @typedef {Pick<CardData, "item" | "round" | "notes" | "history" | "waiting" | "concept">} View */

const COURSE = 60; // rounds shown in the history of a number

// Milliseconds.
export const POLL = 700; // between requests while there is no item yet
export const POLL_AHEAD = 100; // between requests while the server computes the views that follow

export class Flow {
  /** @type {(answers: Answer[]) => void} */
  #send;
  /** @type {() => void} */
  #ready;
  #ahead;
  /** @type {CardData} */
  #data;
  /** @type {string} */
  #session;
  /** @type {Set<string | null | undefined>} */
  #answered = new Set(); // selections
  /** @type {Set<string>} */
  #former = new Set(); // ids of answers that an earlier load of the page left unsent; not undos and corrections
  /** @type {Set<number>} */
  #stored = new Set(); // items of such answers that are stored; forgotten when all answers are stored
  /** @type {string | null} */
  #undoing = null; // id of an undo that is not stored yet; the item in view may be about to change
  /** @type {CardData["turn"] | null} */
  #turn = null; // with several concepts, the one that selects next and the history of its numbers
  /** @type {Outbox} */
  outbox;
  /** @type {View} */
  view; // in view, or being loaded

  /**
   * Create the flow of one card.
   *
   * @param {CardData} data the first payload
   * @param {object} page
   * @param {(answers: Answer[]) => void} page.send sends answers to the server
   * @param {(item: Item) => Picture} page.picture returns an element that can be decoded
   * @param {() => void} [page.ready] called when the images that may follow the item in view are decoded
   */
  constructor(data, { send, picture, ready = () => {} }) {
    this.#send = send;
    this.#ready = ready;
    this.#ahead = new Ahead(picture);
    this.#data = data;
    this.#session = data.session;
    this.view = { ...data, item: null };
    this.outbox = this.#open(data);
  }

  get item() {
    return this.view.item;
  }

  get session() {
    return this.#session;
  }

  /** Return the concept that selects next; undefined unless there are several. */
  get concept() {
    return this.#turn?.concept;
  }

  /** Return whether the item in view has no answer yet, and no undo is being saved. */
  get isOpen() {
    return this.item !== null && !this.isAnswered && this.#undoing === null;
  }

  /**
   * Return whether the item in view has an answer. A server that was restarted doesn't know unsent answers, and may select
   * their items again.
   */
  get isAnswered() {
    const { item } = this;
    if (item === null || this.#answered.has(item.selection)) return item !== null;
    const waiting = this.outbox.queue.own.filter(({ id }) => this.#former.has(id)).flatMap(itemsOf);
    return this.#stored.has(item.id) || waiting.includes(item.id);
  }

  get isUndoing() {
    return this.#undoing !== null;
  }

  /** Return whether the server computes nothing but the views that follow. */
  get awaitsAhead() {
    const { next_is_coming, check, group, waiting } = this.#data;
    return next_is_coming && !check?.is_coming && !group?.is_coming && !mayStillCome(waiting);
  }

  /** Return the milliseconds until the card's next request, or null if nothing is pending on the server. */
  get pollAfter() {
    if (mayStillCome(this.#data.waiting)) return POLL;
    const { next_is_coming, check, group } = this.#data;
    return next_is_coming || check?.is_coming || group?.is_coming ? POLL_AHEAD : null;
  }

  /**
   * Start another session, or resume after another component was in use, which may have left answers in the queue.
   *
   * @param {CardData} data
   */
  begin(data) {
    this.#session = data.session;
    this.view = { ...data, item: null };
    this.outbox.close();
    this.outbox = this.#open(data);
  }

  /** @param {{ project: string, session: string }} data */
  #open({ project, session }) {
    const outbox = new Outbox(project, session, this.#send);
    const { own } = outbox.queue;
    this.#answered = new Set(own.map((answer) => answer.selection));
    const isPlain = (/** @type {Answer} */ { undoes, corrects }) => !undoes && !corrects;
    this.#former = new Set(own.filter(isPlain).map(({ id }) => id));
    this.#stored.clear();
    this.#undoing = own.findLast((answer) => answer.answer === "undo")?.id ?? null;
    return outbox;
  }

  /**
   * Process the outcome of sent answers; return why the last one was refused, or null.
   *
   * @param {Settled} settled
   * @returns {string | null}
   */
  settle({ acked, refused }) {
    const { own, pending } = this.outbox.queue;
    const selections = new Map(pending.map(({ id, selection }) => [id, selection]));
    const stored = own.filter(({ id }) => this.#former.has(id) && acked.includes(id));
    for (const item of stored.flatMap(itemsOf)) this.#stored.add(item);
    let refusal = null;
    for (const [id, reason] of this.outbox.settle(acked, refused)) {
      this.#answered.delete(selections.get(id));
      refusal = reason;
    }
    if (!this.outbox.queue.own.some(({ id }) => id === this.#undoing)) this.#undoing = null;
    if (!this.outbox.queue.own.length) this.#stored.clear();
    return refusal;
  }

  /**
   * Take the view of a payload; return "another" or "same" for its item, or "kept" if the view stays for now.
   *
   * @param {CardData} data
   * @returns {"another" | "same" | "kept"}
   */
  take(data) {
    this.#data = data;
    const { item, round, notes, history, waiting, concept } = data;
    const before = this.item;
    // The server doesn't have all answers yet, and the item in view may follow the last of them.
    const isKept = before !== null && this.outbox.queue.own.length > 0;
    const isSame = item !== null && item.selection === before?.selection;
    if (isSame && before) before.predicted = item.predicted; // the settings may show or hide it
    if (!isKept) this.view = { item: isSame ? before : item, round, notes, history, waiting, concept };
    return isKept ? "kept" : isSame ? "same" : "another";
  }

  /** Decode the payload's views for each answer to the item in view. */
  lookAhead() {
    const { item, next, pictures, turn } = this.#data;
    if (!item || item.selection !== this.item?.selection) return;
    this.#turn = turn ?? null;
    this.#ahead.take(item.selection, next, pictures, this.#ready);
  }

  /**
   * Return the view and decoded image that follow an answer, or null if the server must be asked first.
   *
   * @param {string} answer
   */
  after(answer) {
    return this.#ahead.after(this.item?.selection, answer);
  }

  /**
   * Answer the item in view and show the view that follows, if it is ready; return that view and its image, or null.
   *
   * The prepared views suppose an answer about the item in view alone. After an answer about a group, they may show a
   * near-duplicate of an item that was just answered, so the server is asked.
   *
   * @param {Given} given the answer as it is sent to the server
   * @param {string} meaning the answer that it gives for the concept that selects next
   * @param {number} time_taken_ms
   * @param {number[]} [group] other items that get the same answer
   */
  answer(given, meaning, time_taken_ms, group = []) {
    const { id, selection } = present(this.item);
    const following = group.length ? null : this.after(meaning);
    this.#answered.add(selection);
    if (following) this.#goOn(following.view);
    const next = following?.view.item.selection ?? null;
    const more = group.length ? { group } : {};
    this.outbox.add({ item: id, selection, ...given, ...more, next, time_taken_ms });
    return following;
  }

  /**
   * Undo an answer of this session.
   *
   * @param {StripEntry} last
   * @param {Given} given
   */
  undo(last, given) {
    this.#undoing = this.outbox.add({ item: last.item, ...given, undoes: last.answer_id, next: null });
  }

  /**
   * @param {StripEntry} entry
   * @param {Given} given
   */
  correct(entry, given) {
    this.outbox.add({ item: entry.item, ...given, corrects: entry.answer_id, next: null });
  }

  /** @param {Following} following */
  #goOn({ item, round, notes, concept }) {
    const past = this.#turn?.history ?? this.view.history;
    const names = /** @type {Measured[]} */ (Object.keys(past));
    const history = Object.fromEntries(
      names.map((name) => [name, [...past[name], notes[name]].slice(-COURSE)]),
    );
    this.view = { ...this.view, item, round, notes, history, concept: { ...this.view.concept, ...concept } };
  }
}

/**
 * Return the items that an answer is about.
 *
 * @param {Answer} answer
 */
function itemsOf({ item, group = [] }) {
  return [item, ...group];
}
