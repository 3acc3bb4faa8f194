"""Sets of points, such as the local features of images, embedded as sparse rows by the pyramid match.

A file has the points of all items, and the number of points of each item. `core.mercer.pyramid` embeds the
sets as rows whose inner products are the pyramid match kernel of the sets. The finest of its six levels has
32 bins along the dimension with the widest range. All dimensions should therefore have comparable ranges.
There should also be few dimensions: in more than about ten, two points hardly ever share a bin.

The number of levels was chosen on drawn shapes of 20 to 60 points. Four to eight levels retrieve equally
well, but rows are farther apart with more levels. The cosine of a row and its nearest neighbor is 0.87 with
four levels, 0.58 with six, and 0.24 with eight. Hash codes distinguish small angles better than large ones.

The vocabulary of bins is computed from the items that are not held out, and is saved with the pool.
"""

from __future__ import annotations

import hashlib
import io
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, cast
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.files.durable import replace_file
from closecall.core.mercer.pyramid import PyramidMatch
from closecall.core.numerics.rows import Rows
from closecall.core.sources.base import GREY_SIZE, Items, Problem, Source, changed
from closecall.core.sources.class_list import read_classes
from closecall.core.sources.classes import digest_of, some_of_known, unknown
from closecall.core.sources.images import grey_drawings
from closecall.core.sources.unpacking import unpacked

PYRAMID_FILE = "pyramid.npz"

N_LEVELS = 6

_POINTS, _SIZES = "points", "sizes"
_AT_ONCE = 1 << 20  # numbers
_DARK, _POINT = (30, 34, 44), (255, 194, 84)
_MARGIN = 0.06


