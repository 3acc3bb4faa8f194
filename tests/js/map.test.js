import assert from "node:assert/strict";
import test from "node:test";
import { sentence, signed } from "../../app/components/map/found.js";
import { Lasso, written } from "../../app/components/map/lasso.js";
import { aboutOf, stampOf } from "../../app/components/map/map.js";
import { Tiles } from "../../app/components/map/tiles.js";
import { View } from "../../app/components/map/view.js";
import { Clock, define, settled } from "./browser.js";

/** A view of a large map on a canvas. */
function viewOf(width = 1000, height = 600, tiles = { cells: 256, finest: 4 }) {
  const view = new View(tiles);
  view.resize(width, height);
  return view;
}

const close = (one, other) => assert.ok(Math.abs(one - other) < 1e-9, `${one} is not ${other}`);

test("at first the whole map is in view, in the middle, and stays so when the canvas grows", () => {
  const view = viewOf();
  for (const [width, height] of [
    [1000, 600],
    [700, 900],
  ]) {
    view.resize(width, height);
    const corners = [view.toScreen({ x: 0, y: 0 }), view.toScreen({ x: 1, y: 1 })];
    for (const { x, y } of corners) assert.ok(x >= 0 && x <= width && y >= 0 && y <= height);
    close(corners[0].x + corners[1].x, width);
    close(corners[0].y + corners[1].y, height);
  }
});

test("the whole map is below the buttons", () => {
  const view = viewOf();
  view.resize(1000, 600, 54);
  close(view.toScreen({ x: 0.5, y: 0.5 }).x, 500);
  close(view.toScreen({ x: 0.5, y: 0.5 }).y, (54 + 600) / 2);
  assert.ok(view.toScreen({ x: 0, y: 0 }).y >= 54);
  assert.ok(view.toScreen({ x: 1, y: 1 }).y <= 600);
  view.panBy(300, 40);
  view.showWhole();
  assert.ok(view.toScreen({ x: 0, y: 0 }).y >= 54);
});

test("a place keeps its point while one zooms at it, and the way back is the same", () => {
  const view = viewOf();
  const point = { x: 620, y: 250 };
  const place = view.toMap(point);
  for (const factor of [1.5, 2, 3, 0.7]) {
    view.zoomBy(factor, point);
    const { x, y } = view.toScreen(place);
    close(x, point.x);
    close(y, point.y);
  }
  view.panBy(30, -20);
  close(view.toScreen(place).x, point.x + 30);
  close(view.toScreen(place).y, point.y - 20);
});

test("one can neither lose the map nor zoom further than there is to see", () => {
  const view = viewOf();
  const first = view.scale;
  view.zoomBy(0.01);
  assert.equal(view.scale, first);
  view.zoomBy(1e9);
  assert.equal(view.scale, 256 * 16 * 14);
  view.panBy(1e9, -1e9);
  assert.deepEqual([view.x, view.y], [0, 1]);
  const few = viewOf(1000, 600, { cells: 8, finest: 0 });
  few.zoomBy(10);
  assert.equal(few.scale, few.whole);
});

test("the tiles in view are those that meet the canvas, of cells of about two pixels", () => {
  for (const factor of [1, 1.3, 2.2, 4, 9, 30, 100]) {
    const view = viewOf();
    view.zoomBy(factor, { x: 300, y: 200 });
    const { zoom, side, range } = view;
    assert.ok(zoom >= 0 && zoom <= 4);
    if (zoom > 0 && zoom < 4) assert.ok(side / 256 > 1.4 && side / 256 < 2.9);
    for (let column = 0; column < 2 ** zoom; column += 1) {
      for (let row = 0; row < 2 ** zoom; row += 1) {
        const low = view.toScreen({ x: column / 2 ** zoom, y: row / 2 ** zoom });
        const meets = low.x <= 1000 && low.x + side > 0 && low.y <= 600 && low.y + side > 0;
        const isIn = column >= range.left && column <= range.right && row >= range.top && row <= range.bottom;
        assert.equal(isIn, meets, `${zoom}/${column}/${row}`);
      }
    }
  }
});

/** A canvas that notes what is drawn on it. */
function canvas() {
  const drawn = [];
  const context = {
    drawImage: (picture, ...places) => drawn.push([picture.name ?? "mosaic", ...places]),
  };
  return { drawn, context, getContext: () => context };
}

