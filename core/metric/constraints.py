"""Constraints for metric learning: pairs that should be close or far apart, and triples.

The squared distance should be at most `upper` for a similar pair, and at least `lower` for a dissimilar pair
(eq. 2 of Kulis, Jain and Grauman 2009). Both thresholds come from the data: they are percentiles of the
squared distances of random pairs of unequal rows, by default the 5th and the 95th, as in Davis et al. 2007.

A triple (i, j, k) states that row i is nearer to row j than to row k. The squared distance of i and k should
exceed the squared distance of i and j by at least a margin. Such relative constraints are an alternative to
pairs if people can compare two distances but can't judge a single distance (Grauman and Fergus 2013,
footnote 5).

The three papers are listed in `core.metric.itml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.metric.passes import PAIRS, TRIPLES, Passes
from closecall.core.numerics.rows import Rows, is_sparse

Pairs = NDArray[np.int64]
Floats64 = NDArray[np.float64]

_SAMPLED_PAIRS = 10_000


@dataclass(frozen=True, eq=False)
class Constraints:
    """Similar and dissimilar pairs of rows, with bounds on their squared distances.

    Parameters
    ----------
    pairs : array of shape (n_pairs, 2), int64
        Row indices.
    similar : array of shape (n_pairs,), bool
        True for similar pairs.
    upper, lower : float
        Bounds on the squared distance: upper bound for similar pairs, and lower bound for dissimilar pairs.

    Raises
    ------
    InputError
        Unless 0 < upper < lower < ∞.
    """

    pairs: Pairs
    similar: NDArray[np.bool_]
    upper: float
    lower: float
    passes: ClassVar[Passes] = PAIRS

    def __post_init__(self) -> None:
        if not 0 < self.upper < self.lower < np.inf:
            raise InputError(
                f"similar pairs must be nearer than dissimilar ones: the squared distances need "
                f"0 < upper < lower, got {self.upper:g} and {self.lower:g}"
            )

    @classmethod
    def from_pairs(
        cls,
        X: Rows,
        similar: ArrayLike,
        dissimilar: ArrayLike,
        *,
        percentiles: tuple[float, float] = (5, 95),
        random_state: int = 0,
    ) -> Self:
        """Make constraints from given pairs of rows of X.

        Parameters
        ----------
        X : array or csr_array of shape (n_samples, n_features)
            The rows that the pairs refer to. The thresholds are percentiles over all rows.
        similar, dissimilar : array of shape (n, 2), int
            Row indices; one of the two arrays may be empty.
        percentiles : (float, float)
            Percentiles of the squared distances of random pairs of unequal rows, for `upper` and `lower`.
        random_state : int
            Seed of the random pairs. If X has at most 10,000 pairs of rows, all pairs are used instead.

        Raises
        ------
        InputError
            If there are no pairs, if a pair is both similar and dissimilar, if a pair has an unknown row or
            the same row twice, if the rows of a dissimilar pair are equal, if the percentiles are invalid, or
            if the thresholds do not satisfy 0 < upper < lower.
        """
        near, far = _ordered(similar, X.shape[0]), _ordered(dissimilar, X.shape[0])
        if not len(near) + len(far):
            raise InputError("metric learning needs at least one pair, got none")
        both = np.flatnonzero((far[:, None] == near).all(axis=2).any(axis=1))
        if len(both):
            i, j = far[both[0]].tolist()
            raise InputError(f"rows {i} and {j} are both similar and dissimilar: remove one of the pairs")
        equal = np.flatnonzero(pair_distances(X, far) == 0)
        if len(equal):
            i, j = far[equal[0]].tolist()
            raise InputError(
                f"rows {i} and {j} are equal, at distance 0 under every metric: they cannot be dissimilar"
            )
        upper, lower = _thresholds(X, percentiles, random_state)
        pairs = np.concatenate([near, far])
        return cls(pairs, np.arange(len(pairs)) < len(near), upper, lower)

    @classmethod
    def from_labels(
        cls,
        X: Rows,
        y: ArrayLike,
        *,
        n_pairs: int | None = None,
        percentiles: tuple[float, float] = (5, 95),
        random_state: int = 0,
    ) -> Self:
        """Make constraints from random pairs of labeled rows; pairs of the same class are similar.

        Parameters
        ----------
        X : array or csr_array of shape (n_samples, n_features)
            Labeled and unlabeled rows. The thresholds are percentiles over all rows.
        y : array of shape (n_samples,), int
            Classes; −1 for unlabeled rows, which are in no pair.
        n_pairs : int or None
            Number of pairs, half similar and half dissimilar, or fewer if there are not enough. None means
            20 c², where c is the number of classes, as in Davis et al. 2007, but at least 200.
        percentiles : (float, float)
            See `from_pairs`.
        random_state : int
            Seed for drawing the pairs, and other pairs, whose squared distances give the thresholds.

        Raises
        ------
        InputError
            If there are fewer than two classes, if no class has two labeled rows, if `n_pairs` is less than
            2, or if `y` has the wrong length; see also `from_pairs`.
        """
        classes = np.asarray(y, dtype=np.int64)
        if classes.shape != (X.shape[0],):
            raise InputError(
                f"y must have one class for each of {X.shape[0]} rows, got shape {classes.shape}"
            )
        known = np.flatnonzero(classes >= 0)
        names, sizes = np.unique(classes[known], return_counts=True)
        if len(names) < 2 or sizes.max() < 2:
            raise InputError(
                f"a metric needs labels of at least two classes, and two of one class, got {len(known)} "
                f"labels of {len(names)} {'class' if len(names) == 1 else 'classes'}"
            )
        wanted = max(20 * len(names) ** 2, 200) if n_pairs is None else n_pairs
        if wanted < 2:
            raise InputError(f"n_pairs must be at least 2, got {wanted}")
        rng = np.random.default_rng(random_state)
        near, far = _drawn(known, classes, wanted, rng)
        far = far[pair_distances(X, far) > 0]
        return cls.from_pairs(X, near, far, percentiles=percentiles, random_state=random_state)

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def items(self) -> Pairs:
        """The rows of each constraint: `pairs`."""
        return self.pairs

    @property
    def targets(self) -> Floats64:
        """Bound on the squared distance of each pair, of shape (n_pairs,)."""
        return np.where(self.similar, self.upper, self.lower)

    @property
    def terms(self) -> Floats64:
        """Signs δ of the pairs, of shape (n_pairs,): 1 for similar and −1 for dissimilar pairs."""
        return np.where(self.similar, 1.0, -1.0)

    def weighted(self, multipliers: Floats64) -> tuple[Pairs, Floats64]:
        """Return pairs and weights such that A⁻¹ − A₀⁻¹ is the weighted sum of vvᵀ over the pairs.

        Here, v is the difference of the two rows of a pair, and `multipliers` has the λ of each pair; see
        `core.metric.itml` for λ, A and A₀.
        """
        return self.pairs, self.terms * multipliers


@dataclass(frozen=True, eq=False)
class RelativeConstraints:
    """Triples of rows: the first row should be nearer to the second row than to the third.

    Parameters
    ----------
    triples : array of shape (n_triples, 3), int64
        Row indices i, j and k: d_A(i, k) − d_A(i, j) should be at least `margin`, where d_A is the squared
        distance under the learned metric.
    margin : float
        Minimum difference of the two squared distances.

    Raises
    ------
    InputError
        Unless 0 < margin < ∞.
    """

    triples: NDArray[np.int64]
    margin: float
    passes: ClassVar[Passes] = TRIPLES

    def __post_init__(self) -> None:
        if not 0 < self.margin < np.inf:
            raise InputError(f"margin must be positive and finite, got {self.margin:g}")

    @classmethod
    def from_triples(
        cls, X: Rows, triples: ArrayLike, *, margin: float | None = None, random_state: int = 0
    ) -> Self:
        """Make constraints from given triples of rows of X.

        Parameters
        ----------
        X : array or csr_array of shape (n_samples, n_features)
            The rows that the triples refer to.
        triples : array of shape (n, 3), int
            Row indices i, j and k, where i is nearer to j than to k. The triples keep their order.
        margin : float or None
            See `RelativeConstraints`. None means the 5th percentile of the squared distances of random pairs
            of unequal rows, the usual upper bound for similar pairs.
        random_state : int
            Seed of the random pairs. If X has at most 10,000 pairs of rows, all pairs are used instead.

        Raises
        ------
        InputError
            If there are no triples, if a triple has an unknown row or the same row twice, if its first and
            third row are equal, or if the margin is not positive.
        """
        array = np.asarray(triples, dtype=np.int64).reshape(-1, 3)
        if not len(array):
            raise InputError("metric learning needs at least one triple, got none")
        _check_rows(array, X.shape[0], "triples")
        repeated = np.flatnonzero((array == np.roll(array, 1, axis=1)).any(axis=1))
        if len(repeated):
            raise InputError(
                f"a triple must consist of three different rows, got {tuple(array[repeated[0]].tolist())}"
            )
        equal = np.flatnonzero(pair_distances(X, array[:, [0, 2]]) == 0)
        if len(equal):
            i, j, k = array[equal[0]].tolist()
            raise InputError(
                f"rows {i} and {k} are equal, at distance 0 under every metric: row {i} cannot be nearer to "
                f"row {j} than to row {k}"
            )
        if margin is None:
            margin, _ = _thresholds(X, (5, 95), random_state)
        return cls(array, margin)

    def __len__(self) -> int:
        return len(self.triples)

    @property
    def items(self) -> NDArray[np.int64]:
        """The rows of each constraint: `triples`."""
        return self.triples

    @property
    def targets(self) -> Floats64:
        """Upper bound on d_A(i, j) − d_A(i, k) + 2 `margin` for each triple, of shape (n_triples,)."""
        return np.full(len(self), float(self.margin))

    @property
    def terms(self) -> Floats64:
        """The term 2 `margin` in the definition of `targets`, for each triple, of shape (n_triples,)."""
        return 2 * self.targets

    def weighted(self, multipliers: Floats64) -> tuple[Pairs, Floats64]:
        """See `Constraints.weighted`; a multiplier λ gives the weights λ for (i, j) and −λ for (i, k)."""
        pairs = np.concatenate([self.triples[:, :2], self.triples[:, ::2]])
        return pairs, np.concatenate([multipliers, -multipliers])


AnyConstraints = Constraints | RelativeConstraints


def pair_distances(X: Rows, pairs: Pairs) -> Floats64:
    """Return the squared Euclidean distance of each pair of rows, of shape (len(pairs),), in float64."""
    if not len(pairs):
        return np.empty(0)
    difference = X[pairs[:, 0]].astype(np.float64) - X[pairs[:, 1]].astype(np.float64)
    squares = difference.multiply(difference) if is_sparse(difference) else difference**2
    return np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()


def _thresholds(X: Rows, percentiles: tuple[float, float], random_state: int) -> tuple[float, float]:
    low, high = percentiles
    if not 0 <= low < high <= 100:
        raise InputError(f"percentiles must ascend from 0 to 100, got {low:g} and {high:g}")
    n = X.shape[0]
    if n * (n - 1) // 2 <= _SAMPLED_PAIRS:
        pairs = np.column_stack(np.triu_indices(n, 1)).astype(np.int64)
    else:
        pairs = np.random.default_rng(random_state).integers(0, n, (_SAMPLED_PAIRS, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    distances = pair_distances(X, pairs)
    upper, lower = np.percentile(distances[distances > 0], percentiles) if distances.any() else (0.0, 0.0)
    return float(upper), float(lower)


def _ordered(pairs: ArrayLike, n_rows: int) -> Pairs:
    """Return the distinct pairs, with the lower row of each pair first."""
    array = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    _check_rows(array, n_rows, "pairs")
    alone = np.flatnonzero(array[:, 0] == array[:, 1])
    if len(alone):
        raise InputError(f"a pair must consist of two different rows, got row {array[alone[0], 0]} twice")
    return np.unique(np.sort(array, axis=1), axis=0).reshape(-1, 2)


def _check_rows(items: NDArray[np.int64], n_rows: int, what: str) -> None:
    bad = items[((items < 0) | (items >= n_rows)).any(axis=1)]
    if len(bad):
        raise InputError(f"{what} must be of rows from 0 to {n_rows - 1}, got {tuple(bad[0].tolist())}")


def _drawn(
    known: NDArray[np.int64], classes: NDArray[np.int64], wanted: int, rng: np.random.Generator
) -> tuple[Pairs, Pairs]:
    """Draw pairs of rows of the same class, and pairs of different classes; at most wanted / 2 of each."""
    n = len(known)
    if n * (n - 1) // 2 <= 20 * wanted:
        pairs = known[np.column_stack(np.triu_indices(n, 1))]
    else:
        # With many classes, few uniform pairs are of the same class, so draw pairs within classes as well.
        members = {name: known[classes[known] == name] for name in np.unique(classes[known])}
        first = rng.choice(known, 20 * wanted)
        same = np.array([rng.choice(members[classes[i]]) for i in first])
        pairs = np.column_stack([np.tile(first, 2), np.concatenate([same, rng.choice(known, len(first))])])
        pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    alike = classes[pairs[:, 0]] == classes[pairs[:, 1]]
    half = wanted // 2
    near, far = (rng.permutation(pairs[which])[:half] for which in (alike, ~alike))
    return near, far
