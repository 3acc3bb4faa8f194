"""Handwritten digits as shapes: from 8×8 ink counts to smooth outlines that can be drawn at any size.

scikit-learn's digits are real handwriting, scanned at 32×32 pixels in black and white and stored as the
number of ink pixels in each 4×4 block. `fields` inverts this counting by iterated back-projection. It finds a
smooth field whose ink per block equals the stored counts, and converts the field to the distance from the
outline. `draw` samples such a field through an affine map and gentle waves, and converts distances to
coverage. Edges are therefore blurred over one pixel at every size.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.jit import kernel

BLOCK = 4
"""Number of field samples along one side of a block of the 8×8 original."""
SIDE = BLOCK * (8 + 2)
"""Number of field samples along one side of a field: 8 blocks, and an empty block at each end."""
PARAMETERS = 15
"""Number of parameters per glyph; see `draw`."""

TILE = 8
"""Side, in pixels, of a tile. Tiles are squares of a drawing, checked for ink before the drawing is made."""

CHECKED_FROM = 64
"""Side, in pixels, above which tiles are checked for ink. In smaller drawings, few tiles have no ink."""

_NONE, _SOME, _FULL = np.int8(0), np.int8(1), np.int8(2)  # how much of a tile has ink

_SHARPNESS = np.float32(5.0)
_STEPS = 24
_STEP = np.float32(1.4)
_BLUR = 0.75  # standard deviation, in field samples
_REACH = np.float32(8.0)
_OUTSIDE = np.float32(-8.0)  # the distance that is assumed beyond the samples of a field


class Glyphs(NamedTuple):
    """Fields of shape (n, 40, 40), with the digit that each field shows and half its maximum stroke width."""

    fields: NDArray[np.float32]
    digits: NDArray[np.int16]
    half_widths: NDArray[np.float32]


def bundled(chosen: NDArray[np.integer] | None = None) -> Glyphs:
    """Return the 1,797 handwritten digits that come with scikit-learn.

    Parameters
    ----------
    chosen : array of int, optional
        Indices of the digits that will be drawn. The fields of other digits may be zeros, because computing
        all fields takes a second.
    """
    return _shapes().with_fields(chosen)


def prepare(go_on: Callable[[], None]) -> None:
    """Compute the fields of all digits in small parts, and call `go_on` before each part."""
    for part in _shapes().parts:
        go_on()
        bundled(part)


def bundled_digits() -> NDArray[np.int16]:
    """Return the digit that each bundled glyph shows, without computing fields."""
    return _shapes().digits


class _Shapes:
    """The bundled digits. Their fields are computed when they are needed, some digits at a time."""

    _PARTS = 64

    def __init__(self) -> None:
        self._images, digits = _scanned()
        self.digits = digits.astype(np.int16)
        n = len(digits)
        self._fields = np.zeros((n, SIDE, SIDE), dtype=np.float32)
        self._half_widths = np.zeros(n, dtype=np.float32)
        self.parts = np.array_split(np.arange(n), self._PARTS)
        self._part_of = np.repeat(np.arange(self._PARTS), [len(part) for part in self.parts])
        self._is_there = np.zeros(self._PARTS, dtype=np.bool_)
        self._lock = Lock()

    def with_fields(self, chosen: NDArray[np.integer] | None) -> Glyphs:
        """See `bundled`."""
        wanted = np.arange(self._PARTS) if chosen is None else np.unique(self._part_of[chosen])
        with self._lock:
            for part in wanted[~self._is_there[wanted]]:
                rows = self.parts[part]
                self._fields[rows] = fields(self._images[rows] / 16)
                self._half_widths[rows] = self._fields[rows].max(axis=(1, 2))
                self._is_there[part] = True
        shapes = self._fields.view()
        shapes.flags.writeable = False
        return Glyphs(shapes, self.digits, self._half_widths)


_one_at_a_time = Lock()


def _shapes() -> _Shapes:
    with _one_at_a_time:  # with @cache alone, several threads could compute the shapes at once
        return _made()


@cache
def _made() -> _Shapes:
    return _Shapes()


def _scanned() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the images and digits of `sklearn.datasets.load_digits`. Importing this function would be slow.

    The images have shape (1797, 8, 8), with 0 to 16 ink pixels in each block.
    """
    package = find_spec("sklearn")
    places = package.submodule_search_locations if package is not None else None
    file = Path(places[0], "datasets", "data", "digits.csv.gz") if places else None
    if file is not None and file.is_file():
        with gzip.open(file, "rt") as lines:
            table = np.loadtxt(lines, delimiter=",")
        return table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(np.int64)
    from sklearn.datasets import load_digits  # for versions of scikit-learn that have the file elsewhere

    images, digits = load_digits(return_X_y=True)
    return images.reshape(-1, 8, 8), digits


