"""Pairs of rows from which codes are learned.

Half of the pairs consist of neighbours, whose codes should agree. The neighbours of a row are the nearest
rows in a sample, or the rows of the same class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError

Floats32 = NDArray[np.float32]
Neighbours = Literal["distance", "class"]

_ANCHORS = 2_000
"""Maximum number of rows whose neighbours are computed. If more pairs are needed, each of these rows occurs
in several pairs.
"""

_BLOCK = 256


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of rows; half of the pairs consist of neighbours.

    Parameters
    ----------
    rows : array of shape (n_pairs, 2), int64
        Indices of the two rows of each pair.
    near : array of shape (n_pairs,), bool
        Whether each pair consists of neighbours.
    """

    rows: NDArray[np.int64]
    near: NDArray[np.bool_]

    @classmethod
    def by_distance(cls, X: Floats32, n_pairs: int, n_near: int, rng: np.random.Generator) -> Pairs:
        """Draw pairs of a row and one of its `n_near` nearest rows, and pairs of a row and a farther row.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            The rows.
        n_pairs : int
            Number of pairs, at least 2; an odd number is rounded down.
        n_near : int
            Number of nearest rows that count as neighbours, capped at half of the other rows.
        rng : Generator
            Draws the pairs.

        Raises
        ------
        InputError
            If there are fewer than three rows.
        """
        n = len(X)
        check_enough(n)
        k, half = min(n_near, (n - 1) // 2), n_pairs // 2
        anchors = rng.permutation(n)[: min(_ANCHORS, half)]
        each = -(-half // len(anchors))
        found = []
        for first in range(0, len(anchors), _BLOCK):
            some = anchors[first : first + _BLOCK]
            own = np.arange(len(some))[:, None]
            nearest = nearest_others(X, some, k)
            taken = np.zeros((len(some), n), dtype=np.bool_)
            taken[own, nearest] = taken[own, some[:, None]] = True
            near = nearest[own, rng.integers(k, size=(len(some), each))]
            far = rng.integers(n, size=(len(some), each))
            while (again := taken[own, far]).any():
                far[again] = rng.integers(n, size=int(again.sum()))
            found.append(np.stack([np.broadcast_to(some[:, None], near.shape), near, far]))
        anchor, near, far = np.concatenate(found, axis=1).transpose(0, 2, 1).reshape(3, -1)[:, :half]
        return cls._of(np.column_stack([anchor, near]), np.column_stack([anchor, far]))

    @classmethod
    def by_class(cls, y: NDArray[np.int64], n_pairs: int, rng: np.random.Generator) -> Pairs:
        """Draw pairs of rows of the same class, and pairs of rows of different classes.

        Parameters
        ----------
        y : array of shape (n_samples,), int64
            Classes, −1 if unknown. Rows of unknown class are in no pair.
        n_pairs : int
            Number of pairs, at least 2; an odd number is rounded down.
        rng : Generator
            Draws the pairs.

        Raises
        ------
        InputError
            If fewer than two classes are known, or no class has two rows.
        """
        known = labelled(y)
        order = known[np.argsort(y[known], kind="stable")]
        _, starts, sizes = np.unique(y[order], return_index=True, return_counts=True)
        start, size = np.repeat(starts, sizes), np.repeat(sizes, sizes)
        anchor = rng.choice(np.flatnonzero(size > 1), n_pairs // 2)
        start, size = start[anchor], size[anchor]
        near = start + (anchor - start + 1 + rng.integers(size - 1)) % size
        far = rng.integers(len(order) - size)
        far += np.where(far >= start, size, 0)
        return cls._of(order[np.column_stack([anchor, near])], order[np.column_stack([anchor, far])])

    @classmethod
    def _of(cls, near: NDArray[np.int64], far: NDArray[np.int64]) -> Pairs:
        return cls(np.concatenate([near, far]), np.arange(2 * len(near)) < len(near))


def check_enough(n: int) -> None:
    """Raise InputError if n rows are too few to form pairs of neighbours and pairs of other rows."""
    if n < 3:
        raise InputError(f"at least 3 rows are needed to have both neighbours and others, got {n}")


def labelled(y: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of the rows with a known class.

    Raises
    ------
    InputError
        If fewer than two classes are known, or no class has two rows.
    """
    known = np.flatnonzero(y >= 0)
    names, sizes = np.unique(y[known], return_counts=True)
    if len(names) < 2 or sizes.max() < 2:
        raise InputError(
            f"neighbours='class' needs at least two classes, and two rows of one of them, got "
            f"{len(known)} labels of {len(names)} {'class' if len(names) == 1 else 'classes'}"
        )
    return known


def nearest_others(X: Floats32, rows: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Return the indices of the k nearest other rows of X for each of the given rows.

    The result has shape (len(rows), k). The nearest rows are in no particular order.
    """
    far = (X * X).sum(axis=1) - 2 * (X[rows] @ X.T)
    far[np.arange(len(rows)), rows] = np.inf
    return np.asarray(np.argpartition(far, k - 1, axis=1)[:, :k])
