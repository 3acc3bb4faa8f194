// What the modules need of a browser, for tests: a store that can be full, a clock that tests move on, and keys.

import { webcrypto } from "node:crypto";

globalThis.crypto ??= webcrypto; // node 18 has none of its own

const QUOTA = "The quota has been exceeded.";

/** As `localStorage`: its keys are its own properties. */
export class Store {
  #room;
  #isForbidden;

  constructor(entries = {}, { room = Infinity, isForbidden = false } = {}) {
    Object.assign(this, entries);
    this.#room = room;
    this.#isForbidden = isForbidden;
  }

  /** Limit the number of entries from now on. */
  fill(room = Object.keys(this).length) {
    this.#room = room;
  }

  getItem(key) {
    this.#check();
    return Object.hasOwn(this, key) ? this[key] : null;
  }

  setItem(key, value) {
    this.#check();
    const others = Object.keys(this).filter((other) => other !== key);
    if (others.length >= this.#room) throw new DOMException(QUOTA, "QuotaExceededError");
    this[key] = String(value);
  }

  removeItem(key) {
    this.#check();
    delete this[key];
  }

  #check() {
    if (this.#isForbidden) throw new DOMException("The operation is insecure.", "SecurityError");
  }
}

/** Make `store` the browser's; pages that are made over it are tabs, or reloads, of one browser. */
export function useStore(store = new Store()) {
  define("localStorage", store);
  return store;
}

export class Clock {
  now = 1_700_000_000_000;
  #timers = new Map();
  #last = 0;

  constructor() {
    define("setTimeout", (act, pause = 0) => {
      this.#last += 1;
      this.#timers.set(this.#last, { act, due: this.now + pause });
      return this.#last;
    });
    define("clearTimeout", (timer) => this.#timers.delete(timer));
    Date.now = () => this.now;
    define("performance", { now: () => this.now });
  }

  /** Let milliseconds pass; what is due meanwhile happens at its time. */
  async pass(ms) {
    const until = this.now + ms;
    for (;;) {
      await settled();
      const due = [...this.#timers].filter(([, timer]) => timer.due <= until);
      if (!due.length) break;
      const [name, timer] = due.reduce((a, b) => (b[1].due < a[1].due ? b : a));
      this.#timers.delete(name);
      this.now = timer.due;
      timer.act();
    }
    this.now = until;
  }
}

/** Whatever was promised and needs no time has happened. */
export async function settled() {
  for (let i = 0; i < 20; i += 1) await null;
}

export function define(name, value) {
  Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
}

/** A part of a page, as far as `closest` tells. */
export class Part {
  constructor(tag, attributes = {}, parent = null) {
    this.tag = tag;
    this.attributes = attributes;
    this.parent = parent;
    this.type = attributes.type ?? "text";
    this.isContentEditable = attributes.contenteditable === "true";
  }

  closest(selectors) {
    const isMe = selectors.split(",").some((selector) => {
      const [, name, value] = /^\[([\w-]+)=([\w-]+)\]$/.exec(selector) ?? [];
      return name ? this.attributes[name] === value : selector === this.tag;
    });
    return isMe ? this : (this.parent?.closest(selectors) ?? null);
  }
}

/** A key press on a part of the page. */
export function press(key, target = new Part("body"), more = {}) {
  return {
    key,
    ctrlKey: false,
    metaKey: false,
    altKey: false,
    shiftKey: false,
    isComposing: false,
    repeat: false,
    isPrevented: false,
    composedPath: () => [target],
    preventDefault() {
      this.isPrevented = true;
    },
    ...more,
  };
}
