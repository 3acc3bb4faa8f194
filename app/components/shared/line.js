// The line between a card and the server. Answers go out in HTTP requests, and the responses are payloads. If requests
// don't get through, the page's script runs instead, as it does for all other widgets of the page.

/** @import { AheadData, Answer, Http, Payload } from "../types" */

// Milliseconds.
const PATIENCE = 15_000; // after which a request counts as lost
const PATIENCE_AHEAD = 30_000; // the same for `awaitAhead`; the server waits for up to half of this time
export const PAUSES = [2000, 5000, 30_000]; // after failed requests; meanwhile, the page's script runs instead

const PROBLEM = "application/problem+json";
const NO_CREDENTIAL = 401;
const TOO_MANY = 429;
const UNAVAILABLE = 503; // the database can't be used now

/**
 * @template {Payload} Data
 * @typedef {object} Ends
 * @property {() => Answer[]} pending returns the answers that wait to be saved
 * @property {(answers: Answer[]) => void} script has the page's script store answers
 * @property {(data: Data) => void} show shows a payload
 * @property {() => boolean} isUrgent returns whether the person waits for an item: the server then doesn't wait for those
 *   that may follow
 */

/**
 * A payload, or why there is none.
 *
 * @template {Payload} Data
 * @typedef {{ data: Data | null, status: number, problem: string }} Reply
 */

/** @template {Payload} Data */
export class Line {
  /** @type {Ends<Data>} */
  #ends;
  /** @type {Data} */
  #data;
  /** @type {{ isUrgent: boolean }[]} */
  #sending = []; // requests that send answers
  /** @type {object} */
  #more = {}; // fields of the next request
  #shutUntil = 0;
  #failures = 0;
  #invalidKey = "";
  /** @type {string | null} */
  #awaited = null; // the selection whose following items are awaited
  #abort = new AbortController();

  /**
   * @param {Data} data the first payload
   * @param {Ends<Data>} ends
   */
  constructor(data, ends) {
    this.#data = data;
    this.#ends = ends;
  }

  /** Return whether requests are sent; if not, the page's script runs. */
  get isOpen() {
    const { http } = this.#data;
    return Boolean(http) && http?.key !== this.#invalidKey && performance.now() >= this.#shutUntil;
  }

  /**
   * Take a payload of the page's script, and return what to show.
   *
   * If a later payload has already come by a request, only the outcome of sent answers is taken from this one.
   *
   * @param {Data} data
   * @returns {Data}
   */
  take(data) {
    const { acked, refused, http } = data;
    this.#data = isOlder(data, this.#data) ? { ...this.#data, acked, refused, http } : data;
    return this.#data;
  }