def fields(ink: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return fields of shape (n, 40, 40): the distance from the outline in samples, positive inside the ink.

    Parameters
    ----------
    ink : array of shape (n, 8, 8)
        Share of ink in each block, 0 to 1.
    """
    ink = np.pad(np.asarray(ink, dtype=np.float32), ((0, 0), (1, 1), (1, 1)))
    widen = _spline_upscaling(ink.shape[1], BLOCK)
    blur = _gaussian(SIDE, _BLUR)
    count = np.repeat(np.eye(ink.shape[1]) / BLOCK, BLOCK, axis=1).astype(np.float32)
    field = _along_both(widen, ink) - np.float32(0.5)
    for _ in range(_STEPS):
        drawn = np.reciprocal(1 + np.exp(-_SHARPNESS * field))
        field += _STEP * _along_both(widen, ink - _along_both(count, drawn))
        field = np.clip(_along_both(blur, field), np.float32(-1), np.float32(1))
    return _signed_distance(field)


def _along_both(matrix: NDArray[np.float32], images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return M I Mᵀ for each image I."""
    half = np.ascontiguousarray(np.swapaxes(images @ matrix.T, 1, 2))
    return np.swapaxes(half @ matrix.T, 1, 2)


def _signed_distance(field: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the distance to the field's zero line [1]_, in samples, clipped to ±8; negative outside the ink.

    References
    ----------
    .. [1] M. Sussman, P. Smereka, S. Osher: A Level Set Approach for Computing Solutions to Incompressible
           Two-Phase Flow, J. Comput. Phys. 114 (1994).
    """
    slope = np.hypot(np.gradient(field, axis=1), np.gradient(field, axis=2))
    distance = np.clip(field / np.maximum(slope, np.float32(0.05)), -_REACH, _REACH)
    sign = distance / np.sqrt(distance**2 + 1)
    inside = distance > 0
    for _ in range(12):
        squared = np.zeros_like(distance)
        for axis in (1, 2):
            step = np.diff(distance, axis=axis)
            edge = [(0, 0)] * 3
            edge[axis] = (1, 0)
            back = np.pad(step, edge)
            edge[axis] = (0, 1)
            ahead = np.pad(step, edge)
            rise = np.maximum(np.maximum(back, 0), np.maximum(-ahead, 0))
            fall = np.maximum(np.maximum(-back, 0), np.maximum(ahead, 0))
            squared += np.where(inside, rise, fall) ** 2
        distance -= np.float32(0.5) * sign * (np.sqrt(squared) - 1)
    return np.clip(distance, -_REACH, _REACH)


def _spline_upscaling(n: int, factor: int) -> NDArray[np.float32]:
    """Return the matrix, of shape (n·factor, n), of cubic spline interpolation between n cell centers."""
    from scipy.interpolate import make_interp_spline

    centres = np.arange(n) + 0.5
    fine = (np.arange(n * factor) + 0.5) / factor
    spline = make_interp_spline(centres, np.eye(n), k=3, bc_type="natural")
    return np.asarray(spline(np.clip(fine, centres[0], centres[-1])), dtype=np.float32)


def _gaussian(n: int, sigma: float) -> NDArray[np.float32]:
    """Return the matrix, of shape (n, n), of a Gaussian blur that preserves constants."""
    apart = np.arange(n)[:, None] - np.arange(n)
    weights = np.exp(-0.5 * (apart / sigma) ** 2)
    weights[np.abs(apart) > 6 * sigma] = 0  # smaller weights only produce denormal numbers, which are slow
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float32)


@cache
def grain() -> NDArray[np.float32]:
    """Return periodic smoothed noise of shape (64, 64), with mean 0 and standard deviation 1."""
    noise = np.random.default_rng(0).standard_normal((64, 64))
    noise += 0.5 * (np.roll(noise, 1, axis=0) + np.roll(noise, 1, axis=1))
    return np.asarray((noise - noise.mean()) / noise.std(), dtype=np.float32)


@kernel
def _find_steepest(
    field: NDArray[np.float32], near_y: NDArray[np.float32], near_x: NDArray[np.float32]
) -> tuple[np.float32, np.float32]:
    """Return the largest difference between neighboring samples along y and along x.

    The arrays `near_y` and `near_x` have the shape of the field. For each cell, they get the largest
    differences near the cell. The samples near a cell determine the values of the spline in the cell and up
    to one sample beyond it.
    """
    n_rows, n_columns = field.shape
    steepest_y = steepest_x = np.float32(0)
    for i in range(n_rows):
        for j in range(n_columns):
            most_y = most_x = np.float32(0)
            for a in range(max(0, i - 2), min(n_rows, i + 4)):
                for b in range(max(0, j - 2), min(n_columns, j + 4)):
                    if a + 1 < min(n_rows, i + 4):
                        most_y = max(most_y, abs(field[a + 1, b] - field[a, b]))
                    if b + 1 < min(n_columns, j + 4):
                        most_x = max(most_x, abs(field[a, b + 1] - field[a, b]))
            near_y[i, j], near_x[i, j] = most_y, most_x
            steepest_y, steepest_x = max(steepest_y, most_y), max(steepest_x, most_x)
    return steepest_y, steepest_x


@kernel
def _find_ink(
    field: NDArray[np.float32], p: NDArray[np.float32], size: int, ink_of: NDArray[np.int8]
) -> None:
    """Find the tiles of a drawing that certainly have no ink, and those that are certainly full of ink.

    The level of a pixel is the value of the field at the pixel's center. The field is a B-spline. Its slope
    along an axis is a mean of differences between neighboring samples, so the slope is at most the largest
    difference nearby. This gives a bound D on the change of the level within 5 pixels of a tile's center
    along both axes. The pixels of the tile are at most 3.5 pixels away, so their levels differ from the
    center's by at most 0.7 D. `_cover` finds a pixel empty if its level is below `outline` - slope / 2, and
    full if its level is above `outline` + slope / 2. The level changes by at most 0.2 D from pixel to pixel
    along each axis, so slope / 2 is at most 0.1 √2 D. The sum 0.7 D + 0.1 √2 D is less than 0.85 D.

    Parameters
    ----------
    field, p : array
        The field and the parameters of one drawing; see `draw`.
    size : int
        Number of pixels along one side of the drawing.
    ink_of : array of int8
        The result for each tile: `_NONE`, `_SOME` or `_FULL`.
    """
    near_y, near_x = np.empty_like(field), np.empty_like(field)
    steepest_y, steepest_x = _find_steepest(field, near_y, near_x)
    # Half the side of a tile and of a border of one pixel around it; a drawing's side is 2.
    away = np.float32(TILE + 2) / np.float32(size)
    off_y = away * (abs(p[1]) + abs(p[2]) + abs(p[9] * p[10]))
    off_x = away * (abs(p[4]) + abs(p[5]) + abs(p[6] * p[7]))
    is_near = max(off_y, off_x) <= np.float32(1)
    first, last = (
        np.float32(1),
        np.float32(field.shape[0] - 2),
    )  # between these, no sample that a value depends on is missing
    for i in range(ink_of.shape[0]):
        at_y = np.float32(2 * TILE * i + TILE) / np.float32(size) - np.float32(1)
        for j in range(ink_of.shape[1]):
            at_x = np.float32(2 * TILE * j + TILE) / np.float32(size) - np.float32(1)
            y = p[0] + p[1] * at_y + p[2] * at_x + p[9] * np.sin(p[10] * at_x + p[11])
            x = p[3] + p[4] * at_y + p[5] * at_x + p[6] * np.sin(p[7] * at_y + p[8])
            if y + off_y < first or y - off_y >= last or x + off_x < first or x - off_x >= last:
                ink_of[i, j] = _NONE  # the whole tile is outside
            elif y - off_y < first or y + off_y >= last or x - off_x < first or x + off_x >= last:
                ink_of[i, j] = _SOME  # a part of the tile is outside, so the level may jump
            else:
                if is_near:
                    steepest_y, steepest_x = near_y[int(y), int(x)], near_x[int(y), int(x)]
                unsure = np.float32(0.85) * (steepest_y * off_y + steepest_x * off_x) + np.float32(1e-3)
                above = _value(field, y, x) - p[12]
                ink_of[i, j] = _NONE if above <= -unsure else _FULL if above > unsure else _SOME


@kernel
def _value(field: NDArray[np.float32], y: np.float32, x: np.float32) -> np.float32:
    """Return a field's value at a point, by cubic B-splines; `_OUTSIDE` if samples around it are missing."""
    one, three, four, six = np.float32(1), np.float32(3), np.float32(4), np.float32(6)
    fy, fx = np.floor(y), np.floor(x)
    top, left = int(fy) - 1, int(fx) - 1
    if top < 0 or left < 0 or top + 3 >= field.shape[0] or left + 3 >= field.shape[1]:
        return _OUTSIDE
    ty, tx = y - fy, x - fx
    sy, sx = one - ty, one - tx
    wy0, wx0 = sy * sy * sy, sx * sx * sx
    wy1, wx1 = (three * ty - six) * ty * ty + four, (three * tx - six) * tx * tx + four
    wy2, wx2 = (three * sy - six) * sy * sy + four, (three * sx - six) * sx * sx + four
    wy3, wx3 = ty * ty * ty, tx * tx * tx
    value = np.float32(0)
    for a, wy in enumerate((wy0, wy1, wy2, wy3)):
        row = np.float32(0)
        for b, wx in enumerate((wx0, wx1, wx2, wx3)):
            row += wx * field[top + a, left + b]
        value += wy * row
    return value / np.float32(36)


@kernel
def _cover(
    level: NDArray[np.float32],
    ink_of: NDArray[np.int8],
    top: int,
    rows: int,
    outline: np.float32,
    ink: np.float32,
    grain: NDArray[np.float32],
    start: int,
    out: NDArray[np.float32],
) -> None:
    """Write the ink of some rows: `ink` times the fraction of each pixel in which `level` exceeds `outline`.

    `top` is the first of these rows. `level` has the field's values at their pixels, and at a border of one
    pixel around them. The fraction is a first-order approximation from the gradient of `level`. A texture
    from `grain` varies the ink. In tiles with no ink or full of ink, `level` is not read; see `_find_ink`.
    """
    size = out.shape[0]
    zero, half, one = np.float32(0), np.float32(0.5), np.float32(1)
    flat = np.float32(1e-6)
    depth = np.float32(0.03)
    cell = np.float32(32) / np.float32(size)
    for i in range(top, top + rows):
        k = i - top
        gy = (np.float32(i) + half) * cell - half
        row = int(np.floor(gy))
        dy = gy - np.float32(row)
        for j in range(size):
            covered = one
            kind = ink_of[i // TILE, j // TILE]
            if kind == _SOME:
                slope_y = level[k + 2, j + 1] - level[k, j + 1]
                slope_x = level[k + 1, j + 2] - level[k + 1, j]
                slope = half * np.sqrt(slope_y * slope_y + slope_x * slope_x) + flat
                covered = min(one, max(zero, (level[k + 1, j + 1] - outline) / slope + half))
            if kind == _NONE or covered == zero:
                out[i, j] = zero
                continue
            gx = (np.float32(j) + half) * cell - half
            column = int(np.floor(gx))
            dx = gx - np.float32(column)
            a, b = (row + start // 64) % 64, (row + 1 + start // 64) % 64
            c, d = (column + start) % 64, (column + 1 + start) % 64
            texture = (one - dy) * ((one - dx) * grain[a, c] + dx * grain[a, d]) + dy * (
                (one - dx) * grain[b, c] + dx * grain[b, d]
            )
            out[i, j] = covered * min(one, max(zero, ink * (one + depth * texture)))


@kernel
def draw(
    fields: NDArray[np.float32],
    chosen: NDArray[np.int64],
    parameters: NDArray[np.float32],
    grain: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Draw glyphs to `out` with ink 1 on background 0.

    Parameters
    ----------
    fields : array of shape (n_fields, 40, 40)
        Distances from outlines, in samples.
    chosen : array of shape (n,)
        Index of the field that each drawing shows.
    parameters : array of shape (n, 15)
        The coordinates of a drawing run from −1 to 1, down (y) and right (x). The coordinates of a field are
        in samples. Columns 0–5: the affine map from drawing to field (y0, yy, yx, x0, xy, xx). Columns 6–8: a
        wave (amplitude in samples, frequency, phase) that shifts rows sideways. Columns 9–11: a wave that
        shifts columns down. Column 12: the distance at which the outline is drawn. Column 13: the ink, 0 to
        1. Column 14: the first cell of the grain (64·row + column), where a cell is 1/32 of a side.
    grain : array of shape (64, 64)
        Variation of the ink, which is multiplied by 0.03 before use.
    out : array of shape (n, size, size)
        The drawings.
    """
    n, size = out.shape[0], out.shape[1]
    rim = size + 2
    is_checked = size > CHECKED_FROM
    height = TILE if is_checked else size  # of the bands that are drawn one after the other
    level = np.empty((height + 2, rim), dtype=np.float32)
    up = np.empty(rim, dtype=np.float32)
    sideways = np.empty(rim, dtype=np.float32)
    n_tiles = (size + TILE - 1) // TILE
    ink_of = np.full((n_tiles, n_tiles), _SOME, dtype=np.int8)
    wanted = np.ones(n_tiles + 1, dtype=np.bool_)
    one, two = np.float32(1), np.float32(2)
    for g in range(n):
        field = fields[chosen[g]]
        p = parameters[g]
        if is_checked:
            _find_ink(field, p, size, ink_of)
        for i in range(rim):
            at = (two * np.float32(i) - one) / np.float32(size) - one
            sideways[i] = p[6] * np.sin(p[7] * at + p[8])
            up[i] = p[9] * np.sin(p[10] * at + p[11])
        for top in range(0, size, height):
            rows = min(height, size - top)
            if is_checked:
                wanted[:] = False
                for tile in range(n_tiles):
                    if ink_of[top // TILE, tile] == _SOME:
                        wanted[tile : tile + 2] = True  # with the border of one pixel around it
            for i in range(top, top + rows + 2):
                at_y = (two * np.float32(i) - one) / np.float32(size) - one
                for tile in range(n_tiles + 1):
                    if not wanted[tile]:
                        continue
                    for j in range(tile * TILE, min(rim, (tile + 1) * TILE)):
                        at_x = (two * np.float32(j) - one) / np.float32(size) - one
                        y = p[0] + p[1] * at_y + p[2] * at_x + up[j]
                        x = p[3] + p[4] * at_y + p[5] * at_x + sideways[i]
                        level[i - top, j] = _value(field, y, x)
            _cover(level, ink_of, top, rows, p[12], p[13], grain, int(p[14]), out[g])
