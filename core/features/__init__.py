from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from core.features.edges import EdgeHistogram
from core.features.gist import Gist
from core.geometry import unit_rows
from core.rows import Rows
from core.sources.base import Extractor, Items, Problem, Source
from core.sources.images import grey_of

__all__ = ["EXTRACTORS", "EdgeHistogram", "Gist", "bytes_an_item", "compute", "n_features", "of_image"]

EXTRACTORS: dict[Extractor, Gist | EdgeHistogram] = {"gist": Gist(), "edges": EdgeHistogram()}
"""What makes features of grey images, by name."""


def n_features(source: Source) -> int:
    """Length of the vectors that `compute` gives for this source."""
    return source.n_features or EXTRACTORS[source.extractor].n_features


def compute(source: Source, items: Items) -> tuple[Rows, Items, list[Problem]]:
    """The items' vectors: words of texts, the user's own embeddings, or what the source's extractor makes.

    Safe to call from several threads, and the same bits whatever the batch.

    Returns
    -------
    X : array of shape (n_readable, n_features), float32, or for texts csr_array
        Rows of unit norm.
    ids : array of shape (n_readable,), int64
        The item of each row, in the order given.
    problems : list of Problem
        Why the other items could not be read.
    """
    items = source.check_items(items)
    own = source.features(items)
    if own is not None and source.is_sparse:
        empty = np.diff(own.indptr) == 0
        problems = [source.problem(item) for item in items[empty].tolist()]
        return unit_rows(own[~empty]), items[~empty], problems
    if own is not None:
        return unit_rows(own), items, []
    grey, problems = source.grey(items)
    readable = ~np.isin(items, [problem.item for problem in problems])
    return EXTRACTORS[source.extractor].transform(grey[readable]), items[readable], problems


def bytes_an_item(source: Source, dtype: str) -> float:
    """How many bytes the vector of an item takes, on average."""
    if source.is_sparse:
        return source.mean_entries * (np.dtype(np.int32).itemsize + np.dtype(np.float32).itemsize) + 8
    return n_features(source) * np.dtype(dtype).itemsize


def of_image(image: Image.Image, extractor: Extractor = "gist") -> NDArray[np.float32]:
    """The features of one image from anywhere, of shape (n_features,).

    They are comparable with those of a pool of images whose source names the same extractor.
    """
    features: NDArray[np.float32] = EXTRACTORS[extractor].transform(grey_of(image)[None])[0]
    return features
