"""Functions of the field that only tests measure with: a whole round, ranks, bounds and divergences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from closecall.core.evaluation.rank import BruteForce
from closecall.core.hashing.rbm import RBM
from closecall.core.learning.round import Labels, Trained, learn, select_next
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.metric import ExplicitMetric, ImplicitMetric
from closecall.core.numerics.rows import is_sparse
from closecall.core.pool.pool import Pool
from closecall.core.selection import PoolRows, QueryStrategy, Selection

Floats64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Round:
    """A retrained classifier and the item it selected next."""

    trained: Trained
    selection: Selection


def play_round(
    pool: Pool,
    labels: Labels,
    strategy: QueryStrategy,
    *,
    exclude: Iterable[int] = (),
    seed: int = 0,
) -> Round:
    """Retrain and select the next item, never one already labeled."""
    trained = learn(labels)
    answered = np.union1d(labels.ids, np.fromiter(exclude, dtype=np.int64))
    examples = labels.X[labels.y & (labels.ids < 0)]
    selection = select_next(
        pool, strategy, trained.hyperplane, examples=examples, exclude=answered, seed=seed
    )
    return Round(trained, selection)


def rank_of(pool: PoolRows, hyperplane: Hyperplane, item: int, *, exclude: Iterable[int] = ()) -> int:
    """The number of items of the pool closer to the hyperplane than `item`."""
    return BruteForce(pool, hyperplane, exclude=exclude).rank(item)


def median_rank_of_best(n_scored: float, n_items: int) -> float:
    """The median rank of the nearest of `n_scored` items drawn at random from `n_items`.

    Each is one of the r nearest with probability r / n_items, so none of them is with probability
    (1 − r / n_items)ⁿ, where n is `n_scored`. The median sets this to one half.
    """
    if n_scored >= n_items:
        return 0.0
    return float(n_items * (1 - 0.5 ** (1 / max(n_scored, 1))))


def free_energy(machine: RBM, v: Floats64) -> Floats64:
    """F(v) of each row, of shape (n,)."""
    own = ((v - machine.visible) ** 2).sum(axis=1) / 2 if machine.gaussian else -(v @ machine.visible)
    return np.asarray(own - np.logaddexp(0, v @ machine.weights + machine.hidden).sum(axis=1))


def reconstructed(machine: RBM, v: Floats64) -> Floats64:
    """The mean of v given the mean of h given v, for each row."""
    return machine.visible_means(machine.hidden_means(v))


def least_disagreement(kappa: ArrayLike) -> Floats64:
    """The lower bound h₁ of the shift-invariant paper."""
    return np.asarray(4 / np.pi**2 * (1 - np.asarray(kappa, dtype=np.float64)))


def most_disagreement(kappa: ArrayLike) -> Floats64:
    """The upper bound h₂ of the shift-invariant paper."""
    kappa = np.asarray(kappa, dtype=np.float64)
    return np.asarray(np.minimum(np.sqrt(1 - kappa) / 2, 4 / np.pi**2 * (1 - 2 / 3 * kappa)))


def logdet_divergence(A: Floats64, A0: Floats64) -> float:
    """D(A, A₀) = tr(AA₀⁻¹) − log det(AA₀⁻¹) − d of positive definite matrices."""
    ratio = np.linalg.solve(A0, A)
    sign, logarithm = np.linalg.slogdet(ratio)
    return float(np.trace(ratio) - logarithm - len(A)) if sign > 0 else np.inf


def nearest_metric(
    A0: Floats64, M: Floats64, signs: Floats64, targets: Floats64, gamma: float, offset: float = 0.0
) -> Floats64:
    """The A of min D(A, A₀) + γ Σ D(ξ, b), where tr(AM) + offset is at most ξ, or at least for the sign −1.

    By sequential quadratic programming on a root of A and the slack: no Bregman projection in it.
    """
    d, m = len(A0), len(M)

    def metric(z: Floats64) -> Floats64:
        L = np.zeros((d, d))
        L[np.tril_indices(d)] = z[: d * (d + 1) // 2]
        return L @ L.T

    def slack(z: Floats64) -> Floats64:
        return targets if np.isinf(gamma) else targets * np.exp(z[-m:])

    def price(z: Floats64) -> float:
        ratio = slack(z) / targets
        extra = 0.0 if np.isinf(gamma) else gamma * (ratio - np.log(ratio) - 1).sum()
        return logdet_divergence(metric(z), A0) + extra

    def room(z: Floats64) -> Floats64:
        return np.asarray(signs * (slack(z) - offset - np.einsum("ijk,jk->i", M, metric(z))))

    start = np.concatenate(
        [np.linalg.cholesky(A0)[np.tril_indices(d)], np.zeros(0 if np.isinf(gamma) else m)]
    )
    options = {"maxiter": 1000, "ftol": 1e-12}
    rng = np.random.default_rng(0)
    for _ in range(5):  # its line search may end in rounding; elsewhere it gets through
        asked = {"method": "SLSQP", "constraints": {"type": "ineq", "fun": room}, "options": options}
        found = minimize(price, start, **asked)
        if found.success:
            return metric(found.x)
        start = start + 0.01 * rng.standard_normal(start.shape)
    raise AssertionError(found.message)


def explicit(metric: ImplicitMetric) -> ExplicitMetric:
    """The same metric in explicit form, for rows with few features."""
    points = metric.points.toarray() if is_sparse(metric.points) else metric.points
    return ExplicitMetric(np.eye(metric.n_features) + points.T @ metric.S @ points)
