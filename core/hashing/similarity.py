"""Similarity families: points to bits that agree the more often the more alike the points are.

**The contract.** A family is a class with a `name`, one `estimates`, and an `__init__` of keyword parameters
that it only assigns. It is fitted once, `fit(X, y)`, to some rows of the pool (and their classes, where it
`needs_labels`); what that finds and draws ends in an underscore, is named in `_fitted`, and never changes.
From then on

    hash_points(X)    gives the `Codes` of rows, each a function of that row alone, up to rounding;
    hash_queries(X)   those of rows that are looked for: the same, unless the family treats the two unlike;
    queries(X)        what search structures (`core.search`) are asked with, one `QueryCode` a row: the code,
                      and how much each bit says;
    between(Q, X)     the very quantity whose neighbours it looks for, from the rows themselves: exact;
    collision_probability(values)  how often one function agrees at such values, where theory knows;
    arrays() / restored(arrays)    save and load it, with `params()`.

`estimates` says what `between` gives: the "angle" in radians or a "distance", where less is nearer, or a
"kernel" or the "overlap" of sets, where more is. A family of Euclidean distances, or of what follows from
them, says `by_angle`: a pool's rows are of unit length, so that a scan by angles finds what it looks for.

**To write one**: `_fit` finds what it needs, and `_values(X)` gives a real number a function, whose sign is
the bit (0 counts as positive) and whose size tells how sure the bit is. A family whose values are no signs
(`bits` > 1) overrides `hash_points` and `queries` instead. `_check` refuses parameters that are out of range;
whole numbers are only listed in `_least`. Every family joins the suite in
tests/contract/test_families.py by one line, and `FAMILIES` in `core.hashing` by another.

Rows are dense float32 or sparse (`core.numerics.rows`). Anything else, as sets of local features, is embedded
first.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.hashing.base import Arrays, Codes, QueryCode, padded, row_blocks
from closecall.core.hashing.collision import Probabilities
from closecall.core.numerics.rows import Rows, as_sparse, is_sparse

Floats32 = NDArray[np.float32]
Floats64 = NDArray[np.float64]
Estimate = Literal["angle", "distance", "kernel", "overlap"]


class SimilarityHasher(ABC):
    """A family of `n_functions` hash functions for points, see above.

    Parameters
    ----------
    n_functions : int
        How many bits a code has.
    random_state : int
    """

    name: ClassVar[str]
    estimates: ClassVar[Estimate]
    needs_labels: ClassVar[bool] = False
    by_angle: ClassVar[bool] = False
    """Whether the order of unit rows by what it estimates is that of their angles, whatever it is called."""
    takes: ClassVar[Literal["all", "dense", "sparse"]] = "all"
    """Which rows it is for; it refuses others."""
    bits: int = 1

    _fitted: ClassVar[tuple[str, ...]]
    """The attributes, all of them arrays, that `fit` sets, beside `n_features_`."""
    _least: ClassVar[dict[str, int]] = {"n_functions": 1, "random_state": 0}
    """How much parameters must be at least; a family adds its own."""

    n_features_: int

    def __init__(self, *, n_functions: int = 256, random_state: int = 0) -> None:
        self.n_functions = n_functions
        self.random_state = random_state

    def fit(self, X: Rows, y: ArrayLike | None = None) -> Self:
        """Learn and draw the functions.

        Parameters
        ----------
        X : array or csr_array of shape (n_samples, n_features)
            Some rows, of the whole pool's spread.
        y : array of shape (n_samples,), int, optional
            Classes, −1 where unknown; only some families look at them.

        Raises
        ------
        InputError
            If a parameter is out of range, X has no rows or is not finite, or labels are missing.
        """
        self._check()
        X = checked_rows(X)
        if X.shape[0] < 1:
            raise InputError(f"{self.name} needs at least one row to be fitted to, got none")
        labels = None if y is None else np.asarray(y, dtype=np.int64)
        if labels is None and self.needs_labels:
            raise InputError(f"{self.name} learns from labels: y must be given, got None")
        if labels is not None and labels.shape != (X.shape[0],):
            raise InputError(
                f"y must have one class for each of the {X.shape[0]} rows, got shape {labels.shape}"
            )
        self.n_features_ = X.shape[1]
        self._fit(X, labels, np.random.default_rng(self.random_state))
        return self

    def hash_points(self, X: Rows) -> Codes:
        """The codes of the rows of X, of shape (n_samples, n_features)."""
        X = self._rows(X)
        parts = [np.zeros((0, self.n_functions), dtype=np.bool_)]
        for block in row_blocks(X):
            whole = block if is_sparse(block) else padded(block)
            parts.append(self._values(whole)[: block.shape[0]] >= 0)
        return Codes.from_bits(np.concatenate(parts))

    def hash_queries(self, X: Rows) -> Codes:
        """The codes of rows that are looked for."""
        return self.hash_points(X)

    def queries(self, X: Rows) -> list[QueryCode]:
        """What search structures are asked with, for each row of X.

        A bit weighs what the query's own value is from zero: where that is little, a near point may well have
        the other bit (asymmetric distances, as Dong, Charikar and Li 2008 found them to be better).
        """
        values = np.asarray(self._values(checked_rows(self._rows(X))), dtype=np.float32)
        return [self._query(own) for own in values]

    @abstractmethod
    def between(self, Q: Rows, X: Rows) -> Floats64:
        """What the family estimates between each row of Q and each of X, of shape (n_queries, n_points)."""

    def collision_probability(self, values: ArrayLike) -> Probabilities | None:  # noqa: ARG002
        """That one function agrees for points with these `values` between them; None if theory has none."""
        return None

    def params(self) -> dict[str, Any]:
        """The parameters given to `__init__`, by name: plain values."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def arrays(self) -> Arrays:
        """What `fit` found and drew, by name."""
        own = {name: np.asarray(getattr(self, name)) for name in self._fitted}
        return {**own, "n_features": np.array(self.n_features_)}

    def restored(self, arrays: Arrays) -> Self:
        """Take over what `arrays` gave, instead of `fit`."""
        self._check()
        self.n_features_ = int(arrays["n_features"])
        for name in self._fitted:
            setattr(self, name, arrays[name])
        return self

    @abstractmethod
    def _fit(self, X: Rows, y: NDArray[np.int64] | None, rng: np.random.Generator) -> None:
        """Set the attributes named in `_fitted`."""

    def _values(self, X: Rows) -> Floats32:  # noqa: ARG002
        """A number for each row and function, of shape (n_samples, n_functions); its sign is the bit.

        Only a family that overrides `hash_points` and `queries` is without.
        """
        raise TypeError(f"{self.name} has no values whose signs are bits")

    def _check(self) -> None:
        for name, least in self._least.items():
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}, got {getattr(self, name)}")

    def _rows(self, X: Rows) -> Rows:
        """X as it is hashed, if it has the right number of features."""
        X = as_sparse(X) if is_sparse(X) else np.asarray(X, dtype=np.float32)
        if X.ndim != 2 or X.shape[1] != self.n_features_:
            raise InputError(
                f"{self.name} was fitted to rows of {self.n_features_} features, got shape {X.shape}"
            )
        return X

    def _query(self, values: Floats32) -> QueryCode:
        code = Codes.from_bits(values[None] >= 0)
        return QueryCode(self.n_functions, 1, -values, 0.0, False, lambda: code)


def checked_rows(X: Rows) -> Rows:
    """X as float32 rows, dense or sparse, if all numbers are finite."""
    X = as_sparse(X) if is_sparse(X) else np.asarray(X, dtype=np.float32)
    if X.ndim != 2:
        raise InputError(f"rows must be of shape (n_samples, n_features), got shape {X.shape}")
    if not np.isfinite(X.data if is_sparse(X) else X).all():
        raise InputError("rows must be finite numbers, got some that are not")
    return X
