import assert from "node:assert/strict";
import test from "node:test";
import { largest } from "../../app/components/grid/tiles.js";
import { levelFor, sizeAt, tilesIn } from "../../app/components/shared/detail.js";

const photo = { src: "image?", width: 4000, height: 3001, tile: 512 };

test("the level is the coarsest that has a pixel for each of the screen's", () => {
  for (const [shown, level] of [
    [8000, 0],
    [4000, 0],
    [2001, 0],
    [2000, 1],
    [1001, 1],
    [500, 3],
  ]) {
    assert.equal(levelFor(photo, shown), level, String(shown));
    assert.ok(sizeAt(photo, level).width >= Math.min(shown, photo.width));
  }
  assert.deepEqual(sizeAt(photo, 1), { width: 2000, height: 1501 });
});

test("the tiles of a part cover it, each once, those nearest its middle first", () => {
  for (const level of [0, 1, 2]) {
    const { width, height } = sizeAt(photo, level);
    for (const part of [
      { left: 0, top: 0, right: 1, bottom: 1 },
      { left: 0.31, top: 0.2, right: 0.62, bottom: 0.53 },
      { left: 0.999, top: 0.999, right: 1, bottom: 1 },
      { left: -0.2, top: -0.1, right: 0.1, bottom: 0.1 },
    ]) {
      const tiles = tilesIn(photo, level, part);
      const names = new Set(tiles.map(({ column, row }) => `${column} ${row}`));
      assert.equal(names.size, tiles.length);
      for (let i = 0; i < 40; i += 1) {
        const x = Math.min(0.9999, Math.max(0, part.left + ((part.right - part.left) * (i + 0.5)) / 40));
        const y = Math.min(
          0.9999,
          Math.max(0, part.top + ((part.bottom - part.top) * (((7 * i) % 40) + 0.5)) / 40),
        );
        assert.ok(
          names.has(`${Math.floor((x * width) / 512)} ${Math.floor((y * height) / 512)}`),
          `${x} ${y}`,
        );
      }
      for (const { column, row } of tiles) {
        assert.ok(column >= 0 && row >= 0 && column * 512 < width && row * 512 < height);
      }
    }
  }
  const [first] = tilesIn(photo, 0, { left: 0.25, top: 0.25, right: 0.75, bottom: 0.75 });
  assert.ok([3, 4].includes(first.column) && [2, 3].includes(first.row));
});

test("the squares of a grid are as large as the room allows", () => {
  for (const n of [1, 12, 20, 28, 60]) {
    const room = { width: 848, height: 386 };
    const { columns, side } = largest(n, room, 8);
    const rows = Math.ceil(n / columns);
    assert.ok(columns * side + (columns - 1) * 8 <= room.width + 1e-9);
    assert.ok(rows * side + (rows - 1) * 8 <= room.height + 1e-9);
    for (let other = 1; other <= n; other += 1) {
      const least = Math.min(
        (room.width - (other - 1) * 8) / other,
        (room.height - (Math.ceil(n / other) - 1) * 8) / Math.ceil(n / other),
      );
      assert.ok(side >= least - 1e-9);
    }
  }
});
