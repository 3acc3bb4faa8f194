// The views that follow each answer, as they arrive in one payload or in several.

import assert from "node:assert/strict";
import test from "node:test";
import { Ahead } from "../../app/components/label/ahead.js";
import { settled } from "./browser.js";

/** A store of views, which counts the pictures that it makes and the times that each is decoded. */
function pageWith({ hold = false } = {}) {
  const made = [];
  const held = [];
  const ahead = new Ahead((item) => {
    const picture = {
      item: item.id,
      decoded: 0,
      decode: () => {
        picture.decoded += 1;
        return hold ? new Promise((resolve) => held.push(resolve)) : Promise.resolve();
      },
    };
    made.push(picture);
    return picture;
  });
  let calls = 0;
  const take = async (selection, next) => {
    const views = Object.entries(next).map(([word, [item, chosen]]) => [
      word,
      { item: { id: item, selection: chosen, alt: "" }, round: 1, notes: {} },
    ]);
    const pictures = Object.fromEntries(Object.values(next).map(([item]) => [item, `picture ${item}`]));
    ahead.take(selection, Object.fromEntries(views), pictures, () => {
      calls += 1;
    });
    await settled();
  };
  return { ahead, made, held, take, calls: () => calls };
}

test("a view that arrives first stays as it is when the others arrive", async () => {
  const page = pageWith();
  await page.take("s", { no: [1, "a"] });
  const first = page.ahead.after("s", "no");
  assert.equal(page.ahead.after("s", "yes"), null);
  await page.take("s", { no: [1, "a"], yes: [2, "b"], skip: [3, "c"], unsure: [3, "d"] });
  assert.equal(page.ahead.after("s", "no"), first);
  for (const word of ["yes", "skip", "unsure"]) assert.notEqual(page.ahead.after("s", word), null);
  assert.deepEqual(
    page.made.map(({ item }) => item),
    [1, 2, 3],
  );
  assert.deepEqual(page.made[0].decoded, 1);
  assert.equal(page.calls(), 2);
});

test("an item that is known already needs no second picture", async () => {
  const page = pageWith();
  await page.take("s", { no: [1, "a"] });
  await page.take("s", { no: [1, "a"], skip: [1, "b"] });
  assert.equal(page.made.length, 1);
  assert.equal(page.made[0].decoded, 1);
  assert.equal(page.ahead.after("s", "skip").view.item.selection, "b");
  assert.equal(page.ahead.after("s", "skip").image, page.ahead.after("s", "no").image);
});

test("what has not been decoded is not shown, even if another payload arrives meanwhile", async () => {
  const page = pageWith({ hold: true });
  await page.take("s", { no: [1, "a"] });
  await page.take("s", { no: [1, "a"], yes: [2, "b"] });
  assert.equal(page.ahead.after("s", "no"), null);
  page.held[0]();
  await settled();
  assert.notEqual(page.ahead.after("s", "no"), null);
  assert.equal(page.ahead.after("s", "yes"), null);
});

test("a payload with nothing new changes nothing, and the page is called once", async () => {
  const page = pageWith();
  await page.take("s", { no: [1, "a"], yes: [2, "b"] });
  await page.take("s", { no: [1, "a"], yes: [2, "b"] });
  await page.take("s", {});
  assert.equal(page.made.length, 2);
  assert.equal(page.calls(), 1);
  assert.notEqual(page.ahead.after("s", "yes"), null);
});

test("views that were computed again replace all that were computed before", async () => {
  const page = pageWith();
  await page.take("s", { no: [1, "a"], yes: [2, "b"], skip: [3, "c"] });
  await page.take("s", { no: [4, "e"] });
  assert.equal(page.ahead.after("s", "no").view.item.id, 4);
  assert.equal(page.ahead.after("s", "yes"), null);
  assert.equal(page.ahead.after("s", "skip"), null);
});

test("views of another selection replace those of the one before", async () => {
  const page = pageWith();
  await page.take("s", { no: [1, "a"] });
  await page.take("t", {});
  assert.equal(page.ahead.after("s", "no"), null);
  await page.take("t", { yes: [5, "f"] });
  assert.equal(page.ahead.after("t", "no"), null);
  assert.equal(page.ahead.after("t", "yes").view.item.id, 5);
});

test("an item without a picture can't be shown", async () => {
  const page = pageWith();
  page.ahead.take("s", { no: { item: { id: 1, selection: "a", alt: "" } } }, { 1: "" }, () => {});
  await settled();
  assert.equal(page.ahead.after("s", "no"), null);
  assert.equal(page.made.length, 0);
});
