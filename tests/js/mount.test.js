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

/** Return Streamlit's side of a new element: a function that passes payloads and returns their cleanups. */
function element() {
  const parentElement = {};
  const show = mounting(Shown);
  return (data) => show({ parentElement, data });
}

test("one component gets all payloads of its element, and closes with it", () => {
  Shown.all = [];
  const show = element();
  show("first");
  const cleanup = show("second");
  const [only, ...others] = Shown.all;
  assert.deepEqual([only.seen, only.isClosed, others], [["first", "second"], false, []]);
  cleanup();
  assert.equal(only.isClosed, true);
  show("again");
  assert.equal(Shown.all.length, 2, "a new one comes after it");
});

test("a payload that was replaced while the module loaded does not close the component", () => {
  Shown.all = [];
  const show = element();
  const replaced = show("first");
  const cleanup = show("second");
  replaced(); // Streamlit runs it as soon as the first call has returned, which is after the second call
  const [only] = Shown.all;
  assert.deepEqual([only.isClosed, hasKeys(only)], [false, true]);
  cleanup();
  assert.deepEqual([only.isClosed, hasKeys(only)], [true, false]);
});

test("a late call for an element that is gone leaves the keys to the one in view", () => {
  Shown.all = [];
  element()("in view");
  element()("gone")();
  const [inView, gone] = Shown.all;
  assert.deepEqual([inView.isClosed, hasKeys(inView), gone.isClosed], [false, true, true]);
});
