import assert from "node:assert/strict";
import test from "node:test";
import { inShort, inWords } from "../../app/components/shared/prediction.js";

test("a prediction is its answer, and its score if it has one", () => {
  assert.equal(inShort({ model: "m", answer: "yes", score: 0.725 }), "yes 0.73");
  assert.equal(inShort({ model: "m", answer: "no", score: -1.5 }), "no −1.50");
  assert.equal(inShort({ model: "m", answer: "no", score: null }), "no");
  assert.equal(inWords({ model: "m", answer: "no", score: null }), "m predicts no");
  assert.deepEqual([inShort(undefined), inWords(undefined)], ["", ""]);
});
