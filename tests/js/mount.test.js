import assert from "node:assert/strict";
import test from "node:test";
import { hasKeys, takeKeys } from "../../app/components/shared/keys.js";
import { mounting } from "../../app/components/shared/mount.js";

/** A component that takes the keys, as those of the pages do. */
class Shown {
  static all = [];

  constructor() {
    Shown.all.push(this);
    takeKeys(this);
    this.seen = [];
    this.isClosed = false;
  }

  update({ data }) {
    assert.equal(this.isClosed, false, "no payload goes to a closed component");
    this.seen.push(data);
  }

  close() {
    this.isClosed = true;
  }
}

/** Streamlit's side of an element: `show` passes a payload and returns its cleanup. */
class Element {
  #root = { isConnected: true };
  #show = mounting(Shown);

  show(data) {
    return this.#show({ parentElement: this.#root, data });
  }

  remove() {
    this.#root.isConnected = false;
  }
}

test("one component gets all payloads of its element, and closes with it", () => {
  Shown.all = [];
  const element = new Element();
  element.show("first");
  const cleanup = element.show("second");
  const [only, ...others] = Shown.all;
  assert.deepEqual([only.seen, only.isClosed, others], [["first", "second"], false, []]);
  element.remove();
  cleanup();
  assert.deepEqual([only.isClosed, hasKeys(only)], [true, false]);
});

for (const order of ["before", "after"]) {
  test(`a payload that was replaced while the module loads, and comes ${order} the next one`, () => {
    Shown.all = [];
    const element = new Element();
    let replaced, cleanup;
    if (order === "before") replaced = element.show("replaced");
    cleanup = element.show("newest");
    if (order === "after") replaced = element.show("replaced");
    replaced(); // Streamlit runs it as soon as the call has returned
    const [only] = Shown.all;
    assert.deepEqual([only.seen.at(-1), only.isClosed, hasKeys(only)], ["newest", false, true]);
    element.remove();
    cleanup();
    assert.deepEqual([only.isClosed, hasKeys(only)], [true, false]);
  });
}

test("a replaced payload that is cleaned up before the next one comes", () => {
  Shown.all = [];
  const element = new Element();
  element.show("replaced")();
  element.show("newest");
  const [only, ...others] = Shown.all;
  assert.deepEqual([only.seen, only.isClosed, others], [["replaced", "newest"], false, []]);
});

test("a late call for an element that is gone leaves the keys to the one in view", () => {
  Shown.all = [];
  new Element().show("in view");
  const gone = new Element();
  gone.remove();
  gone.show("too late")();
  const [inView, late] = Shown.all;
  assert.deepEqual([inView.isClosed, hasKeys(inView), late.isClosed], [false, true, true]);
});
