// The flow of items and answers through the card, without its looks: what is in view, what follows an answer, which
// answers wait to be saved. Until the server knows all of them, it changes nothing that is in view.
//
// The simulated browsers of `closecall bench team` follow the same rules (app/experiments/bench/team/card.py), and
// tests/fixtures/card.json holds both to them.

import { present } from "../shared/dom.js";
import { Outbox } from "../shared/outbox.js";
import { Ahead } from "./ahead.js";

/** @import { Answer, CardData, Following, Item, Measured, Settled, StripEntry, Waiting } from "../types" */

/** @import { Picture } from "./ahead.js" */
/** @import { Given } from "./choices.js" */

/** @typedef {Pick<CardData, "item" | "round" | "notes" | "history" | "waiting" | "concept">} View */

const COURSE = 60; // rounds that the course of a number shows

// Milliseconds.
export const POLL = 700; // while there is no item yet
export const POLL_AHEAD = 100; // while the server still computes what follows

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
  /** @type {string | null} */
  #undoing = null; // id of an undo that is not stored yet: what is in view may be about to change
  /** @type {CardData["turn"] | null} */
  #turn = null; // of several concepts, the one that chooses next, and the course of its numbers
  /** @type {Outbox} */
  outbox;
  /** @type {View} */
  view; // what is in view, or being loaded

  /**
   * `data` is the first payload. `send(answers)` hands answers over, `picture(item)` makes what can be decoded, and
   * `ready()` is called when what follows the item in view is decoded.
   *
   * @param {CardData} data
   * @param {object} page
   * @param {(answers: Answer[]) => void} page.send
   * @param {(item: Item) => Picture} page.picture
   * @param {() => void} [page.ready]
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

  /** The concept that chooses next, of several. */
  get concept() {
    return this.#turn?.concept;
  }

  /** Whether the item in view has no answer yet. */
  get isOpen() {
    return this.item !== null && !this.isAnswered && this.#undoing === null;
  }

  get isAnswered() {
    return this.item !== null && this.#answered.has(this.item.selection);
  }

  get isUndoing() {
    return this.#undoing !== null;
  }

  /** How long until the card asks again by itself; null where nothing is to come. */
  get pollAfter() {
    if (mayStillCome(this.#data.waiting)) return POLL;
    return this.#data.next_is_coming || this.#data.check?.is_coming ? POLL_AHEAD : null;
  }

  /**
   * Begin with another session; also where another component had its turn, which may have left answers in the queue.
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
    this.#undoing = own.findLast((answer) => answer.answer === "undo")?.id ?? null;
    return outbox;
  }

  /**
   * What a payload says of answers; returns why the last one was refused, null where none was.
   *
   * @param {Settled} settled
   * @returns {string | null}
   */
  settle({ acked, refused }) {
    const selections = new Map(this.outbox.queue.pending.map(({ id, selection }) => [id, selection]));
    let refusal = null;
    for (const [id, reason] of this.outbox.settle(acked, refused)) {
      this.#answered.delete(selections.get(id));
      refusal = reason;
    }
    if (!this.outbox.queue.own.some(({ id }) => id === this.#undoing)) this.#undoing = null;
    return refusal;
  }

  /**
   * Take up what a payload shows; returns whether that is "another" item, the "same", or not for now ("kept").
   *
   * @param {CardData} data
   * @returns {"another" | "same" | "kept"}
   */
  take(data) {
    this.#data = data;
    const { item, round, notes, history, waiting, concept } = data;
    const before = this.item;
    // The server doesn't know all answers yet, and the item in view may follow the last of them.
    const isKept = before !== null && this.outbox.queue.own.length > 0;
    const isSame = item !== null && item.selection === before?.selection;
    if (!isKept) this.view = { item: isSame ? before : item, round, notes, history, waiting, concept };
    return isKept ? "kept" : isSame ? "same" : "another";
  }

  /** Make ready what the payload has for each answer to the item in view. */
  lookAhead() {
    const { item, next, pictures, turn } = this.#data;
    if (!item || item.selection !== this.item?.selection) return;
    this.#turn = turn ?? null;
    this.#ahead.take(item.selection, next, pictures, this.#ready);
  }

  /**
   * What follows an answer at once: its view, and its decoded image; null where the server has to be waited for.
   *
   * @param {string} answer
   */
  after(answer) {
    return this.#ahead.after(this.item?.selection, answer);
  }

  /**
   * Answer the item in view, and go on to what follows, if it is known. `given` is what the server gets, `meaning`
   * what that says to the concept that chooses next.
   *
   * @param {Given} given
   * @param {string} meaning
   * @param {number} time_taken_ms
   */
  answer(given, meaning, time_taken_ms) {
    const { id, selection } = present(this.item);
    const following = this.after(meaning);
    this.#answered.add(selection);
    if (following) this.#goOn(following.view);
    const next = following?.view.item.selection ?? null;
    this.outbox.add({ item: id, selection, ...given, next, time_taken_ms });
    return following;
  }

  /**
   * Take back `last`, an answer of this session.
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
 * Whether an item will come without anybody's doing.
 *
 * @param {Waiting | null} waiting
 */
export function mayStillCome(waiting) {
  return waiting !== null && (!waiting.exhausted || waiting.done < waiting.total);
}
