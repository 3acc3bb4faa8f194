"""Online metric learning: one projection for each constraint as it arrives, and updates of hash functions.

Among the metrics that satisfy the new constraint, up to slack, the next metric is closest to the current one:

    A_{t+1} = argmin D(A, A_t) + γ D(ξ, b)   with d_A ≤ ξ, or d_A ≥ ξ for dissimilar pairs

This is the projection (3) of `core.metric.itml` onto a new pair or triple, with λ = 0. A single pass of ITML
over the same constraints in the same order learns the same metric. Earlier constraints are not projected onto
again, and nothing about them is stored. A constraint that already holds changes nothing.

**Hash functions.** Let A = GᵀG be the matrix of the metric, sign(rᵀGx) the bit of a hash function with the
Gaussian vector r, and v the difference of the two rows. With α from (9) of `core.metric.itml` and w = αAv,
(9) is

    G ← (I + αGv(Gv)ᵀ)G = G(I + vwᵀ),   so that   rᵀG ← rᵀG + (rᵀGv)wᵀ

The hash function stores rᵀG, so its update needs neither G nor r. The update costs O(d) per function instead
of O(d²), and does not change the weights of features in which w is 0. A sparse row that shares no feature
with w therefore keeps its values rᵀGx. `core.hashing.MetricLSH.updated` does this. A triple updates G twice.

**Costs.** The explicit form takes O(d²) per constraint. The implicit form, for sparse rows, takes O(c²),
where c is the number of different data rows so far: each new one enlarges the (c, c) matrices S and K₀ of
`core.metric.itml` by a row and a column.

[1]_ uses the squared error of a given distance as the loss; this module uses the slack of ITML. [1]_ also
updates stored codes; here, rows are hashed again.

References
----------
.. [1] P. Jain, B. Kulis, I. Dhillon, K. Grauman, "Online metric learning and fast similarity search", NIPS
   2008; named in section 3.4 of K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image
   search", 2013.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import vstack

from closecall.core.errors import InputError
from closecall.core.metric.constraints import AnyConstraints
from closecall.core.metric.metrics import ExplicitMetric, ImplicitMetric, Metric, gram
from closecall.core.metric.passes import change_factor, change_weights
from closecall.core.numerics.rows import Rows, as_bytes, as_sparse, is_sparse

Floats64 = NDArray[np.float64]


class Change(NamedTuple):
    """A change of the metric's factor from G to G(I + vwᵀ).

    Parameters
    ----------
    v, w : array of shape (n_features,), float64
    """

    v: Floats64
    w: Floats64


class OnlineITML:
    """Online learning of a `Metric` from pairs or triples.

    Parameters
    ----------
    gamma : float
        γ > 0, the cost of slack: larger values satisfy each new constraint more exactly, and change the
        metric more. `np.inf` allows no slack.
    start : Metric or None
        The metric to start from, which is not changed. None means the identity, in explicit form for dense
        rows and in implicit form for sparse rows.
    """

    def __init__(self, *, gamma: float = 1.0, start: Metric | None = None) -> None:
        self.gamma = gamma
        self.start = start
        self._form: _Explicit | _Implicit | None = None

    @property
    def metric_(self) -> Metric:
        """The current metric; later updates do not change the returned object.

        Raises
        ------
        AttributeError
            Before the first update, if there is no metric to start from.
        """
        if self._form is not None:
            return self._form.metric()
        if self.start is None:
            raise AttributeError("there is no metric yet: call update first")
        return self.start

    def update(self, X: Rows, constraints: AnyConstraints) -> list[Change]:
        """Project the metric onto each constraint once, in order.

        Parameters
        ----------
        X : array or csr_array of shape (n_samples, n_features)
            The rows that `constraints` refers to. Each call may have other rows.
        constraints : Constraints or RelativeConstraints
            New pairs or triples, often a single pair or triple. New pairs should have the same bounds as
            earlier pairs.

        Returns
        -------
        list of Change
            The changes of the metric, in order, for updates of hash functions. Empty if all constraints
            already hold.

        Raises
        ------
        InputError
            If `gamma` is out of range, if the rows do not fit the metric, or if a constraint cannot be
            satisfied without slack. In the last case, all earlier constraints have been learned.
        """
        if not self.gamma > 0:
            raise InputError(f"gamma must be positive, got {self.gamma:g}")
        self._form = form = self._form or _form_of(self.start, X)
        form.check(X)
        changes = []
        for items, term, target in zip(
            constraints.items, constraints.terms, constraints.targets, strict=True
        ):
            V = form.differences(X, items)
            steps = constraints.passes.steps(form.inner(V), term, target, self.gamma)
            if not np.isfinite(steps).all():
                raise InputError(
                    f"no metric satisfies the constraint on rows {tuple(items.tolist())}; "
                    f"allow slack by a finite gamma, got gamma={self.gamma:g}"
                )
            # Ascending, because the step that shrinks A must come first, so that A stays positive definite.
            changes += [form.change(V[n], steps[n]) for n in np.argsort(steps) if steps[n] != 0]
        return changes


class _Explicit:
    """The explicit form of the metric, which stores G. A difference v of rows is represented by v itself."""

    def __init__(self, G: Floats64) -> None:
        self.G = np.array(G, dtype=np.float64, order="C")

    def metric(self) -> Metric:
        return ExplicitMetric(self.G.copy())

    def check(self, X: Rows) -> None:
        if is_sparse(X):
            raise InputError(
                "an explicit metric needs dense rows, got sparse ones: start from an implicit one"
            )
        _check_features(X, self.G.shape[1])

    def differences(self, X: Rows, items: NDArray[np.int64]) -> Floats64:
        rows = np.asarray(X)[items].astype(np.float64)
        return np.asarray(rows[0] - rows[1:])

    def inner(self, V: Floats64) -> Floats64:
        mapped = V @ self.G.T
        return np.asarray(mapped @ mapped.T)

    def change(self, v: Floats64, s: float) -> Change:
        y = self.G @ v
        return Change(v, change_factor(self.G, y, float(y @ y), s))


class _Implicit:
    """The implicit form of the metric: S, K₀ and the rows Φᵀ so far; see `core.metric.itml`.

    A difference v = Φu of rows is represented by u.
    """

    def __init__(self, points: Rows, S: Floats64) -> None:
        self.points = points.astype(np.float64)
        self.S = np.array(S, dtype=np.float64, order="C")
        self.K0 = gram(points, points)
        self.places = {self._key(self.points[[n]]): n for n in range(points.shape[0])}

    def metric(self) -> Metric:
        return ImplicitMetric(self.points, self.S.copy())

    def check(self, X: Rows) -> None:
        if is_sparse(X) != is_sparse(self.points):
            raise InputError("rows must all be dense or all be sparse, as those of the metric")
        _check_features(X, self.points.shape[1])

    def differences(self, X: Rows, items: NDArray[np.int64]) -> Floats64:
        first, *others = [self._place(X[[item]]) for item in items]
        U = np.zeros((len(others), len(self.S)))
        U[:, first] = 1
        U[np.arange(len(others)), others] -= 1
        return U

    def inner(self, V: Floats64) -> Floats64:
        mapped = V + V @ self.K0 @ self.S.T
        return np.asarray(mapped @ self.K0 @ mapped.T)

    def change(self, v: Floats64, s: float) -> Change:
        a = v + self.S @ (self.K0 @ v)
        h = self.K0 @ a
        b = change_weights(self.S, a, h, float(a @ h), s)
        return Change(np.asarray(v @ self.points), np.asarray(b @ self.points))

    def _place(self, row: Rows) -> int:
        """Return the index of a row in `points`; add the row if it is new."""
        key = self._key(row)
        if key not in self.places:
            self.places[key] = len(self.places)
            row = (as_sparse(row) if is_sparse(row) else np.asarray(row)).astype(np.float64)
            added = gram(row, self.points)
            self.K0 = np.block([[self.K0, added.T], [added, gram(row, row)]])
            self.S = np.pad(self.S, (0, 1))
            parts = [self.points, row]
            self.points = vstack(parts, format="csr") if is_sparse(row) else np.concatenate(parts)
        return self.places[key]

    @staticmethod
    def _key(row: Rows) -> bytes:
        return as_bytes(as_sparse(row)) if is_sparse(row) else np.asarray(row, dtype=np.float64).tobytes()


def _form_of(start: Metric | None, X: Rows) -> _Explicit | _Implicit:
    if isinstance(start, ExplicitMetric):
        return _Explicit(start.G)
    if isinstance(start, ImplicitMetric):
        return _Implicit(start.points, start.S)
    return _Implicit(as_sparse(X[:0]), np.zeros((0, 0))) if is_sparse(X) else _Explicit(np.eye(X.shape[1]))


def _check_features(X: Rows, n_features: int) -> None:
    if X.shape[1] != n_features:
        raise InputError(f"the metric has {n_features} features, got rows of {X.shape[1]}")
