// The flow of items and answers through the card, without its looks: what is in view, what follows an answer, which
// answers wait to be saved. Until the server knows all of them, it changes nothing that is in view.
//
// The simulated browsers of `closecall bench team` follow the same rules (app/experiments/bench/team/card.py), and
// tests/fixtures/card.json holds both to them.

import { Outbox } from "../shared/outbox.js";
import { Ahead } from "./ahead.js";

const COURSE = 60; // rounds that the course of a number shows

// Milliseconds.
export const POLL = 700; // while there is no item yet
export const POLL_AHEAD = 100; // while the server still computes what follows

export class Flow {
  #send;
  #ready;
  #ahead;
  #data = null;
  #session = null;
  #answered = new Set(); // selections
  #undoing = null; // id of an undo that is not stored yet: what is in view may be about to change
  #turn = null; // of several concepts, the one that chooses next, and the course of its numbers
  outbox = null;
  view = null; // what is in view, or being loaded: item, round, notes, history, waiting, concept

  /**
   * `send(answers)` hands answers over, `picture(item)` makes what can be decoded, and `ready()` is called when what
   * follows the item in view is decoded.
   */
  constructor({ send, picture, ready = () => {} }) {
    this.#send = send;
    this.#ready = ready;
    this.#ahead = new Ahead(picture);
  }

  get item() {
    return this.view?.item ?? null;
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

  /** Begin with a session; also where another component had its turn, which may have left answers in the queue. */
  begin({ project, session }) {
    this.#session = session;
    this.view = null;
    this.outbox?.close();
    this.outbox = new Outbox(project, session, this.#send);
    const { own } = this.outbox.queue;
    this.#answered = new Set(own.map((answer) => answer.selection));
    this.#undoing = own.findLast((answer) => answer.answer === "undo")?.id ?? null;
  }

  /** What a payload says of answers; returns why the last one was refused, null where none was. */
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

  /** Take up what a payload shows; returns whether that is "another" item, the "same", or not for now ("kept"). */
  take(data) {
    this.#data = data;
    const { item, round, notes, history, waiting, concept } = data;
    const before = this.item;
    // The server doesn't know all answers yet, and the item in view may follow the last of them.
    const isKept = before !== null && this.outbox.queue.own.length > 0;
    const isSame = Boolean(item) && item.selection === before?.selection;
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

  /** What follows an answer at once: its view, and its decoded image; null where the server has to be waited for. */
  after(answer) {
    return this.#ahead.after(this.item?.selection, answer);
  }

  /**
   * Answer the item in view, and go on to what follows, if it is known. `given` is what the server is told, `meaning`
   * what that says to the concept that chooses next.
   */
  answer(given, meaning, time_taken_ms) {
    const { id, selection } = this.item;
    const following = this.after(meaning);
    this.#answered.add(selection);
    if (following) this.#goOn(following.view);
    const next = following?.view.item.selection ?? null;
    this.outbox.add({ item: id, selection, ...given, next, time_taken_ms });
    return following;
  }

  /** Take back `last`, an answer of this session. */
  undo(last, given) {
    this.#undoing = this.outbox.add({ item: last.item, ...given, undoes: last.answer_id, next: null });
  }

  correct(entry, given) {
    this.outbox.add({ item: entry.item, ...given, corrects: entry.answer_id, next: null });
  }

  #goOn({ item, round, notes, concept }) {
    const past = Object.entries(this.#turn?.history ?? this.view.history);
    const longer = past.map(([name, values]) => [name, [...values, notes[name]].slice(-COURSE)]);
    const history = Object.fromEntries(longer);
    this.view = { ...this.view, item, round, notes, history, concept: { ...this.view.concept, ...concept } };
  }
}

/** Whether an item will come without anybody's doing. */
export function mayStillCome(waiting) {
  return waiting !== null && (!waiting.exhausted || waiting.done < waiting.total);
}