/** Tiles with a server that answers when told to. */
function tilesWith(answer) {
  const clock = new Clock();
  const mosaic = canvas();
  define("document", { createElement: () => mosaic });
  const asked = [];
  let redrawn = 0;
  const tiles = new Tiles(
    (spot) => {
      asked.push(`${spot.zoom}/${spot.column}/${spot.row}`);
      return answer(spot);
    },
    () => {
      redrawn += 1;
    },
  );
  return { tiles, asked, mosaic, clock, redrawn: () => redrawn };
}

const picture = (name) => ({ name, isClosed: false, close() {} });

test("a tile is requested once per version, and drawn until the next one is there", async () => {
  const waiting = [];
  const { tiles, asked, mosaic } = tilesWith((spot) => new Promise((done) => waiting.push([spot, done])));
  const view = viewOf(400, 400, { cells: 256, finest: 0 });
  const screen = canvas();
  tiles.renew("1 light");
  tiles.draw(screen.context, view);
  tiles.draw(screen.context, view);
  assert.deepEqual([asked, tiles.isSettled], [["0/0/0"], false]);
  waiting[0][1](picture("first"));
  await settled();
  tiles.draw(screen.context, view);
  assert.deepEqual(mosaic.drawn, [["first", 0, 0, 256, 256, 0, 0, 256, 256]]);
  assert.ok(tiles.isSettled);
  tiles.draw(screen.context, view);
  assert.equal(mosaic.drawn.length, 1, "a frame that shows the same tiles composes nothing");
  tiles.renew("2 light");
  tiles.draw(screen.context, view);
  assert.deepEqual([asked.length, tiles.isSettled, mosaic.drawn.length], [2, false, 1]);
  waiting[1][1](picture("second"));
  await settled();
  tiles.draw(screen.context, view);
  assert.equal(mosaic.drawn[1][0], "second");
  assert.equal(screen.drawn.length, 6);
});

test("tiles of one version are requested again after a restart of the server, which counts from 0 again", async () => {
  const { tiles, asked } = tilesWith(() => Promise.resolve(picture("one")));
  const view = viewOf(400, 400, { cells: 256, finest: 0 });
  for (const map of ["before", "before", "after"]) {
    tiles.renew(stampOf({ map, version: 3 }, "light"));
    tiles.draw(canvas().context, view);
    await settled();
  }
  assert.equal(asked.length, 2);
});

test("until a tile is there, a part of a coarser one stands in for it", async () => {
  const { tiles, mosaic } = tilesWith(({ zoom }) =>
    zoom ? new Promise(() => {}) : Promise.resolve(picture("whole")),
  );
  const view = viewOf(400, 400, { cells: 256, finest: 2 });
  tiles.renew("1 light");
  tiles.draw(canvas().context, view);
  await settled();
  view.zoomBy(view.closest / view.scale, { x: 320, y: 320 });
  assert.equal(view.zoom, 2);
  mosaic.drawn.length = 0;
  tiles.draw(canvas().context, view);
  const { left, top } = view.range;
  assert.deepEqual(mosaic.drawn[0], ["whole", left * 64, top * 64, 64, 64, 0, 0, 256, 256]);
});

test("the points are about two and a half times as large for an audience, at any zoom", () => {
  const view = viewOf(1000, 800, { cells: 64, finest: 5 });
  const cell = () => view.side / view.cells;
  for (const factor of [1, 2, 1.3]) {
    view.zoomBy(factor);
    view.isLarge = false;
    const usual = cell();
    view.isLarge = true;
    assert.ok(usual <= 2 * Math.SQRT2 + 1e-9 && cell() >= 5 / Math.SQRT2 - 1e-9);
    assert.ok([2, 4].includes(Math.round(cell() / usual)));
  }
});

test("for an audience, small cells are also painted around and below themselves", async () => {
  const { tiles } = tilesWith(async () => picture("whole"));
  const view = viewOf(500, 500, { cells: 256, finest: 0 });
  const painted = () => {
    const made = canvas();
    tiles.draw(made.context, view);
    return made;
  };
  assert.equal(painted().drawn.length, 1);
  view.isLarge = true;
  const { drawn, context } = painted();
  const [whole, ...others] = drawn.map(([, x, y]) => [x, y]);
  assert.equal(others.length, 8);
  for (const [x, y] of others) assert.ok(Math.abs(Math.hypot(x - whole[0], y - whole[1]) - 1.5) < 1e-9);
  assert.equal(context.globalCompositeOperation, "source-over");
  view.zoomBy(100);
  assert.equal(painted().drawn.length, 1, "cells that are large need no more");
});

