import assert from "node:assert/strict";
import test from "node:test";
import { Marks } from "../../app/components/grid/marks.js";
import { Picks } from "../../app/components/similar/picks.js";

const none = (n) => new Marks(Array(n).fill(null));

test("marking goes on to the next open place, around the end, and stays within", () => {
  const marks = none(3);
  marks.cursor = 1;
  for (const [word, cursor] of [
    ["yes", 2],
    ["no", 0],
    ["skip", 1],
    ["no", 2],
  ]) {
    marks.mark(word);
    assert.equal(marks.cursor, cursor);
  }
  assert.deepEqual(marks.words, ["skip", "no", "no"]);
  marks.mark("yes");
  assert.equal(marks.cursor, 2);
});

test("undo takes back the last step first, and leaves the cursor at the place that it was about", () => {
  const marks = none(4);
  const steps = [
    [0, () => marks.mark("yes")],
    [3, () => marks.turn(3)],
    [3, () => marks.turn(3)],
    [3, () => marks.markRest(() => "no")],
    [3, () => marks.mark("skip")],
  ];
  const seen = steps.map(([place, step]) => {
    const words = [...marks.words];
    step();
    return [words, place];
  });
  for (const before of seen.reverse()) {
    assert.equal(marks.canUndo, true);
    marks.undo();
    assert.deepEqual([marks.words, marks.cursor], before);
  }
  assert.equal(marks.canUndo, false);
});

test("a click turns a place around: yes, no, skip, open; what is stored is never open again", () => {
  const marks = new Marks([null, "no"]);
  const turns = (place, n) =>
    Array.from({ length: n }, () => {
      marks.turn(place);
      return marks.words[place];
    });
  assert.deepEqual(turns(0, 5), ["yes", "no", "skip", null, "yes"]);
  assert.deepEqual(turns(1, 4), ["skip", "yes", "no", "skip"]);
});

test("only what differs from what is stored is sent", () => {
  const marks = new Marks(["yes", "no", null], ["no", "no", "skip"]);
  assert.deepEqual(marks.changed, [0, 2]);
  assert.deepEqual(marks.unsent, ["no", null, "skip"]);
});

test("settled places can't be changed, nor counted as marked here", () => {
  const marks = new Marks([null, null, null], ["no", null, null], ["yes", null, null]);
  assert.deepEqual(marks.words, ["yes", null, null]);
  marks.cursor = 0;
  marks.mark("no");
  marks.turn(0);
  marks.markRest(() => "skip");
  assert.deepEqual(marks.words, ["yes", "skip", "skip"]);
  assert.deepEqual(marks.changed, [1, 2]);
  assert.equal(marks.count("yes"), 0);
  assert.equal(marks.count("skip"), 2);
});

test("of images that can't be shown only a skip is taken; what is stored of them stays", () => {
  const marks = new Marks([null, null, "yes", null]);
  marks.markRest(() => "no");
  marks.cursor = 2;
  marks.mark("no");
  marks.cursor = 3;
  marks.mark("skip");
  marks.allowOnlySkip([0, 2, 3]);
  assert.deepEqual(marks.words, [null, "no", "yes", "skip"]);
  assert.deepEqual(marks.changed, [1, 3]);
});

test("the rest is marked once: where nothing is open there is nothing to take back", () => {
  const marks = none(2);
  marks.markRest(() => "no");
  marks.markRest(() => "yes");
  assert.deepEqual(marks.words, ["no", "no"]);
  marks.undo();
  assert.equal(marks.canUndo, false);
});

test("the rest is marked as predicted: marks stay, and so do places without a prediction", () => {
  const marks = none(4);
  marks.mark("skip");
  const predicted = ["yes", "no", null, "yes"];
  marks.markRest((place) => predicted[place]);
  assert.deepEqual(marks.words, ["skip", "no", null, "yes"]);
  marks.undo();
  assert.deepEqual(marks.words, ["skip", null, null, null]);
  marks.markRest(() => null);
  marks.undo();
  assert.equal(marks.canUndo, false, "nothing was marked, so the mark before is undone");
});

const list = (n, free = () => true) =>
  Array.from({ length: n }, (_, i) => ({ id: i, list: "original", selection: free(i) ? `s${i}` : null }));

test("with Shift everything between is selected, either way, but what is taken", () => {
  const picks = new Picks(list(6, (i) => i !== 3));
  picks.toggle(4);
  picks.extend(2);
  assert.deepEqual([...picks.ids].sort(), [2, 4]);
  picks.extend(5);
  assert.deepEqual([...picks.ids].sort(), [2, 4, 5]);
  picks.toggle(3);
  assert.equal(picks.ids.includes(3), false);
});

test("all selects all that are free, and again none", () => {
  const picks = new Picks(list(4, (i) => i !== 1));
  picks.all();
  assert.deepEqual([...picks.ids].sort(), [0, 2, 3]);
  picks.all();
  assert.deepEqual(picks.ids, []);
});

test("an item of two lists is selected in both, and answered once", () => {
  const cells = [
    { id: 5, list: "original", selection: "s" },
    { id: 5, list: "learned", selection: "s" },
  ];
  const picks = new Picks(cells);
  picks.toggle(1);
  assert.equal(picks.has(cells[0]), true);
  assert.deepEqual(picks.chosen, [cells[0]]);
});

test("what is selected stays so in another payload while it is free; the cursor stays on its item", () => {
  const before = new Picks(list(4));
  before.toggle(1);
  before.toggle(2);
  const after = new Picks(list(4, (i) => i !== 1).reverse(), before);
  assert.deepEqual(after.ids, [2]);
  assert.equal(after.cells[after.cursor].id, 2);
});
