from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from core.features.gist import Gist
from core.geometry import unit_rows
from core.sources.base import Items, Problem, Source
from core.sources.images import grey_of

__all__ = ["Gist", "compute", "n_features", "of_image"]


def n_features(source: Source) -> int:
    """Length of the vectors that `compute` gives for this source."""
    return source.n_features or Gist.n_features


def compute(source: Source, items: Items) -> tuple[NDArray[np.float32], Items, list[Problem]]:
    """The items' vectors: the user's own embeddings where the source has them, else GIST.

    Safe to call from several threads, and the same bits whatever the batch.

    Returns
    -------
    X : array of shape (n_readable, n_features), float32
        Rows of unit norm.
    ids : array of shape (n_readable,), int64
        The item of each row, in the order given.
    problems : list of Problem
        Why the other items could not be read.
    """
    items = source.check_items(items)
    own = source.features(items)
    if own is not None:
        return unit_rows(own), items, []
    grey, problems = source.grey(items)
    readable = ~np.isin(items, [problem.item for problem in problems])
    return Gist().transform(grey[readable]), items[readable], problems


def of_image(image: Image.Image) -> NDArray[np.float32]:
    """The GIST of one image from anywhere, of shape (384,), comparable with those of a pool of images."""
    features: NDArray[np.float32] = Gist().transform(grey_of(image)[None])[0]
    return features
