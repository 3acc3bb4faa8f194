"""Feature extractors for images, and feature vectors for the items of any source."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from closecall.core.features.edges import EdgeHistogram
from closecall.core.features.gist import Gist
from closecall.core.features.sets import EdgeSets
from closecall.core.linear.hyperplane import unit_rows
from closecall.core.numerics.rows import Rows, is_sparse
from closecall.core.sources.base import Extractor, Items, Problem, Source
from closecall.core.sources.images import grey_of

__all__ = [
    "EXTRACTORS",
    "EdgeHistogram",
    "EdgeSets",
    "Gist",
    "bytes_an_item",
    "compute",
    "has_sparse_rows",
    "n_features",
    "of_image",
]


class Describer(Protocol):
    """Feature extractor for grayscale images. It processes each image independently; threads may share it."""

    @property
    def n_features(self) -> int:
        """Length of the feature vectors."""

    @property
    def n_entries(self) -> int | None:
        """Number of nonzero entries per sparse row; None for dense rows."""

    def transform(self, grey: ArrayLike) -> Rows:
        """Return the features of images of shape (n_images, 32, 32).

        The rows have unit norm and shape (n_images, n_features).
        """


EXTRACTORS: dict[Extractor, Describer] = {"gist": Gist(), "edges": EdgeHistogram(), "sets": EdgeSets()}
"""Feature extractors for grayscale images, by name."""


def n_features(source: Source) -> int:
    """Return the length of the vectors that `compute` returns for this source."""
    return source.n_features or EXTRACTORS[source.extractor].n_features


def has_sparse_rows(source: Source) -> bool:
    """Return whether `compute` returns a `csr_array` for this source, as for texts and edge sets."""
    return source.is_sparse or (source.n_features is None and _entries(source) is not None)


def compute(source: Source, items: Items) -> tuple[Rows, Items, list[Problem]]:
    """Compute the items' feature vectors, each of unit norm.

    The vectors are text features, the user's own embeddings, or the features of the source's extractor. They
    are the same to the last bit for any batch size. Several threads may call this function.

    Parameters
    ----------
    source : Source
        Source of the items.
    items : Items
        Item ids.

    Returns
    -------
    X : array of shape (n_readable, n_features), float32; or csr_array, if `has_sparse_rows`
        Rows of unit norm.
    ids : array of shape (n_readable,), int64
        Item of each row, in the order of `items`.
    problems : list of Problem
        One problem for each item that has no features, for example because it could not be read.
    """
    items = source.check_items(items)
    own = source.features(items)
    if own is not None:
        empty = np.diff(own.indptr) == 0 if is_sparse(own) else ~own.any(axis=1)
        problems = [source.problem(item) for item in items[empty].tolist()]
        return unit_rows(own[~empty] if problems else own), items[~empty], problems
    grey, problems = source.grey(items)
    readable = ~np.isin(items, [problem.item for problem in problems])
    return EXTRACTORS[source.extractor].transform(grey[readable]), items[readable], problems


def bytes_an_item(source: Source, dtype: str) -> float:
    """Return the mean size in bytes of an item's stored vector. `dtype` is the type of dense vectors."""
    if has_sparse_rows(source):
        entries = source.mean_entries if source.is_sparse else _entries(source) or 0
        return entries * (np.dtype(np.int32).itemsize + np.dtype(np.float32).itemsize) + 8
    return n_features(source) * np.dtype(dtype).itemsize


def of_image(image: Image.Image, source: Source | None = None) -> NDArray[np.float32]:
    """Compute the dense features, of shape (n_features,), of an image that need not belong to a source.

    If the source's `describes_images` is true, the features are of the same kind as the features of its
    items. Without a source, they are GIST features.

    Raises
    ------
    UnreadableImageError
        If the source has features of its own, such as a model's, but the image has no such features.
    """
    own = None if source is None else source.features_of_image(image)
    if own is not None:
        only: NDArray[np.float32] = unit_rows(own[None])[0]
        return only
    row = EXTRACTORS["gist" if source is None else source.extractor].transform(grey_of(image)[None])
    features: NDArray[np.float32] = (row.toarray() if is_sparse(row) else row)[0]
    return features


def _entries(source: Source) -> int | None:
    return EXTRACTORS[source.extractor].n_entries
