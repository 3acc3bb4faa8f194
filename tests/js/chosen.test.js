// The sentence in the margin that says who chose the item in view.

import assert from "node:assert/strict";
import test from "node:test";
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

test("without a strategy, no budget is mentioned", () => {
  assert.equal(sentence({ why: "random-start" }), "Chosen at random until there is a yes and a no, round 7");
});
