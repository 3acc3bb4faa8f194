import assert from "node:assert/strict";
import test from "node:test";
import { Draft } from "../../app/components/grid/draft.js";
import { Store, useStore } from "./browser.js";

const cells = [
  { id: 7, selection: "a" },
  { id: 8, selection: "b" },
  { id: 9, selection: "c" },
];

test("marks outlive a reload", () => {
  useStore();
  new Draft("p", "s").keep(cells, ["yes", null, "skip"]);
  assert.deepEqual(
    [...new Draft("p", "s").of(cells)],
    [
      ["a", "yes"],
      ["c", "skip"],
    ],
  );
});

test("marks are those of one project and session, and of the cells in view", () => {
  useStore();
  new Draft("p", "s").keep(cells, ["yes", "no", "no"]);
  for (const other of [new Draft("p", "t"), new Draft("q", "s"), new Draft("p", "s", "id")]) {
    assert.equal(other.of(cells).size, 0);
  }
  assert.deepEqual([...new Draft("p", "s").of(cells.slice(1, 2))], [["b", "no"]]);
});

test("marks hold for items that are shown again", () => {
  useStore();
  new Draft("p", "s").keep(cells, ["yes", null, "skip"]);
  const again = cells.map(({ id }) => ({ id, selection: `again ${id}` }));
  assert.deepEqual(
    [...new Draft("p", "s").of(again)],
    [
      ["again 7", "yes"],
      ["again 9", "skip"],
    ],
  );
});

test("what was sent is marked no more", () => {
  useStore();
  const draft = new Draft("p", "s");
  draft.keep(cells, ["yes", "no", null]);
  draft.keep(cells, []);
  assert.equal(new Draft("p", "s").of(cells).size, 0);
});

test("of what was found by name, each page keeps the marks of the others", () => {
  useStore();
  const draft = new Draft("p", "s", "id");
  draft.keep(cells, ["yes", null, "no"]);
  const page = [{ id: 20, selection: "x" }];
  draft.keep(page, ["skip"]);
  assert.equal(draft.elsewhere(page), 2);
  assert.equal(draft.elsewhere(cells), 1);
  const reselected = cells.map((cell) => ({ ...cell, selection: `${cell.selection}, chosen again` }));
  assert.deepEqual(
    [...new Draft("p", "s", "id").of(reselected)],
    [
      [7, "yes"],
      [9, "no"],
    ],
  );
});

test("a grid's marks are none elsewhere: another grid takes the place of its cells", () => {
  useStore();
  const draft = new Draft("p", "s");
  draft.keep(cells, ["yes", "yes", "yes"]);
  const next = [{ id: 1, selection: "n" }];
  assert.equal(draft.elsewhere(next), 0);
  draft.keep(next, ["no"]);
  assert.equal(draft.of(cells).size, 0);
});

test("what a former version kept becomes this one's, unless there is something newer", () => {
  const former = "marginalia-draft/p/s";
  const store = useStore(new Store({ [former]: '[["a","yes"]]' }));
  assert.deepEqual([...new Draft("p", "s").of(cells)], [["a", "yes"]]);
  assert.deepEqual(Object.keys(store), ["closecall-draft/p/s"]);
  store.setItem(former, '[["a","no"]]');
  assert.deepEqual([...new Draft("p", "s").of(cells)], [["a", "yes"]]);
  assert.deepEqual(Object.keys(store), ["closecall-draft/p/s"]);
});

test("where the store is full nothing breaks, and a former version's marks stay there", () => {
  const store = useStore(new Store({ "marginalia-draft/p/s": "[]" }));
  store.fill();
  const draft = new Draft("p", "s");
  draft.keep(cells, ["yes", null, null]);
  assert.equal(draft.of(cells).size, 0);
  assert.deepEqual(Object.keys(store), ["marginalia-draft/p/s"]);
});

test("without a store, or with nonsense in it, there is no draft", () => {
  useStore(new Store({ "closecall-draft/p/s": "{" }));
  assert.equal(new Draft("p", "s").of(cells).size, 0);
  useStore(new Store({}, { isForbidden: true }));
  const draft = new Draft("p", "s");
  draft.keep(cells, ["yes", null, null]);
  assert.equal(draft.of(cells).size, 0);
});
