"""Source of variants in feature space: as many rows as one likes, to test a program at any size.

A variant of a row x of a pool is x + t₁ d₁ + t₂ d₂, where d₁ and d₂ are differences between rows and their
neighbours. The rows and the neighbours are drawn from the pool, so variants lie where real rows might. Their
neighbourhoods are more regular than those of real rows: every row has equally many variants, at similar
distances.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.numerics.randomness import hashed, seed_for, uniform
from closecall.core.pool.manifest import DENSE, FEATURES, Manifest
from closecall.core.pool.segments import Segment, load_part
from closecall.core.sources.base import Items, Problem, Source, changed
from closecall.core.sources.registry import feature_kind, open_source

VERSION = 1
"""Version of the variants' code, stored by pools. Increase it if a change makes any row different."""

_DIFFERENCES = 4096
_NEIGHBOURS = 65_536
_LEAST, _MOST = 0.3, 0.7
"""Range of the factors t₁ and t₂."""


class Variants(Source):
    """The items of a pool, followed by variants of those that are not held out.

    Let the pool have n items and p rows. Item n + j is then a variant of row j mod p. It is displayed as the
    item of this row.

    Parameters
    ----------
    pool : Path
        Folder of a complete pool with dense float features.
    n_items : int
        Number of items, at least n.
    seed : int

    Raises
    ------
    InputError
        If the pool cannot be read, is incomplete, or has other features; or if `n_items` is too small.
    """

    kind: ClassVar[str] = "variants"

    def __init__(self, pool: Path, n_items: int, *, seed: int = 0) -> None:
        manifest = Manifest.read(pool)
        if manifest.layout != DENSE or not manifest.complete:
            raise InputError(f"variants need a complete pool with float32 or float16 features, got {pool}")
        if n_items < manifest.items:
            raise InputError(f"N must be at least {manifest.items:,}, the items of {pool}, got {n_items:,}")
        self.pool = pool.resolve()
        self.n_items = n_items
        self.seed = seed
        self.n_features = manifest.n_features
        self.classes = manifest.classes
        self.title = f"{manifest.title}, {n_items:,} items with variants"
        self._manifest = manifest
        self._lock = threading.Lock()
        self._drawn: NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return self.n_items

    def spec(self) -> dict[str, Any]:
        """Return the pool's folder and checksums, and how it is enlarged."""
        return {
            "kind": self.kind,
            "pool": str(self.pool),
            "checksums": [part.files[FEATURES].checksum for part in self._manifest.parts],
            "pool_items": self._manifest.items,
            "items": self.n_items,
            "seed": self.seed,
            "version": VERSION,
            "feature_kind": feature_kind(self._manifest.source, _folder(self.pool, self._manifest)),
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None) -> Self:  # noqa: ARG003
        """See `Source.from_spec`. Variants made by another version of this module are rejected."""
        if spec["version"] != VERSION:
            raise InputError(f"this pool's variants were made by version {spec['version']}: build it again")
        found = cls(Path(spec["pool"]), spec["items"], seed=spec["seed"])
        found._manifest = _first_items(found._manifest, spec["pool_items"], len(spec["checksums"]))
        if found.spec()["checksums"] != spec["checksums"]:
            raise changed(found.pool)
        return found

    @classmethod
    def feature_kind(cls, spec: dict[str, Any], folder: Path | None) -> str:  # noqa: ARG003
        """Return `Source.feature_kind` of the pool's source."""
        return str(spec["feature_kind"])

    @cached_property
    def source(self) -> Source:
        """Source of the pool."""
        return open_source(self._manifest.source, _folder(self.pool, self._manifest))

    def name(self, item: int) -> str:
        """Return the name of the pool's item, with the number of the variant."""
        return self.names(np.array([item]))[0]

    def names(self, items: Items) -> list[str]:
        """See `Source.names` and `name`."""
        origins, variants = self._origins(items)
        unique, places = np.unique(origins, return_inverse=True)
        names = self.source.names(unique)
        pairs = zip(places.tolist(), variants.tolist(), strict=True)
        return [f"{names[place]}, variant {number}" if number else names[place] for place, number in pairs]

    def image(self, item: int, size: int) -> Image.Image:
        """Return the image of the pool's item."""
        return self.source.image(self._origin(item), size)

    def resolution(self, item: int) -> tuple[int, int] | None:
        """See `Source.resolution` and `image`."""
        return self.source.resolution(self._origin(item))

    def whole_image(self, item: int) -> Image.Image:
        """See `Source.whole_image` and `image`."""
        return self.source.whole_image(self._origin(item))

    def halved_image(self, item: int, times: int) -> Image.Image | None:
        """See `Source.halved_image` and `image`."""
        return self.source.halved_image(self._origin(item), times)

    def grey(self, items: Items) -> tuple[NDArray[np.float32], list[Problem]]:
        """See `Source.grey`. The images are those of the pool's items."""
        grey, problems = self.source.grey(self._origins(items)[0])
        named = {problem.item: problem for problem in problems}
        pairs = zip(items.tolist(), self._origins(items)[0].tolist(), strict=True)
        return grey, [replace(named[origin], item=item) for item, origin in pairs if origin in named]

    def features(self, items: Items) -> NDArray[np.float32]:
        """See `Source.features`."""
        items = self.check_items(items)
        origins, variants = self._origins(items)
        X = np.zeros((len(items), self._manifest.n_features), dtype=np.float32)  # zero rows are unreadable
        for segment in (*self._segments, self._held_out):
            places = np.searchsorted(segment.ids, origins)
            own = np.flatnonzero(places < len(segment.ids))
            own = own[segment.ids[places[own]] == origins[own]]
            X[own] = segment.X[places[own]]
        varied = np.flatnonzero(variants)
        if not len(varied):
            return X
        differences = self._differences()
        n = np.uint64(len(differences))
        draws = hashed(seed_for("differences", self.seed), items[varied], 2) % n
        factors = uniform(seed_for("factors", self.seed), items[varied], 2).astype(np.float32)
        factors = np.float32(_LEAST) + np.float32(_MOST - _LEAST) * factors
        for draw, factor in zip(draws.T, factors.T, strict=True):
            X[varied] += factor[:, None] * differences[draw]
        return X

    def truth(self, items: Items) -> NDArray[np.int16]:
        """Return the classes of the pool's items."""
        origins, _ = self._origins(items)
        found = np.full(len(origins), -1, dtype=np.int16)
        for segment in (*self._segments, self._held_out):
            places = np.searchsorted(segment.ids, origins)
            own = np.flatnonzero(places < len(segment.ids))
            own = own[segment.ids[places[own]] == origins[own]]
            found[own] = segment.truth[places[own]]
        return found

    def held_out(self) -> Items:
        """Return the ids that the pool's source holds out."""
        return self._held_out.ids

    @cached_property
    def _segments(self) -> tuple[Segment, ...]:
        first, found = 0, []
        for part in self._manifest.segments:
            found.append(load_part(self.pool, part, first, self._manifest))
            first += part.rows
        return tuple(found)

    @cached_property
    def _held_out(self) -> Segment:
        part = self._manifest.held_out
        if part is not None:
            return load_part(self.pool, part, 0, self._manifest)
        nothing = np.empty((0, self._manifest.n_features), dtype=np.float32)
        return Segment(0, nothing, np.empty(0, np.int64), np.empty(0, np.int16))

    @cached_property
    def _ids(self) -> NDArray[np.int64]:
        return np.concatenate([segment.ids for segment in self._segments])

    def _differences(self) -> NDArray[np.float32]:
        """Differences between rows and their nearest neighbours, of shape (n_differences, n_features)."""
        with self._lock:
            if self._drawn is None:
                self._drawn = self._draw_differences()
            return self._drawn

    def _draw_differences(self) -> NDArray[np.float32]:
        rng = np.random.default_rng(seed_for("neighbours", self.seed))
        ids = np.sort(rng.permutation(self._ids)[:_NEIGHBOURS])
        X = self.features(ids)
        squares = (X**2).sum(axis=1)
        some = rng.permutation(len(X))[:_DIFFERENCES]
        found = np.empty((len(some), X.shape[1]), dtype=np.float32)
        for first in range(0, len(some), 256):
            own = some[first : first + 256]
            distances = squares - 2 * (X[own] @ X.T)
            distances[np.arange(len(own)), own] = np.inf
            found[first : first + len(own)] = X[distances.argmin(axis=1)] - X[own]
        return found

    def _origin(self, item: int) -> int:
        return int(self._origins(np.array([item]))[0][0])

    def _origins(self, items: Items) -> tuple[Items, Items]:
        """For each item, return the id of the pool's item, and the number of the variant or 0."""
        items = self.check_items(items)
        later = items - self._manifest.items
        variants = np.where(later < 0, 0, 1 + later // len(self._ids))
        origins = items.copy()
        origins[later >= 0] = self._ids[later[later >= 0] % len(self._ids)]
        return origins, variants


def _first_items(manifest: Manifest, n_items: int, n_parts: int) -> Manifest:
    """Return the manifest as it was with `n_items` items in `n_parts` parts, before the pool grew."""
    held_out = () if manifest.held_out is None else (manifest.held_out,)
    segments = manifest.segments[: n_parts - len(held_out)]
    return replace(manifest, items=n_items, segments=segments)


def _folder(pool: Path, manifest: Manifest) -> Path | None:
    return pool / manifest.source_folder if manifest.source_folder else None
