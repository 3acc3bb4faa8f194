import assert from "node:assert/strict";
import test from "node:test";
import { Queue } from "../../app/components/shared/queue.js";
import { Store, useStore } from "./browser.js";

const ids = (answers) => answers.map(({ id }) => id);

test("nothing leaves the store before it is settled, and what is settled leaves it for good", () => {
  const store = useStore();
  const queue = new Queue("p", "s");
  for (const id of ["a", "b", "c"]) queue.add({ id, item: 1 });
  assert.deepEqual(ids(new Queue("p", "s").pending), ["a", "b", "c"]);
  assert.deepEqual(ids(queue.settle(["b", "unknown"])), ["b"]);
  assert.deepEqual(ids(new Queue("p", "s").pending), ["a", "c"]);
  assert.deepEqual(queue.settle(["b"]), []);
  queue.settle(["a", "c"]);
  assert.deepEqual(Object.keys(store), []);
});

test("answers go out in the order they were given, over reloads and whatever their keys are", () => {
  useStore();
  const given = ["z", "m", "a", "9", "0"];
  for (const id of given) new Queue("p", "s").add({ id });
  assert.deepEqual(ids(new Queue("p", "s").pending), given);
});

test("what other sessions of the project left over is sent too, but is not this session's", () => {
  useStore();
  new Queue("p", "before").add({ id: "old" });
  new Queue("other", "s").add({ id: "elsewhere" });
  new Queue("p/", "s").add({ id: "alike" });
  const queue = new Queue("p", "now");
  queue.add({ id: "new" });
  assert.deepEqual(ids(queue.pending), ["old", "new"]);
  assert.deepEqual(ids(queue.own), ["new"]);
  assert.deepEqual(
    queue.pending.map(({ session }) => session),
    ["before", "now"],
  );
});

test("two tabs keep each other's answers", () => {
  const store = useStore();
  const [one, other] = [new Queue("p", "s"), new Queue("p", "s")];
  one.add({ id: "a" });
  other.add({ id: "b" });
  one.settle(ids(one.pending));
  assert.deepEqual(ids(new Queue("p", "s").pending), ["b"], "what the other tab gave is still there");
  other.settle(["b"]);
  assert.deepEqual(Object.keys(store), []);
});

test("what a former version kept under its name is sent once, and removed", () => {
  const entry = { place: 4, answer: { id: "old", item: 7, session: "s" } };
  const store = useStore(
    new Store({ "marginalia/p%2F1/s/old": JSON.stringify(entry), "marginalia/q/s/x": "{}" }),
  );
  const queue = new Queue("p/1", "s");
  queue.add({ id: "new" });
  assert.deepEqual(ids(queue.pending), ["old", "new"]);
  assert.deepEqual(Object.keys(store).sort(), [
    "closecall/p%2F1/s/new",
    "marginalia/p%2F1/s/old",
    "marginalia/q/s/x",
  ]);
  queue.settle(["old"]);
  assert.deepEqual(ids(new Queue("p/1", "s").pending), ["new"]);
  assert.deepEqual(Object.keys(store).sort(), ["closecall/p%2F1/s/new", "marginalia/q/s/x"]);
});

test("entries that are none are left alone, and hold up no answer", () => {
  const broken = [
    "",
    "{",
    "null",
    "[]",
    '{"place": "1", "answer": {"id": "x"}}',
    '{"place": 1, "answer": {}}',
  ];
  const entries = Object.fromEntries(broken.map((text, i) => [`closecall/p/s/${i}`, text]));
  const store = useStore(new Store({ ...entries, "closecall-draft/p/s": "[]" }));
  const queue = new Queue("p", "s");
  queue.add({ id: "a" });
  assert.deepEqual(ids(queue.pending), ["a"]);
  queue.settle(["a"]);
  assert.equal(Object.keys(store).length, broken.length + 1);
});

test("where the store is full, answers live as long as the page, and the page knows", () => {
  const store = useStore();
  const queue = new Queue("p", "s");
  queue.add({ id: "kept" });
  assert.equal(queue.durable, true);
  store.fill();
  queue.add({ id: "not kept" });
  assert.equal(queue.durable, false);
  assert.deepEqual(ids(queue.pending), ["kept", "not kept"]);
});

test("what was kept before the store was full leaves it once it is settled", () => {
  const store = useStore();
  const queue = new Queue("p", "s");
  queue.add({ id: "kept" });
  store.fill();
  queue.add({ id: "not kept" });
  queue.settle(["kept", "not kept"]);
  assert.deepEqual(Object.keys(store), []);
});

test("without a store the queue works as long as the page is open", () => {
  useStore(new Store({}, { isForbidden: true }));
  Object.defineProperty(globalThis, "localStorage", {
    configurable: true,
    get: () => {
      throw new DOMException("The operation is insecure.", "SecurityError");
    },
  });
  const queue = new Queue("p", "s");
  queue.add({ id: "a" });
  assert.equal(queue.durable, false);
  assert.deepEqual(ids(queue.settle(["a"])), ["a"]);
  assert.equal(queue.size, 0);
});
