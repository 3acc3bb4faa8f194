import assert from "node:assert/strict";
import test from "node:test";
import { absence, mayStillCome } from "../../app/components/shared/waiting.js";

const question = "Is it a leaf?";
const ended = { exhausted: true, done: 69, total: 69, held: 0, stopped: false };
const begun = { ...ended, exhausted: false, done: 0, total: 0 };

/** Each: the state, what the page says, and whether it goes on asking. */
const states = [
  [begun, "The first items are being prepared…", true],
  [{ ...begun, done: 1200, total: 50000 }, "The first items are being prepared: 1,200 of 50,000", true],
  [{ ...ended, done: 40, held: 3 }, "Every item so far has an answer. More are being prepared…", true],
  [{ ...begun, stopped: true }, "No item can be shown now.", true],
  [
    { ...ended, done: 40, stopped: true },
    "Every item so far has an answer. No more are being prepared.",
    true,
  ],
  [{ ...ended, held: 1 }, "The last item without an answer is in another session's view.", true],
  [{ ...ended, held: 60 }, "The last 60 items without an answer are in other sessions' views.", true],
  [ended, "Every item has an answer to “Is it a leaf?”", false],
  [{ ...ended, message: "Only repeats are left." }, "Only repeats are left.", false],
];

test("the page says why there is no item, and goes on asking as long as one may come", () => {
  for (const [waiting, said, goesOn] of states) {
    assert.equal(absence(waiting, question), said);
    assert.equal(mayStillCome(waiting), goesOn, said);
  }
  assert.equal(mayStillCome(null), false);
});