class PointSets(Source):
    """Source of sets of points, in the order of the file.

    With classes, a tenth of the items with a known class, at most 10,000, are held out.

    Parameters
    ----------
    path : Path
        A .npz file with two arrays: ``points``, real numbers of shape (n_points, n_dimensions), and
        ``sizes``, integers of shape (n_items,). The first item has the first ``sizes[0]`` points, and so on.
        Items without points are left out of pools.
    labels : Path, optional
        A .npy or .txt file with one class per item; see `core.sources.class_list.read_classes`.

    Raises
    ------
    InputError
        If a file is missing or unsuitable, if the sizes don't add up to the number of points, if no item has
        a point, or if a point is not finite.
    """

    kind: ClassVar[str] = "points"
    item_word: ClassVar[str] = "set"
    is_sparse: ClassVar[bool] = True
    own_features: str = "pyramid match over the bins of the pool's points"

    def __init__(self, path: Path, labels: Path | None = None) -> None:
        self._open(path, labels)
        for start in range(0, len(self._points), self._block):
            if not np.isfinite(self._points[start : start + self._block]).all():
                raise InputError(f"{self.path} must have finite points, but some contain NaN or infinity")

    def _open(self, path: Path, labels: Path | None) -> None:
        self.path = path.absolute()
        self.labels = None if labels is None else labels.absolute()
        self._points, sizes = _arrays(self.path)
        self._firsts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        n = len(sizes)
        self.classes, self._truth = unknown(n) if self.labels is None else read_classes(self.labels, n)
        self.title = f"Sets of points in {self.path.name}"
        self._saved: PyramidMatch | None = None

    def __len__(self) -> int:
        return len(self._firsts) - 1

    @cached_property
    def pyramid(self) -> PyramidMatch:
        """Pyramid whose bins are computed from the items that are not held out."""
        if self._saved is not None:
            return self._saved
        known = np.setdiff1d(np.arange(len(self)), self.held_out())
        return PyramidMatch(n_levels=N_LEVELS).fit(self._sets(known))

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Number of columns: the largest number of points that a set has in a bin, summed over all bins."""
        return self.pyramid.n_features_

    @property
    def mean_entries(self) -> float:  # type: ignore[override]
        """Mean number of nonzero entries of a row: the mean number of points times the number of levels."""
        return self.pyramid.n_levels * len(self._points) / len(self)

    def spec(self) -> dict[str, Any]:
        """Return the paths of the files, with digests."""
        return {
            "kind": self.kind,
            "path": str(self.path),
            "digest": self._digest,
            "labels": None if self.labels is None else str(self.labels),
            "labels_digest": None if self.labels is None else digest_of((self.classes, self._truth)),
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None) -> Self:
        """See `Source.from_spec`. Points were checked when the source was made, and are not read again."""
        source = cls.__new__(cls)
        source._open(Path(spec["path"]), None if spec["labels"] is None else Path(spec["labels"]))
        for file, name in ((source.path, "digest"), (source.labels, "labels_digest")):
            if source.spec()[name] != spec[name]:
                raise changed(file)
        if folder is not None:
            source._saved = _loaded(folder / PYRAMID_FILE)
        return source

    @classmethod
    def feature_kind(cls, spec: dict[str, Any], folder: Path | None) -> str:  # noqa: ARG003
        """Return "bins of the points …" with the digests of the files, which determine the bins."""
        return f"bins of the points {spec['digest']}, classes {spec['labels_digest']}"

    def save(self, folder: Path) -> None:
        """Save the pyramid."""
        held, arrays = io.BytesIO(), cast(dict[str, Any], self.pyramid.state())
        np.savez(held, **arrays)
        replace_file(folder / PYRAMID_FILE, held.getvalue())

    def name(self, item: int) -> str:
        """Return a name such as "set 17", counted from 0."""
        return f"set {item}"

    def problem(self, item: int) -> Problem:
        """See `Source.problem`."""
        n_points = int(self._firsts[item + 1] - self._firsts[item])
        reason = "its points share no bin with other items" if n_points else "it has no points"
        return Problem(item, self.name(item), reason)

    def features(self, items: Items) -> Rows:
        """Return the sparse rows of `core.mercer.pyramid`. Rows of items without points are empty."""
        return self.pyramid.transform(self._sets(self.check_items(items)))

    def image(self, item: int, size: int) -> Image.Image:
        """Draw the points by their first two coordinates. The first coordinate increases to the right."""
        (item,) = self.check_items(np.array([item]))
        points = self._of(item)[:, :2].astype(np.float64)
        if points.shape[1] < 2:
            points = np.column_stack([points, np.full(len(points), 0.5)])
        low, high = self._range
        inner = size * (1 - 2 * _MARGIN)
        places = size * _MARGIN + inner * (points - low) / np.where(high > low, high - low, 1)
        picture = np.full((size, size, 3), _DARK, dtype=np.uint8)
        columns, rows = np.clip(places.astype(np.int64), 0, size - 1).T
        radius = size // 128 or int(size > GREY_SIZE)
        for down in range(-radius, radius + 1):
            for across in range(-radius, radius + 1):
                where = np.clip(rows + down, 0, size - 1), np.clip(columns + across, 0, size - 1)
                picture[where] = _POINT
        return Image.fromarray(picture)

    def grey(self, items: Items) -> tuple[NDArray[np.float32], list[Problem]]:
        """Return the drawings of `image` in grayscale; see `Source.grey`."""
        return grey_drawings(self, items), []

    def truth(self, items: Items) -> NDArray[np.int16]:
        """See `Source.truth`."""
        return self._truth[self.check_items(items)]

    def held_out(self) -> Items:
        """See `Source.held_out`; items are chosen by a hash of their numbers."""
        return self._held_out

    @cached_property
    def _held_out(self) -> Items:
        return some_of_known(self._truth)

    def _of(self, item: int) -> NDArray[Any]:
        return np.asarray(self._points[self._firsts[item] : self._firsts[item + 1]])

    def _sets(self, items: Items) -> list[NDArray[Any]]:
        return [self._of(item) for item in items.tolist()]

    @property
    def _block(self) -> int:
        return max(1, _AT_ONCE // int(self._points.shape[1]))

    @cached_property
    def _range(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Smallest and largest values of the first two coordinates, over some of the points."""
        some = self._points[:: max(1, len(self._points) // self._block), :2].astype(np.float64)
        low, high = some.min(axis=0), some.max(axis=0)
        return (low, high) if len(low) == 2 else (np.append(low, 0), np.append(high, 1))

    @cached_property
    def _digest(self) -> str:
        some = np.unique(np.linspace(0, len(self._points) - 1, 64).astype(np.int64))
        about = repr((self._points.shape, self._points.dtype.str)).encode()
        digest = hashlib.blake2b(about, digest_size=8)
        digest.update(self._firsts.tobytes() + np.ascontiguousarray(self._points[some]).tobytes())
        return digest.hexdigest()


def _arrays(path: Path) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Memory-map the points, and read the sizes."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    folder = unpacked(path, lambda folder: _unpack(path, folder))
    try:
        points = np.load(folder / f"{_POINTS}.npy", mmap_mode="r", allow_pickle=False)
        sizes = np.load(folder / f"{_SIZES}.npy", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path} can't be read as arrays of numbers: {error}") from error
    if points.ndim != 2 or 0 in points.shape or points.dtype.kind not in "fiu":
        raise InputError(
            f"{path} must have real numbers of shape (n_points, n_dimensions) as {_POINTS}, got "
            f"{points.dtype} of shape {points.shape}"
        )
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes.size and sizes.min() < 0):
        raise InputError(
            f"{path} must have the numbers of points of all items as {_SIZES}, whole numbers of shape "
            f"(n_items,), got {sizes.dtype} of shape {sizes.shape}"
        )
    if sizes.sum() != len(points):
        raise InputError(
            f"{path} has {len(points):,} {_POINTS}, but its {_SIZES} add up to {int(sizes.sum()):,}"
        )
    return points, sizes.astype(np.int64)


def _unpack(path: Path, folder: Path) -> None:
    try:
        with ZipFile(path) as archive:
            for name in (_POINTS, _SIZES):
                archive.extract(f"{name}.npy", folder)
    except KeyError as error:
        raise InputError(f"{path} must have two arrays, {_POINTS} and {_SIZES}") from error
    except (BadZipFile, EOFError) as error:
        raise InputError(f"{path} is damaged, or no .npz file: {error}") from error


def _loaded(file: Path) -> PyramidMatch:
    try:
        with np.load(file, allow_pickle=False) as saved:
            return PyramidMatch.restored(saved)
    except FileNotFoundError as error:
        raise InputError(f"the pyramid {file} is missing: build the pool again") from error
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise InputError(f"the pyramid {file} is damaged: build the pool again") from error