test("few requests run at once, and after a failed one there is a pause", async () => {
  let fails = true;
  const waiting = [];
  const { tiles, asked, clock } = tilesWith(
    () => new Promise((done, failed) => waiting.push(fails ? failed : () => done(null))),
  );
  const view = viewOf(2000, 1500, { cells: 64, finest: 5 });
  view.zoomBy(8);
  tiles.renew("1 light");
  tiles.draw(canvas().context, view);
  assert.equal(asked.length, 6);
  for (const answer of waiting.splice(0)) answer(new Error("no connection"));
  await settled();
  tiles.draw(canvas().context, view);
  assert.equal(asked.length, 6);
  await clock.pass(2001);
  fails = false;
  tiles.draw(canvas().context, view);
  assert.equal(asked.length, 12);
  waiting.splice(0)[0]();
  await settled();
  tiles.draw(canvas().context, view);
  assert.equal(asked.length, 13);
  assert.equal(new Set(asked.slice(6)).size, 7, "an empty tile is not requested again");
});

test("a lasso has few enough corners, in the order in which they were drawn", () => {
  const lasso = new Lasso();
  for (let i = 0; i < 3000; i += 1) {
    const angle = (2 * Math.PI * i) / 3000;
    lasso.add({ x: 500 + 400 * Math.cos(angle), y: 500 + 400 * Math.sin(angle) });
  }
  const polygon = lasso.polygon();
  assert.equal(polygon.length, 200);
  const angles = polygon.map(({ x, y }) => (Math.atan2(y - 500, x - 500) + 2 * Math.PI) % (2 * Math.PI));
  assert.ok(angles.every((angle, i) => !i || angle > angles[i - 1]));
  assert.ok(written(polygon).length < 6000, "an address is shorter than 8 kB");
});

test("a press that hardly moves is no lasso", () => {
  const lasso = new Lasso();
  for (let i = 0; i < 9; i += 1) lasso.add({ x: 5 + 0.1 * i, y: 5 });
  assert.equal(lasso.polygon(), null);
  lasso.add({ x: 15, y: 5 });
  lasso.add({ x: 15, y: 15 });
  assert.equal(lasso.polygon().length, 3);
  assert.equal(written(lasso.polygon()).split(",").length, 6);
});

test("the page says what is not on the map, and when the hyperplane comes", () => {
  const data = { word: "image", items: 1000, elsewhere: 0, band: { items: 12, margin: 0.1 } };
  assert.equal(aboutOf(data), "Similar images are near each other.");
  assert.match(aboutOf({ ...data, band: null }), /appears after the first yes and no\.$/);
  assert.match(
    aboutOf({ ...data, elsewhere: 1 }),
    / 1 image of 1,001 is not on the map: run closecall pool map again\.$/,
  );
  assert.match(aboutOf({ ...data, elsewhere: 2000 }), / 2,000 images of 3,000 are not on the map/);
  assert.equal(aboutOf({ ...data, elsewhere: -5 }), "Similar images are near each other.");
});

test("the list says how many items there are, and which of them it shows", () => {
  const items = Array.from({ length: 48 }, () => ({}));
  assert.equal(
    sentence({ found: 100_000, positive: 1000, items }),
    "1,000 on the side of yes, 99,000 on the side of no. The 48 nearest the hyperplane are shown.",
  );
  assert.match(sentence({ found: 2, positive: 2, items: [{}, {}] }), /Nearest the hyperplane/);
  assert.equal(sentence({ found: 99, positive: null, items }), "The 48 that come first are shown.");
  assert.match(sentence({ found: 0, positive: 0, open: 0, items: [] }), /Draw the lasso around some/);
  assert.equal(sentence({ found: 1, positive: null, open: 0, items: [{}] }), "All have an answer.");
  assert.match(
    sentence({ found: 2, positive: 2, open: 0, items: [{}, {}] }),
    /first\. All have an answer\.$/,
  );
  assert.deepEqual([signed(0.12345), signed(-2), signed(0)], ["+0.1235", "−2.0000", "+0.0000"]);
});
