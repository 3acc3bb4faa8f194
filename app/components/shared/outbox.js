// Sends a queue of answers to the server, repeatedly until each one is acknowledged or refused.

import { newId } from "./dom.js";
import { Queue } from "./queue.js";
import { Revival } from "./revive.js";

/** @import { Answer, NewAnswer, Refusal } from "../types" */

// Milliseconds.
export const RETRIES = [2000, 3000, 5000, 8000];
const SAVING_AFTER = 1000; // answers unsaved for longer than this are mentioned
const OFFLINE_AFTER = 5000;

export class Outbox {
  /** @type {(answers: Answer[]) => void} */
  #send;
  #failures = 0;
  #revival = new Revival();
  /** @type {number | undefined} */
  #timer;

  /**
   * Create the outbox; `send(answers)` sends answers without knowing whether they arrive.
   *
   * @param {string} project
   * @param {string} session
   * @param {(answers: Answer[]) => void} send
   */
  constructor(project, session, send) {
    this.queue = new Queue(project, session);
    this.#send = send;
    if (this.queue.size) this.send();
  }

  /**
   * Keep an answer until the server has it; return its id.
   *
   * @param {NewAnswer} answer
   */
  add(answer) {
    return this.addAll([answer])[0];
  }

  /**
   * Keep several answers and send them together; return their ids.
   *
   * @param {NewAnswer[]} answers
   */
  addAll(answers) {
    const blank = { selection: null, undoes: null, corrects: null, time_taken_ms: null };
    const browser_time = Date.now();
    const kept = answers.map((answer) => ({ id: newId(), ...blank, browser_time, ...answer }));
    for (const answer of kept) this.queue.add(answer);
    this.send();
    return kept.map(({ id }) => id);
  }

  /**
   * Process the outcome of sent answers; return the reasons of refusals by id.
   *
   * @param {string[]} acked
   * @param {Refusal[]} refused
   */
  settle(acked, refused) {
    const known = this.queue.size;
    this.#revival.reset();
    this.queue.settle(acked);
    const reasons = new Map();
    for (const { id, reason } of refused) {
      if (this.queue.settle([id]).length) reasons.set(id, reason);
    }
    if (this.queue.size < known) this.#failures = 0;
    if (!this.queue.size) clearTimeout(this.#timer);
    // The next request must not send the refused answers again.
    if (reasons.size) this.#send(this.queue.pending);
    return reasons;
  }

  /**
   * Send all pending answers and schedule a retry.
   *
   * Answers of other sessions may belong to a database that is not being served, so they get only a few retries.
   */
  send() {
    clearTimeout(this.#timer);
    if (!this.queue.size) return;
    this.#send(this.queue.pending);
    const pause = RETRIES[Math.min(this.#failures, RETRIES.length - 1)];
    this.#timer = setTimeout(() => {
      this.#failures += 1;
      this.#revival.consider(this.queue);
      if (this.queue.own.length || this.#failures < RETRIES.length) this.send();
    }, pause);
  }

  close() {
    clearTimeout(this.#timer);
  }

  /**
   * Return a sentence about unsaved answers, empty unless one has been waiting for more than a second.
   *
   * @param {string | null} reason the server's explanation, if there is one
   */
  sentence(reason) {
    const waiting = this.queue.own;
    if (!waiting.length) return "";
    const age = Date.now() - Math.min(...waiting.map((answer) => answer.browser_time));
    const answers = waiting.length === 1 ? "1 answer waits" : `${waiting.length} answers wait`;
    const where = this.queue.durable ? "in this browser" : "in this tab";
    const advice = this.queue.durable ? ", to be saved as soon as possible" : ": keep it open";
    if (age > OFFLINE_AFTER)
      return `${reason || "No connection to the server"}. ${answers} ${where}${advice}.`;
    return age > SAVING_AFTER ? `${answers} ${where}` : "";
  }
}
