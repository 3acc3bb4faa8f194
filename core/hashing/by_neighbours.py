"""Base class of families that learn from neighbours, which are defined by distance or by class."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.hashing.pairs import Neighbours
from closecall.core.hashing.similarity import Floats32, Floats64, SimilarityHasher
from closecall.core.linear.hyperplane import euclidean
from closecall.core.numerics.rows import Rows, is_sparse


class ByNeighbours(SimilarityHasher):
    """Base class of families that learn from dense rows and their neighbours.

    Subclasses implement `_learn` instead of `_fit`.

    Parameters
    ----------
    neighbours : "distance" or "class"
        Whether neighbours are the nearest rows, or the rows of the same class.
    n_near : int
        Number of nearest rows that count as neighbours.
    """

    estimates = "distance"
    by_angle = True
    takes = "dense"
    _least: ClassVar[dict[str, int]] = {**SimilarityHasher._least, "n_near": 1}

    neighbours: Neighbours
    n_near: int

    def between(self, Q: Rows, X: Rows) -> Floats64:
        """Return Euclidean distances, of shape (n_queries, n_points)."""
        return euclidean(self._rows(Q), self._rows(X))

    @abstractmethod
    def _learn(self, X: Floats32, y: NDArray[np.int64] | None, rng: np.random.Generator) -> None:
        """Set the attributes named in `_fitted`; `y` is given only if neighbours are defined by class."""

    def _fit(self, X: Rows, y: NDArray[np.int64] | None, rng: np.random.Generator) -> None:
        if self.neighbours == "distance":
            y = None
        elif y is None:
            raise InputError(
                f"{self.name} with neighbours='class' learns from classes: y must be given, got None"
            )
        self._learn(self._dense(X), y, rng)

    def _rows(self, X: Rows) -> Rows:
        return super()._rows(self._dense(X))

    def _dense(self, X: Rows) -> Rows:
        if is_sparse(X):
            raise InputError(f"{self.name} needs dense rows, got sparse ones")
        return X

    def _check(self) -> None:
        super()._check()
        if self.neighbours not in get_args(Neighbours):
            allowed = ", ".join(get_args(Neighbours))
            raise InputError(f"neighbours must be one of {allowed}, got {self.neighbours!r}")
