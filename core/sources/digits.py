"""Synthetic handwritten digits, generated on demand and in any number, without storing them.

Item i is one of scikit-learn's 1,797 digits, randomly deformed. It is rotated, sheared, scaled, shifted and
bent by two gentle waves, the width of its strokes varies, and noise is added to the ink. The random numbers
depend only on the seed and on i (`core.numerics.randomness`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.numerics.randomness import hashed, normal, uniform
from closecall.core.sources import glyphs
from closecall.core.sources.base import GREY_SIZE, Items, Problem, Source

DRAWING = 1
"""Version of the drawing code, stored by pools. Increase it if a change makes any item look different."""

OWN_SIZE = 128
"""Side in pixels of `Digits.whole_image`, from which models compute features."""

MAX_HELD_OUT = 10_000
MIN_HELD_OUT = 100


class Digits(Source):
    """Source of deformed handwritten digits.

    The first items are held out. Their number is a fifth of `n_pool`, but at least 100 and at most 10,000.
    Every sixth of the 1,797 digits is used only for held-out items, and the remaining digits only for the
    other items. Items can be appended without changing the held-out items.

    Parameters
    ----------
    n_pool : int
        Number of items to select from, not counting held-out items.
    seed : int
        Seed of the deformations.
    n_held_out : int, optional
        Number of held-out items, by default as described above. A source to which items were appended must
        keep its initial number.

    Raises
    ------
    InputError
        If `n_pool` is less than 1.
    """

    kind: ClassVar[str] = "digits"
    title = "Digits, drawn on demand"
    classes = tuple("0123456789")

    def __init__(self, n_pool: int = 1_000_000, *, seed: int = 0, n_held_out: int | None = None) -> None:
        if n_pool < 1:
            raise InputError(f"digits needs at least 1 item, got {n_pool}")
        self.n_pool = n_pool
        self.seed = seed
        self.n_held_out = (
            min(MAX_HELD_OUT, max(MIN_HELD_OUT, n_pool // 5)) if n_held_out is None else n_held_out
        )

    def __len__(self) -> int:
        return self.n_held_out + self.n_pool

    def spec(self) -> dict[str, Any]:
        """Return all parameters and the version of the drawing."""
        return {
            "kind": self.kind,
            "n_pool": self.n_pool,
            "seed": self.seed,
            "n_held_out": self.n_held_out,
            "drawing": DRAWING,
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None) -> Self:  # noqa: ARG003
        """See `Source.from_spec`. Digits drawn by another version of this module are rejected."""
        if spec.get("drawing") != DRAWING:
            raise InputError(
                f"this pool's digits were drawn by version {spec.get('drawing')} of the drawing, but this "
                f"program has version {DRAWING}: build the pool again"
            )
        return cls(spec["n_pool"], seed=spec["seed"], n_held_out=spec["n_held_out"])

    def continuing(self, spec: dict[str, Any], folder: Path | None) -> Source:  # noqa: ARG002
        """See `Source.continuing`. The held-out items stay the same."""
        if spec.get("kind") != self.kind or spec.get("seed") != self.seed:
            return self
        return type(self)(self.n_pool, seed=self.seed, n_held_out=spec["n_held_out"])

    def name(self, item: int) -> str:
        """Return a name such as "digit 123"."""
        return f"digit {item}"

    def image(self, item: int, size: int) -> Image.Image:
        """Return the digit, drawn at exactly size × size pixels, white on black, mode L."""
        drawn = self._drawn(self.check_items(np.array([item])), size)[0]
        drawn *= 255
        return Image.fromarray(np.rint(drawn, out=drawn).astype(np.uint8))

    def whole_image(self, item: int) -> Image.Image:
        """Return the digit, drawn at 128 × 128 pixels."""
        return self.image(item, OWN_SIZE)

    def grey(self, items: Items) -> tuple[NDArray[np.float32], list[Problem]]:
        """Draw the items at 32 × 32 pixels; see `Source.grey`. No item is ever unreadable."""
        return self._drawn(self.check_items(items), GREY_SIZE), []

    def prepare(self, go_on: Callable[[], None]) -> None:
        """Compute the shapes of all bundled digits, which takes some seconds; see `Source.prepare`."""
        glyphs.prepare(go_on)

    def truth(self, items: Items) -> NDArray[np.int16]:
        """Return the digit of each item."""
        return glyphs.bundled_digits()[self._origin(self.check_items(items))]

    def held_out(self) -> Items:
        """Return the ids of the first `n_held_out` items."""
        return np.arange(self.n_held_out, dtype=np.int64)

    def _origin(self, items: Items) -> Items:
        """For each item, return the index of the bundled digit that is deformed to draw the item."""
        pool, held_out = _origins()
        draws = hashed(self.seed, items, 1)[:, 0]
        origin: Items = np.where(
            items < self.n_held_out,
            held_out[draws % np.uint64(len(held_out))],
            pool[draws % np.uint64(len(pool))],
        )
        return origin

    def _drawn(self, items: Items, size: int) -> NDArray[np.float32]:
        out = np.empty((len(items), size, size), dtype=np.float32)
        origin = self._origin(items)
        shapes = glyphs.bundled(origin)
        deformations = self._deformations(items, shapes.half_widths[origin])
        glyphs.draw(shapes.fields, origin, deformations, glyphs.grain(), out)
        return out

    def _deformations(self, items: Items, half_widths: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the deformation parameters for `glyphs.draw`, computed from each item's random numbers.

        The original scans were stretched to fill a square, so some images of the digit 1 are as wide as they
        are high. Therefore, unusually wide strokes are narrowed again.
        """
        u = uniform(self.seed + 1, items, 12)
        z = np.clip(normal(self.seed + 2, items, 4), -2.5, 2.5)
        turn = np.deg2rad(9.0) * z[:, 0]
        slant = 0.16 * z[:, 1]
        height = np.exp(0.10 * z[:, 2])
        width = height * np.exp(0.10 * z[:, 3]) * np.clip(4.6 / half_widths, 0.55, 1)
        # Field samples per unit: the drawing's side is 2 units, and the 8 blocks of an undeformed digit fill
        # 0.7 of this side.
        samples = 4 * glyphs.BLOCK / 0.7
        cos, sin = np.cos(turn), np.sin(turn)
        yy, yx = cos / height, -sin / height
        xy, xx = (sin + slant * cos) / width, (cos - slant * sin) / width
        centre = glyphs.SIDE / 2 - 0.5
        shift_y, shift_x = 0.14 * (u[:, 0] - 0.5), 0.14 * (u[:, 1] - 0.5)
        parameters = np.empty((len(items), glyphs.PARAMETERS), dtype=np.float32)
        parameters[:, 0] = centre - samples * (yy * shift_y + yx * shift_x)
        parameters[:, 1], parameters[:, 2] = samples * yy, samples * yx
        parameters[:, 3] = centre - samples * (xy * shift_y + xx * shift_x)
        parameters[:, 4], parameters[:, 5] = samples * xy, samples * xx
        parameters[:, 6], parameters[:, 9] = 1.6 * u[:, 2], 1.2 * u[:, 3]
        parameters[:, 7], parameters[:, 10] = 2 + 2.5 * u[:, 4], 2 + 2.5 * u[:, 5]
        parameters[:, 8], parameters[:, 11] = 2 * np.pi * u[:, 6], 2 * np.pi * u[:, 7]
        parameters[:, 12] = -0.7 + 1.3 * u[:, 8]
        parameters[:, 13] = 0.88 + 0.12 * u[:, 9]
        parameters[:, 14] = np.floor(64 * 64 * u[:, 10])
        return parameters


@cache
def _origins() -> tuple[Items, Items]:
    """Return the indices of the bundled digits for pool items, and of the digits for held-out items."""
    ours = np.arange(len(glyphs.bundled_digits())) % 6 != 0
    return np.flatnonzero(ours), np.flatnonzero(~ours)
