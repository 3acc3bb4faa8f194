// The sentence in the margin that says who chose the item in view, and the remarks beside its numbers.

import assert from "node:assert/strict";
import test from "node:test";
import { marginAside, scoredAside, trainingAside } from "../../app/components/shared/asides.js";
import { chosenBy } from "../../app/components/shared/chosen.js";

const sentence = (notes, round = 7) => chosenBy({ strategy_label: "Margin index", ...notes }, round).join("");

test("a strategy chose the item", () => {
  assert.equal(sentence({ why: "strategy" }), "Margin index chose this item, round 7");
  assert.equal(sentence({ why: "strategy", items: 28 }), "Margin index chose these 28, round 7");
  assert.equal(
    sentence({ why: "strategy", part: "likely", strategy_label: "Mixture" }),
    "Mixture chose this item (likely positive), round 7",
  );
});

test("Auto says which phase it is in, and why", () => {
  const auto = { why: "strategy", strategy: "auto", strategy_label: "Auto" };
  const said = ["margin", "likely", "unlike"].map((part) => sentence({ ...auto, part }));
  assert.deepEqual(said, [
    "Auto chose this item (at the margin), round 7",
    "Auto chose this item (likely positive, while yes is rare), round 7",
    "Auto chose this item (unlike the labeled ones, as none is left at the margin), round 7",
  ]);
});

test("a selection with a smaller budget says so, and why", () => {
  const hurried = " with a smaller budget, to save time";
  assert.equal(
    sentence({ why: "strategy", hurried: true }),
    `Margin index chose this item${hurried}, round 7`,
  );
  assert.equal(
    sentence({ why: "strategy", hurried: true, part: "margin", strategy_label: "Mixture" }),
    `Mixture chose this item (at the margin)${hurried}, round 7`,
  );
  assert.equal(sentence({ why: "strategy", hurried: false }), "Margin index chose this item, round 7");
});

test("an incomplete selection says so, and why", () => {
  assert.equal(
    sentence({ why: "strategy", missing: 25000 }),
    "Margin index chose this item (incomplete: workers did not answer in time for 25,000 items), round 7",
  );
  assert.equal(sentence({ why: "strategy", missing: 0 }), "Margin index chose this item, round 7");
});

test("without a strategy, no budget is mentioned", () => {
  assert.equal(sentence({ why: "random-start" }), "Chosen at random until there is a yes and a no, round 7");
});

test("a classifier that could be trained meanwhile is not announced for the first yes and no", () => {
  const start = { why: "random-start", margin: null, n_labels: 0 };
  const fresh = { ...start, counts: { yes: 0, no: 0 }, now: { labels: 0, items: 600 } };
  assert.equal(marginAside(fresh), "after the first yes and no");
  assert.equal(trainingAside(fresh), "0 labels");
  const outdated = { ...start, counts: { yes: 36, no: 80 }, now: { labels: 116, items: 600 } };
  assert.equal(marginAside(outdated), "from the next item on");
  assert.equal(trainingAside(outdated), "0 of 116 labels");
  assert.equal(sentence(outdated), "Chosen at random before the first yes and no, round 7");
  const oneSided = { ...start, counts: { yes: 0, no: 3 }, now: { labels: 3, items: 600 } };
  assert.equal(marginAside(oneSided), "after the first yes and no");
  assert.equal(sentence(oneSided), "Chosen at random until there is a yes and a no, round 7");
});

test("labels of other people since the selection are told apart from those it was trained on", () => {
  assert.equal(trainingAside({ n_labels: 1, now: { labels: 1, items: 600 } }), "1 label");
  assert.equal(trainingAside({ n_labels: 9, now: { labels: 1200, items: 600 } }), "9 of 1,200 labels");
  assert.equal(trainingAside({ n_labels: 9, now: { labels: 8, items: 600 } }), "9 labels"); // one was undone
  assert.equal(trainingAside({ n_labels: null, now: { labels: 8, items: 600 } }), "");
});

test("in a pool that has grown since the selection, the items scored are of those there were then", () => {
  assert.equal(scoredAside({ total: 25_600, now: { labels: 0, items: 25_600 } }), "of 25,600");
  assert.equal(scoredAside({ total: 25_600, now: { labels: 0, items: 125_600 } }), "of 25,600 then");
});

test("an item that comes back says that its answer was undone", () => {
  const undo = { why: "undo" };
  assert.equal(sentence(undo), "Back because you undid your answer, round 7");
  const asked = "Back because you undid your answer for “Is there a dog?”, round 7";
  assert.equal(sentence({ ...undo, asked: "Is there a dog?" }), asked);
  assert.equal(sentence({ why: "last-grid", items: 28 }), "Back for corrections, round 7");
});
