"""Source of images and their variants: shifted, mirrored, and changed in contrast, brightness and noise."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.numerics.randomness import uniform
from closecall.core.onnx.resizing import Resizing
from closecall.core.sources.base import GREY_SIZE, Items, Problem, Source
from closecall.core.sources.registry import feature_kind, open_source
from closecall.core.sources.texts import Texts

VARIANTS = 1
"""Version of the variants' code, stored by pools. Increase it if a change makes any item look different."""

_TILE = 256  # side of the square from which the noise of every variant is cut


class Enlarged(Source):
    """Source with the items of `source`, followed by variants of the items that are not held out.

    Let `source` have n items, p of which are not held out. Item n + j is then a variant of the item with
    index j mod p among these p items, and the number of the variant is 1 + j // p. Held-out items stay the
    same and have no variants. Increasing `times` only appends items.

    Parameters
    ----------
    source : Source
        Source of images; texts and embeddings cannot be enlarged.
    times : int
        Number of items for each image that is not held out: the image itself and its variants.
    seed : int
        Seed of the variants.

    Raises
    ------
    InputError
        If `times` is less than 1, or the source has texts or embeddings.
    """

    kind: ClassVar[str] = "enlarged"

    def __init__(self, source: Source, times: int, *, seed: int = 0) -> None:
        if times < 1:
            raise InputError(f"times must be at least 1, got {times}")
        if isinstance(source, Texts):
            raise InputError(f"{source.title} contains texts, but only images can be enlarged")
        if source.n_features is not None:
            raise InputError(f"{source.title} has its own embeddings, but only images can be enlarged")
        self.source = source
        self.times = times
        self.seed = seed
        self.classes = source.classes
        self.extractor = source.extractor
        self.is_slow = source.is_slow
        self.title = f"{source.title}, enlarged {times} times"
        self._ours = np.setdiff1d(np.arange(len(source), dtype=np.int64), source.held_out())

    def __len__(self) -> int:
        return len(self.source) + (self.times - 1) * len(self._ours)

    def spec(self) -> dict[str, Any]:
        """Return the spec of the source, and how it is enlarged."""
        return {
            "kind": self.kind,
            "times": self.times,
            "seed": self.seed,
            "variants": VARIANTS,
            "source": self.source.spec(),
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None) -> Self:
        """See `Source.from_spec`. Variants made by another version of this module are rejected."""
        if spec["variants"] != VARIANTS:
            raise InputError(
                f"this pool's variants were made by version {spec['variants']}, but this program has "
                f"version {VARIANTS}: build the pool again"
            )
        return cls(open_source(spec["source"], folder), spec["times"], seed=spec["seed"])

    @classmethod
    def feature_kind(cls, spec: dict[str, Any], folder: Path | None) -> str:
        """Return `Source.feature_kind` of the source that is enlarged."""
        return feature_kind(spec["source"], folder)

    def save(self, folder: Path) -> None:
        """Save what `source` saves."""
        self.source.save(folder)

    def without_folder_classes(self) -> Source:
        """See `Source.without_folder_classes`."""
        source = self.source.without_folder_classes()
        return self if source is self.source else type(self)(source, self.times, seed=self.seed)

    def name(self, item: int) -> str:
        """Return the original's name, with the number of the variant."""
        return self.names(np.array([item]))[0]

    def names(self, items: Items) -> list[str]:
        """Return the names of several items; see `name`. The name of each original is read once."""
        origins, variants = self._origins(items)
        unique, places = np.unique(origins, return_inverse=True)
        originals = self.source.names(unique)
        return [
            f"{originals[place]}, variant {variant}" if variant else originals[place]
            for place, variant in zip(places.tolist(), variants.tolist(), strict=True)
        ]

    def image(self, item: int, size: int) -> Image.Image:
        """Return the image of the original, changed in the same way as the grayscale variant in `grey`."""
        return self._variant(item, lambda origin: self.source.image(origin, size))

    def resolution(self, item: int) -> tuple[int, int] | None:
        """See `Source.resolution`. A variant has the resolution of its original."""
        origins, _ = self._origins(np.array([item]))
        return self.source.resolution(int(origins[0]))

    def whole_image(self, item: int) -> Image.Image:
        """See `Source.whole_image` and `image`."""
        return self._variant(item, self.source.whole_image)

    def halved_image(self, item: int, times: int) -> Image.Image | None:
        """See `Source.halved_image`. If the item is a variant, it is drawn from its whole original."""
        origins, variants = self._origins(np.array([item]))
        return None if variants[0] else self.source.halved_image(int(origins[0]), times)

    def resized_image(self, item: int, resizing: Callable[[int, int], Resizing]) -> Image.Image:
        """See `Source.resized_image`. If the item is no variant, `source` resizes it.

        Variants are changed copies of the image for display, in which 16-bit values are stretched.
        """
        origins, variants = self._origins(np.array([item]))
        if variants[0] == 0:
            return self.source.resized_image(int(origins[0]), resizing)
        return super().resized_image(item, resizing)

    def _variant(self, item: int, original: Callable[[int], Image.Image]) -> Image.Image:
        origins, variants = self._origins(np.array([item]))
        shown = original(int(origins[0]))
        if variants[0] == 0:
            return shown
        changes = self._changes(np.array([item]))
        pixels = np.asarray(shown, dtype=np.float32) / np.float32(255)
        height, width = pixels.shape[:2]
        planes = np.moveaxis(np.atleast_3d(pixels), 2, 0)[None]
        noise = Image.fromarray(_noise(changes)[0]).resize((width, height), Image.Resampling.BICUBIC)
        varied = _varied(planes, changes, np.asarray(noise)[None, None])[0]
        varied = np.moveaxis(np.rint(varied * 255).astype(np.uint8), 0, 2)
        return Image.fromarray(varied[..., 0] if shown.mode == "L" else varied)

    def grey(self, items: Items) -> tuple[NDArray[np.float32], list[Problem]]:
        """See `Source.grey`. If an original cannot be read, its variants cannot be read either."""
        items = self.check_items(items)
        origins, variants = self._origins(items)
        unique, places = np.unique(origins, return_inverse=True)
        originals, unreadable = self.source.grey(unique)
        grey = originals[places]
        reasons = {problem.item: problem.reason for problem in unreadable}
        problems = [
            Problem(item, self.name(item), reasons[origin])
            for item, origin in zip(items.tolist(), origins.tolist(), strict=True)
            if origin in reasons
        ]
        changed = (variants > 0) & ~np.isin(origins, list(reasons))
        changes = self._changes(items[changed])
        grey[changed] = _varied(grey[changed][:, None], changes, _noise(changes)[:, None])[:, 0]
        return grey, problems

    def note_on_left_out(self) -> str | None:
        """See `Source.note_on_left_out`."""
        return self.source.note_on_left_out()

    def prepare(self, go_on: Callable[[], None]) -> None:
        """See `Source.prepare`."""
        self.source.prepare(go_on)

    def vanished(self) -> Path | None:
        """See `Source.vanished`."""
        return self.source.vanished()

    @contextmanager
    def reading_ahead(self, stop: threading.Event) -> Iterator[Callable[[Items], None]]:
        """See `Source.reading_ahead`."""
        with self.source.reading_ahead(stop) as announce:
            yield lambda items: announce(self._origins(items)[0])

    def truth(self, items: Items) -> NDArray[np.int16]:
        """Return the classes of the originals."""
        return self.source.truth(self._origins(items)[0])

    def held_out(self) -> Items:
        """Return the ids that `source` holds out."""
        return self.source.held_out()

    def _origins(self, items: Items) -> tuple[Items, Items]:
        """For each item, return the id of its original and the number of the variant, 0 for an original."""
        items = self.check_items(items)
        later = items - len(self.source)
        variants = np.where(later < 0, 0, 1 + later // max(1, len(self._ours)))
        origins = items.copy()
        origins[later >= 0] = self._ours[later[later >= 0] % max(1, len(self._ours))]
        return origins, variants

    def _changes(self, items: Items) -> _Changes:
        u = uniform(self.seed, items, 8).astype(np.float32)
        return _Changes(
            mirrored=u[:, 0] < 0.5,
            down=np.floor(u[:, 1] * 9).astype(np.int64) - 4,
            right=np.floor(u[:, 2] * 9).astype(np.int64) - 4,
            contrast=0.75 + 0.5 * u[:, 3],
            brightness=0.12 * (u[:, 4] - 0.5),
            noise=0.03 * u[:, 5],
            grain=np.floor(u[:, 6:8] * _TILE).astype(np.int64),
        )


class _Changes(NamedTuple):
    """Parameters of n variants. Shifts are in 1/32 of a side; for brightness and noise, white is 1."""

    mirrored: NDArray[np.bool_]
    down: NDArray[np.int64]
    right: NDArray[np.int64]
    contrast: NDArray[np.float32]
    brightness: NDArray[np.float32]
    noise: NDArray[np.float32]
    grain: NDArray[np.int64]


def _varied(
    planes: NDArray[np.float32], changes: _Changes, noise: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return varied images of shape (n, n_planes, height, width), in [0, 1].

    Shifting an image repeats the pixels at its edge.
    """
    height, width = planes.shape[2:]
    rows = np.arange(height) - np.rint(changes.down[:, None] * (height / GREY_SIZE)).astype(np.int64)
    columns = np.arange(width) - np.rint(changes.right[:, None] * (width / GREY_SIZE)).astype(np.int64)
    columns = np.where(changes.mirrored[:, None], width - 1 - columns, columns)
    rows, columns = np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)
    image = np.arange(len(planes))[:, None, None]
    moved = planes.transpose(0, 2, 3, 1)[image, rows[:, :, None], columns[:, None, :]].transpose(0, 3, 1, 2)

    def each(values: NDArray[np.float32]) -> NDArray[np.float32]:
        return values[:, None, None, None]

    middle = np.float32(0.5)
    varied = (moved - middle) * each(changes.contrast) + middle + each(changes.brightness)
    clipped: NDArray[np.float32] = np.clip(varied + noise, np.float32(0), np.float32(1))
    return clipped


def _noise(changes: _Changes) -> NDArray[np.float32]:
    """Return Gaussian noise of shape (n, 32, 32)."""
    rows = (changes.grain[:, 0, None] + np.arange(GREY_SIZE)) % _TILE
    columns = (changes.grain[:, 1, None] + np.arange(GREY_SIZE)) % _TILE
    noise: NDArray[np.float32] = _tile()[rows[:, :, None], columns[:, None, :]] * changes.noise[:, None, None]
    return noise


@cache
def _tile() -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((_TILE, _TILE), dtype=np.float32)
