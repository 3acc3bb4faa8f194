"""Similarity families of hash functions: the more similar two points are, the more bits of their codes agree.

**The contract.** A family is a class with a `name`, a value of `estimates`, and an `__init__` that only
assigns its keyword parameters. It is fitted once, with `fit(X, y)`, to some rows of the pool (and their
classes, if it `needs_labels`). Attributes that `fit` learns or draws end in an underscore, are listed in
`_fitted`, and never change. A fitted family has the methods

    hash_points(X)    returns the `Codes` of rows; up to rounding, the code of a row does not depend on other
                      rows;
    hash_queries(X)   returns the codes of query rows, by default the result of `hash_points`;
    queries(X)        returns one `QueryCode` per row for search structures (`core.search`), with the code and
                      the weight of each bit;
    between(Q, X)     returns the quantity that defines the neighbours, computed exactly from the rows;
    collision_probability(values)  returns the probability that one function agrees for points with these
                      values of `between`, or None if the probability is unknown;
    arrays() / restored(arrays)    save and load the family, together with `params()`.

`estimates` names the quantity that `between` returns. It is "angle" (in radians) or "distance", where smaller
is nearer, or "kernel" or "overlap" (of sets), where larger is nearer. A family sets `by_angle` if its
quantity is the Euclidean distance or a monotonic function of the distance. For such a family, a scan by
angles finds the same neighbours, because the rows of a pool have unit norm.

**To write a family**, implement `_fit`, which learns what the family needs, and `_values(X)`, which returns a
real number per function. The sign of the number is the bit (0 counts as positive), and its magnitude is the
certainty of the bit. A family whose values have no meaningful signs (`bits` > 1) overrides `hash_points` and
`queries` instead. `_check` rejects parameters that are out of range. For the lower bound of an integer
parameter, an entry in `_least` is enough. Add the family to the test suite in tests/contract/test_families.py
and to `FAMILIES` in `core.hashing`.

Rows are dense float32 or sparse (`core.numerics.rows`). Other data, such as sets of local features, must be
embedded first.
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
    """Base class of similarity families; the module describes the contract.

    Parameters
    ----------
    n_functions : int
        Number of functions in a code. Each function gives one bit, unless the family sets `bits`.
    random_state : int
        Seed of all random draws.

    Methods that take rows raise InputError if the number of features differs from that of the fitted rows, or
    if the family does not accept this kind of rows (see `takes`).
    """

    name: ClassVar[str]
    estimates: ClassVar[Estimate]
    needs_labels: ClassVar[bool] = False
    by_angle: ClassVar[bool] = False
    """Whether the order of unit rows by the estimated quantity is the order by angle."""
    radius_of: ClassVar[Literal["angle", "overlap"] | None] = None
    """Quantity in which the radius of `agreement_within` is given; None if no agreement is guaranteed."""
    takes: ClassVar[Literal["all", "dense", "sparse"]] = "all"
    """Kind of rows that the family accepts."""
    bits: int = 1

    _fitted: ClassVar[tuple[str, ...]]
    """Names of the array attributes that `fit` sets, apart from `n_features_`."""
    _least: ClassVar[dict[str, int]] = {"n_functions": 1, "random_state": 0}
    """Minimum values of integer parameters; a subclass adds entries for its parameters."""

    n_features_: int

    def __init__(self, *, n_functions: int = 256, random_state: int = 0) -> None:
        self.n_functions = n_functions
        self.random_state = random_state

    def fit(self, X: Rows, y: ArrayLike | None = None) -> Self:
        """Learn and draw the functions.

        Parameters
        ----------
        X : array or csr_array of shape (n_samples, n_features)
            Rows that are representative of the whole pool.
        y : array of shape (n_samples,), int, optional
            Classes, −1 if unknown. Only some families use classes.

        Raises
        ------
        InputError
            If a parameter is out of range, if X has no rows or is not finite, if labels are missing, or if
            the family cannot learn from these rows or labels.
        """
        self._check()
        X = checked_rows(X)
        if X.shape[0] < 1:
            raise InputError(f"{self.name} needs at least one row to fit, got none")
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
        """Return the codes of the rows of X, of shape (n_samples, n_features)."""
        X = self._rows(X)
        parts = [np.zeros((0, self.n_functions), dtype=np.bool_)]
        for block in row_blocks(X):
            whole = block if is_sparse(block) else padded(block)
            parts.append(self._values(whole)[: block.shape[0]] >= 0)
        return Codes.from_bits(np.concatenate(parts))

    def hash_queries(self, X: Rows) -> Codes:
        """Return the codes of query rows."""
        return self.hash_points(X)

    def queries(self, X: Rows) -> list[QueryCode]:
        """Return one query per row of X for search structures.

        Each function computes a number from the row. The sign of the number is the bit, and its absolute
        value is the weight of the bit. A small weight means that a near point may well have the opposite bit.
        Comparing such weights with the bits of points gives an asymmetric distance, which Dong, Charikar and
        Li (2008) found to be better than the Hamming distance.

        Raises
        ------
        InputError
            If X has NaN or infinite values, or in the cases described in the class.
        """
        values = np.asarray(self._values(checked_rows(self._rows(X))), dtype=np.float32)
        return [self._query(own) for own in values]

    @abstractmethod
    def between(self, Q: Rows, X: Rows) -> Floats64:
        """Return the quantity that the family estimates, of shape (n_queries, n_points)."""

    def collision_probability(self, values: ArrayLike) -> Probabilities | None:  # noqa: ARG002
        """Return the probability that one function agrees, given `values` of `between`; None if unknown."""
        return None

    def agreement_within(self, radius: float) -> float:
        """Return the minimum probability that one function agrees for two points at most `radius` apart.

        Parameters
        ----------
        radius : float
            The family's `radius_of` says what the radius is. "angle": the angle between unit rows in radians,
            measured from the centre if the family has a centre. "overlap": 1 minus the overlap of two sets.

        Raises
        ------
        InputError
            If the probability is unknown, or only known after fitting.
        """
        raise InputError(f"{self.name} guarantees no agreement within the radius {radius:g}")

    def params(self) -> dict[str, Any]:
        """Return the parameters given to `__init__` by name, as plain values."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def arrays(self) -> Arrays:
        """Return the arrays that `fit` learned and drew, by name."""
        own = {name: np.asarray(getattr(self, name)) for name in self._fitted}
        return {**own, "n_features": np.array(self.n_features_)}

    def restored(self, arrays: Arrays) -> Self:
        """Set the fitted attributes from the result of `arrays`, instead of calling `fit`."""
        self._check()
        self.n_features_ = int(arrays["n_features"])
        for name in self._fitted:
            setattr(self, name, arrays[name])
        return self

    @abstractmethod
    def _fit(self, X: Rows, y: NDArray[np.int64] | None, rng: np.random.Generator) -> None:
        """Set the attributes named in `_fitted`."""

    def _values(self, X: Rows) -> Floats32:  # noqa: ARG002
        """Return numbers of shape (n_samples, n_functions), whose signs are the bits.

        Families that override `hash_points` and `queries` need not implement this method.
        """
        raise TypeError(f"{self.name} has no values whose signs are bits")

    def _check(self) -> None:
        for name, least in self._least.items():
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}, got {getattr(self, name)}")

    def _rows(self, X: Rows) -> Rows:
        """Return X as float32 rows, dense or sparse, after checking the number of features."""
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
    """Return X as float32 rows, dense or sparse, after checking that all numbers are finite.

    Raises
    ------
    InputError
        If X is not two-dimensional, or a number is NaN or infinite.
    """
    X = as_sparse(X) if is_sparse(X) else np.asarray(X, dtype=np.float32)
    if X.ndim != 2:
        raise InputError(f"rows must be of shape (n_samples, n_features), got shape {X.shape}")
    if not np.isfinite(X.data if is_sparse(X) else X).all():
        raise InputError("rows must be finite, got NaN or infinite values")
    return X
