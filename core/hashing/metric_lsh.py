"""Random hyperplanes under a learned metric, which is built into the hash functions.

Let A = GᵀG be the matrix of the metric, and r a Gaussian vector. The bit sign(rᵀGx) is the bit of
`core.hashing.lsh` for the transformed point Gx [1]_, so

    Pr[h(x) = h(y)] = 1 − θ_A(x, y)/π,   cos θ_A = xᵀAy / (‖Gx‖‖Gy‖)                                   (6, 7)

and codes are compared and searched as usual. (Eq. 7 as printed has the denominator √(‖Gx‖‖Gy‖).) For an
explicit metric, rᵀG is computed directly. If rows have very many features, G would be a large dense matrix.
An implicit metric therefore never computes G. Let x_i be the c rows from which the metric was learned. With
coefficients γ_i that depend on r,

    rᵀGx = rᵀx + Σ γ_i x_iᵀx = (r + Σ γ_i x_i)ᵀx                                                  (8)

The vector in parentheses is computed once for each r. The time to hash a sparse row is then proportional to
its number of non-zeros. For sparse rows, r is rounded to multiples of a unit, which are stored in bytes
(`core.hashing.projection`). The signs of the products do not depend on the unit.

**Updates.** If the metric changes from G to G(I + vwᵀ), rᵀG changes by (rᵀGv)wᵀ. The functions can therefore
be updated without r (`core.metric.online`).

**Centring** works as in `core.hashing.lsh`, because distances under A do not depend on the origin.

References
----------
.. [1] B. Kulis, P. Jain, K. Grauman, "Fast similarity search for learned metrics", PAMI 2009.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.hashing.base import Arrays
from closecall.core.hashing.collision import Probabilities
from closecall.core.hashing.lsh import angles_of, projected, same_side
from closecall.core.hashing.projection import combined, drawn
from closecall.core.hashing.similarity import Floats32, Floats64, SimilarityHasher
from closecall.core.metric import Change, Metric, metric_from_arrays
from closecall.core.numerics.rows import Rows, is_sparse


class MetricLSH(SimilarityHasher):
    """Hash family with the bits sign(rᵀG(x − μ)), where r is Gaussian and GᵀG is the matrix of a metric.

    A bit agrees with probability 1 − θ/π for points at the angle θ under the metric.

    Parameters
    ----------
    metric : Metric or None
        The learned metric. None is only valid for restoring a saved family, whose arrays contain the metric.
    centred : bool
        Whether angles are measured from the mean μ of the rows passed to `fit`. Otherwise μ is zero.

    Other parameters are those of `SimilarityHasher`.
    """

    name = "metric-lsh"
    estimates = "angle"
    radius_of = "angle"

    centre_: Floats64
    vectors_: Floats32
    offsets_: Floats32
    _fitted = ("centre_", "vectors_", "offsets_")

    def __init__(
        self,
        *,
        metric: Metric | None = None,
        centred: bool = True,
        n_functions: int = 256,
        random_state: int = 0,
    ) -> None:
        super().__init__(n_functions=n_functions, random_state=random_state)
        self.metric = metric
        self.centred = centred

    def between(self, Q: Rows, X: Rows) -> Floats64:
        """Return the angles under the metric in radians, of shape (n_queries, n_points).

        They are measured from the mean of the fitted rows if `centred` is true, otherwise from the origin.
        """
        Q, X, metric, centre = self._rows(Q), self._rows(X), self._metric(), self.centre_[None]
        to_q, to_x = metric.inner(Q, centre)[:, 0], metric.inner(X, centre)[:, 0]
        own = metric.squared_norms(centre)[0]
        inner = metric.inner(Q, X) - to_q[:, None] - to_x[None, :] + own
        q_squares = metric.squared_norms(Q) - 2 * to_q + own
        return angles_of(inner, q_squares, metric.squared_norms(X) - 2 * to_x + own)

    def collision_probability(self, values: ArrayLike) -> Probabilities:
        """Return 1 − θ/π for each angle θ under the metric."""
        return same_side(values)

    def agreement_within(self, radius: float) -> float:
        """See `SimilarityHasher.agreement_within`."""
        return float(same_side(radius))

    def updated(self, metric: Metric, changes: Iterable[Change]) -> Self:
        """Return the same functions under an updated metric, with the same random vectors and centre.

        The bits are those of a family fitted to the same rows with `metric`, except where a value is zero up
        to rounding. Each change adds a rounding error of float32, so fit a new family after thousands of
        changes.

        Parameters
        ----------
        metric : Metric
            The metric after the changes.
        changes : iterable of Change
            All changes that lead from the metric of this family to `metric`, in order, as returned by
            `OnlineITML.update`.
        """
        own = copy(self)
        own.metric, own.vectors_ = metric, self.vectors_.copy()
        for v, w in changes:
            seen, changed = np.flatnonzero(v), np.flatnonzero(w)
            own.vectors_[changed] += np.outer(w[changed], v[seen] @ own.vectors_[seen])
        own.offsets_ = combined(own.centre_, own.vectors_).astype(np.float32)
        return own

    def params(self) -> dict[str, Any]:
        """See `SimilarityHasher.params`; `metric` is left out, because `arrays` contains it."""
        return {name: value for name, value in super().params().items() if name != "metric"}

    def arrays(self) -> Arrays:
        """See `SimilarityHasher.arrays`."""
        metric = {f"metric-{name}": array for name, array in self._metric().arrays().items()}
        return super().arrays() | metric

    def restored(self, arrays: Arrays) -> Self:
        """See `SimilarityHasher.restored`."""
        named = {name.removeprefix("metric-"): a for name, a in arrays.items() if name.startswith("metric-")}
        self.metric = metric_from_arrays(named)
        return super().restored(arrays)

    def _fit(self, X: Rows, y: NDArray[np.int64] | None, rng: np.random.Generator) -> None:  # noqa: ARG002
        n_features, metric = X.shape[1], self._metric()
        if metric.n_features != n_features:
            raise InputError(f"the metric has {metric.n_features} features, but the rows have {n_features}")
        mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
        self.centre_ = mean if self.centred else np.zeros(n_features)
        R = drawn(rng, (n_features, self.n_functions), as_bytes=is_sparse(X))
        self.vectors_ = metric.carried(R)
        self.offsets_ = combined(self.centre_, self.vectors_).astype(np.float32)

    def _values(self, X: Rows) -> Floats32:
        return projected(X, self.vectors_) - self.offsets_

    def _metric(self) -> Metric:
        if self.metric is None:
            raise InputError(f"{self.name} needs a metric, got None")
        return self.metric
