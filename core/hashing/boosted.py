"""Boosted parameter-sensitive hashing, which selects features and thresholds by boosting.

A bit compares feature e of a row x with a threshold T: h(x) = [x_e ≥ T]. Boosting selects e and T (section
3.3.1 of the survey [1]_, after [2]_). It learns from N pairs of rows. A pair has the label z = 1 if its rows
are neighbours and z = −1 if they are not. A weak learner is a regression stump with the coefficients α and β:

    f(x, y) = α·[h(x) = h(y)] + β,                                                                    (14)

where the bracket is 1 if the bits are equal and 0 otherwise. GentleBoost adds one stump after another. Each
time, it selects the stump with the smallest weighted squared error

    Σ w·(z − f)²,      w = exp(−z·Σ f of the stumps so far).                                          (15)

(Eq. 14 as printed has the difference of the two bits instead of [h(x) = h(y)]. The sign of the difference
changes with the order of the pair, so it cannot tell whether the rows are neighbours.)

**Equal weights.** The learned distance of two rows is Σ α|h(x) − h(y)|. If all stumps have the same α, it is
proportional to the Hamming distance of the codes [3]_. The best β is then z̄ − α·ā, where a = [h(x) = h(y)] is
the agreement of a pair, and z̄ and ā are weighted means over the pairs. With the weighted covariance and
variance, a stump reduces the error by

    2α·cov(z, a) − α²·var(a).

**Choice of α.** The survey only says that "the parameter α has an effect in the generalization". If α is
small, the weights of the pairs hardly change, and the bits are much alike. If α is large, the output of a
stump that divides the rows evenly would be too large, so stumps that separate few rows are selected. At
α = 1, most of the selected stumps separate only 1 % of the rows from the rest.

The table gives the percentage of the 50 nearest rows that are among the 500 rows whose codes differ least. It
was measured with 500 queries on GIST of the 50,000 images of CIFAR-10, with 20,000 rows and 10,000 pairs used
for fitting. With 20,000 pairs, 64 bits find 17.5 % at α = 0.02 and 5.9 % at α = 1.

=======  =====  =====  =====  =====  =====  =====
α         0.1    0.15   0.2    0.3    0.4    0.5
=======  =====  =====  =====  =====  =====  =====
16 bits   12.0   12.6   13.4   13.8   13.0   13.1
64 bits   31.3   32.1   32.4   32.1   31.7   30.1
=======  =====  =====  =====  =====  =====  =====

References
----------
.. [1] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013.
.. [2] G. Shakhnarovich, P. Viola, T. Darrell, "Fast pose estimation with parameter-sensitive hashing", ICCV
   2003.
.. [3] A. Torralba, R. Fergus, Y. Weiss, "Small codes and large image databases for recognition", CVPR 2008.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.hashing.by_neighbours import ByNeighbours
from closecall.core.hashing.pairs import Neighbours, Pairs
from closecall.core.hashing.similarity import Floats32, Floats64
from closecall.core.numerics.interruption import go_on
from closecall.core.numerics.rows import Rows

_MOST_THRESHOLDS = 10_000
"""Maximum number of thresholds per feature; numbers up to twice the maximum must fit in 16 bits."""


class BoostedPSH(ByNeighbours):
    """Hash family with the bits [x_e ≥ T], where boosting selects each feature e and its threshold T.

    Parameters
    ----------
    neighbours : "distance" or "class"
        With "distance", the neighbours of a row are its `n_near` nearest rows. With "class", they are the
        rows of the same class, and `fit` needs the classes.
    n_near : int
        Number of nearest rows that count as neighbours.
    alpha : float
        Coefficient α > 0 of all stumps (see the module).
    n_pairs : int
        Number of pairs to draw, half of them neighbours.
    n_thresholds : int
        Maximum number of thresholds per feature, at most 10,000. If more thresholds are possible, only those
        at quantiles of the feature's values in the rows of the pairs are kept.

    Other parameters are those of `SimilarityHasher`.

    Attributes
    ----------
    features_ : array of shape (n_functions,), int64
        Feature e of each bit.
    thresholds_ : array of shape (n_functions,), float32
        Threshold T of each bit.
    scales_ : array of shape (n_functions,), float32
        Standard deviation of feature e of each bit. The certainty of a bit is |x_e − T| divided by its scale.
    losses_ : array of shape (n_functions + 1,), float64
        Mean exponential loss over the pairs before the first stump and after each stump.
    """

    name = "boosted"

    features_: NDArray[np.int64]
    thresholds_: Floats32
    scales_: Floats32
    losses_: Floats64
    _fitted = ("features_", "thresholds_", "scales_", "losses_")
    _least: ClassVar[dict[str, int]] = {**ByNeighbours._least, "n_pairs": 2}

    def __init__(
        self,
        *,
        neighbours: Neighbours = "distance",
        n_near: int = 50,
        alpha: float = 0.2,
        n_pairs: int = 20_000,
        n_thresholds: int = 100,
        n_functions: int = 256,
        random_state: int = 0,
    ) -> None:
        super().__init__(n_functions=n_functions, random_state=random_state)
        self.neighbours = neighbours
        self.n_near = n_near
        self.alpha = alpha
        self.n_pairs = n_pairs
        self.n_thresholds = n_thresholds

    def _learn(self, X: Floats32, y: NDArray[np.int64] | None, rng: np.random.Generator) -> None:
        if y is None:
            pairs = Pairs.by_distance(X, self.n_pairs, self.n_near, rng)
        else:
            pairs = Pairs.by_class(y, self.n_pairs, rng)
        stumps = Stumps.of(X, pairs, self.n_thresholds)
        found, self.losses_ = boosted(stumps, self.n_functions, self.alpha)
        self.features_ = np.array([one.feature for one in found])
        self.thresholds_ = np.array([one.threshold for one in found], dtype=np.float32)
        self.scales_ = X.std(axis=0, dtype=np.float64)[self.features_].astype(np.float32)

    def _values(self, X: Rows) -> Floats32:
        return np.asarray((X[:, self.features_] - self.thresholds_) / self.scales_)

    def _check(self) -> None:
        super()._check()
        if not 0 < self.alpha < np.inf:
            raise InputError(f"alpha must be positive and finite, got {self.alpha}")
        if not 1 <= self.n_thresholds <= _MOST_THRESHOLDS:
            raise InputError(f"n_thresholds must be from 1 to {_MOST_THRESHOLDS}, got {self.n_thresholds}")


class Stump(NamedTuple):
    """A regression stump, a weak learner for pairs of rows.

    Its output is α + β if both rows are on the same side of the threshold, and β otherwise.
    """

    feature: int
    threshold: float
    beta: float
    agreeing: NDArray[np.bool_]
    """Whether the two rows of each pair have equal bits."""


@dataclass(frozen=True, eq=False)
class Stumps:
    """All features and thresholds that a stump for a set of pairs may have.

    Parameters
    ----------
    thresholds : list of array of shape (n_thresholds,), float32
        Thresholds of each feature, ascending. Their number may differ between features.
    places : array of shape (n_features, 2, n_pairs), int16
        For each feature and pair: the number of thresholds up to the lower of the two rows' values, and the
        number up to the higher value. The bits of the two rows differ for the thresholds in between.
    near : array of shape (n_pairs,), bool
        Whether each pair consists of neighbours.
    """

    thresholds: list[Floats32]
    places: NDArray[np.int16]
    near: NDArray[np.bool_]

    @classmethod
    def of(cls, X: Floats32, pairs: Pairs, n_thresholds: int) -> Stumps:
        """Return the candidate stumps for the rows of `X` that are in `pairs`.

        Thresholds are halfway between adjacent values of a feature. If a feature has more than
        `n_thresholds`, only those at quantiles are kept.

        Raises
        ------
        InputError
            If all rows in the pairs are equal.
        """
        used = np.unique(pairs.rows)
        thresholds = [between_values(values, n_thresholds) for values in X[used].T]
        if not any(map(len, thresholds)):
            raise InputError("the rows in the pairs are all equal, so no threshold can separate them")
        places = np.empty((X.shape[1], 2, len(pairs.rows)), dtype=np.int16)
        for own, mine, values in zip(places, thresholds, X.T, strict=True):
            own[:] = np.sort(np.searchsorted(mine, values, side="right")[pairs.rows], axis=1).T
        return cls(thresholds, places, pairs.near)

    def best(self, weights: Floats64, alpha: float) -> Stump:
        """Return the stump with the smallest weighted squared error for a given α; the first one wins a tie.

        The error is Σ w·(z − f)² over the pairs, where f is the output of the stump, and z is 1 for
        neighbours and −1 otherwise.

        Parameters
        ----------
        weights : array of shape (n_pairs,), float64
            Weights w of the pairs, with a sum of 1.
        alpha : float
            Coefficient α of the stump.
        """
        signed = np.concatenate([weights, -weights])
        mean = float(weights[self.near].sum() - weights[~self.near].sum())
        gain, feature, place, differing = -np.inf, 0, 0, 0.0
        for f, (own, thresholds) in enumerate(zip(self.places, self.thresholds, strict=True)):
            if not len(thresholds):
                continue
            # With ascending thresholds, the weight of a pair is added where its bits begin to differ, and
            # subtracted where they agree again.
            steps = len(thresholds) + 1
            both = np.where(self.near, own, own + np.int16(steps)).ravel()
            of_near, of_far = np.bincount(both, signed, 2 * steps).reshape(2, steps).cumsum(axis=1)[:, :-1]
            differ = of_near + of_far
            covariance = mean * differ - (of_near - of_far)
            gains = 2 * alpha * covariance - alpha**2 * differ * (1 - differ)
            best = int(gains.argmax())
            if gains[best] > gain:
                gain, feature, place, differing = gains[best], f, best, float(differ[best])
        low, high = self.places[feature]
        beta = mean - alpha * (1 - differing)
        agreeing = (high <= place) | (low > place)
        return Stump(feature, float(self.thresholds[feature][place]), beta, agreeing)


def boosted(stumps: Stumps, n: int, alpha: float) -> tuple[list[Stump], Floats64]:
    """Run GentleBoost; return n stumps, and the mean loss before the first stump and after each stump.

    The loss of a pair is exp(−z·Σ f), where f are the outputs of the stumps, and z is 1 for neighbours and
    −1 otherwise.
    """
    z = np.where(stumps.near, 1.0, -1.0)
    margins = np.zeros(len(z))
    found, losses = [], [1.0]
    for _ in range(n):
        go_on()
        # Subtracting the minimum makes the largest weight 1, so that the weights cannot all underflow.
        weights = np.exp(margins.min() - margins)
        stump = stumps.best(weights / weights.sum(), alpha)
        margins += z * (alpha * stump.agreeing + stump.beta)
        found.append(stump)
        losses.append(float(np.exp(-margins).mean()))
    return found, np.array(losses)


def between_values(values: Floats32, n: int) -> Floats32:
    """Return at most n ascending thresholds, each of which divides the values differently.

    The result is empty if all values are equal.
    """
    levels, counts = np.unique(values, return_counts=True)
    lower, upper = levels[:-1], levels[1:]
    middles = ((lower.astype(np.float64) + upper) / 2).astype(np.float32)
    # The midpoint of two adjacent floats may be rounded to the lower one, which would not separate them.
    middles = np.where(middles > lower, middles, upper)
    if len(middles) <= n:
        return middles
    below = counts.cumsum()[:-1]
    wanted = np.arange(1, n + 1) / (n + 1) * len(values)
    return np.asarray(middles[np.unique(np.searchsorted(below, wanted).clip(max=len(below) - 1))])