  /**
   * Send answers to get the next payload.
   *
   * @param {Answer[]} answers
   * @param {object} [more] further fields of the request
   */
  send(answers, more = {}) {
    this.#more = { ...this.#more, ...more };
    if (!this.isOpen) this.#ends.script(answers);
    else if (this.#mayAsk) this.#exchange(answers);
  }

  /**
   * Wait for more items that may follow a selection, and show them. Return false if the request failed.
   *
   * @param {string} selection
   * @param {number} [known] number of answers whose next items are known
   * @returns {Promise<boolean>}
   */
  async awaitAhead(selection, known = 0) {
    if (!this.isOpen) return false;
    if (this.#awaited === selection) return true;
    this.#awaited = selection;
    const query = new URLSearchParams({ selection, known: String(known), view: this.#http.view });
    const { data } = await this.#request(`ahead?${query}`, PATIENCE_AHEAD);
    if (this.#awaited === selection) this.#awaited = null;
    if (this.#abort.signal.aborted) return true;
    const shown = /** @type {{ item?: { selection: string } | null }} */ (this.#data).item;
    if (shown?.selection !== selection) return true;
    if (data === null) return false;
    const part = /** @type {AheadData} */ (/** @type {unknown} */ (data));
    this.#show({ ...this.#data, ...part, acked: [], refused: [] });
    return true;
  }

  close() {
    this.#abort.abort();
  }

  get #http() {
    return /** @type {Http} */ (this.#data.http);
  }

  /**
   * Return whether another request may go out. Usually, one request is enough. But the server may hold it until it
   * knows the items that may follow. If the person waits for an item meanwhile, another request is sent, which is not
   * held.
   */
  get #mayAsk() {
    return (
      !this.#sending.length || (this.#ends.isUrgent() && !this.#sending.some(({ isUrgent }) => isUrgent))
    );
  }

  /** @param {Data} data */
  #show(data) {
    this.#data = data;
    this.#ends.show(data);
  }

  /** @param {Answer[]} answers */
  async #exchange(answers) {
    const { view, size } = this.#http;
    const request = { isUrgent: this.#ends.isUrgent() };
    const wait = request.isUrgent ? { wait: 0 } : {};
    const body = JSON.stringify({ view, ...(size ? { size } : {}), ...wait, answers, ...this.#more });
    this.#more = {};
    this.#sending.push(request);
    const reply = await this.#request("card", PATIENCE, { method: "POST", body });
    this.#sending = this.#sending.filter((other) => other !== request);
    if (this.#abort.signal.aborted) return;
    if (!this.#settle(reply)) return;
    const sent = new Set(answers.map(({ id }) => id));
    const pending = this.#ends.pending();
    const isMore = pending.some(({ id }) => !sent.has(id)) || Object.keys(this.#more).length > 0;
    if (isMore) this.send(pending);
  }

  /**
   * Show the outcome of a request; return whether the next may follow.
   *
   * @param {Reply<Data>} reply
   */
  #settle({ data, status, problem }) {
    if (data !== null) {
      const { http } = this.#data;
      const { acked, refused, message } = data;
      this.#failures = 0;
      this.#show(isOlder(data, this.#data) ? { ...this.#data, acked, refused, message } : { ...data, http });
      return true;
    }
    if (problem && (status === UNAVAILABLE || status === TOO_MANY)) {
      this.#show({ ...this.#data, acked: [], refused: [], message: problem });
      return false; // the outbox tries again
    }
    if (status === NO_CREDENTIAL) this.#invalidKey = this.#http.key;
    if (performance.now() >= this.#shutUntil) {
      this.#shutUntil = performance.now() + PAUSES[Math.min(this.#failures, PAUSES.length - 1)];
      this.#failures += 1; // two requests that are cut off together are one failure
    }
    this.#ends.script(this.#ends.pending());
    return false;
  }

  /**
   * @param {string} path
   * @param {number} patience
   * @param {RequestInit} [options]
   * @returns {Promise<Reply<Data>>}
   */
  async #request(path, patience, options = {}) {
    const { address, key } = this.#http;
    const signal = AbortSignal.any([this.#abort.signal, AbortSignal.timeout(patience)]);
    const headers = { "Content-Type": "application/json", "X-Closecall-Page": key };
    try {
      const place = new URL(`${address}/${path}`, document.baseURI);
      const response = await fetch(place, { ...options, headers, signal, cache: "no-store" });
      return await read(response);
    } catch {
      return { data: null, status: 0, problem: "" }; // cut off, or something else has responded
    }
  }
}

/**
 * @param {Response} response
 * @returns {Promise<Reply<any>>}
 */
async function read(response) {
  const { ok, status } = response;
  if (ok) return { data: await response.json(), status, problem: "" };
  const isOurs = response.headers.get("content-type")?.startsWith(PROBLEM);
  return { data: null, status, problem: isOurs ? (await response.json()).detail : "" };
}

/**
 * Return whether a payload was made before another one of the same process and session.
 *
 * @param {Payload} one
 * @param {Payload} other
 */
function isOlder(one, other) {
  const isOfOne = one.session === other.session && one.stamp?.process === other.stamp?.process;
  return isOfOne && (one.stamp?.number ?? 0) < (other.stamp?.number ?? 0);
}
