"""Stratified sampling of a pool: the strata are bands of scores, and items are drawn with known probability.

Items selected by an annotator or a query strategy do not represent the pool. Randomly drawn items are
representative, but 400 of them would contain only two positives of a class with a prevalence of 0.5 %. The
pool is therefore stratified by the score wᵀx + b of the current classifier. The side of the hyperplane with
fewer items is split into halves. For a rare class, this is the side of the predicted positives. The larger
side is split into bands that start at the hyperplane and double in size, which suits a skewed distribution of
scores [1]_. A quarter of the draws come from the smaller side. The other draws are divided among the bands of
the larger side in proportion to the square roots of the band sizes. If only the number of positives were
estimated, an equal number of draws from each band would be best [2]_. But if n_h draws from the N_h items of
band h find no positive, the band may still contain up to about N_h / n_h positives. Draws in proportion to
√N_h minimize the sum of these bounds.

The classifier changes during an audit, and the bands are made for one classifier. Items are therefore drawn
from one `Frame` until the next checkpoint (`core.evaluation.stopping.is_checkpoint`), and from a new frame
after the checkpoint. `core.audit.weights` computes the probability that an item is drawn from any of the
frames.

References
----------
.. [1] P. Gunning, J. M. Horgan: A New Algorithm for the Construction of Stratum Boundaries in Skewed
   Populations, Survey Methodology 30(2), 2004.
.. [2] J. Neyman: On the Two Different Aspects of the Representative Method, Journal of the Royal Statistical
   Society 97, 1934. With a small proportion p_h of positives, draws should be in proportion to N_h √p_h. This
   is equal for all bands if the number of positives halves from band to band.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.randomness import hashed, seed_for
from closecall.core.numerics.rows import Rows
from closecall.core.selection import PoolExhausted, PoolRows, Selection
from closecall.core.selection.exclusion import rows_among

LEAST_BAND = 50
"""Approximate minimum number of items in a band. A side of the hyperplane may have fewer items in total."""

MOST_BANDS = 8
"""Maximum number of bands on the larger side of the hyperplane.

Eight bands are enough for a million items and a prevalence of 0.4 %.
"""

SMALLER_SHARE = 0.25
"""Fraction of the draws that come from the side of the hyperplane with fewer items."""

RULE = 2
"""Version of the rule by which `bands` chooses the cuts. In version 1, a cut could be one of the scores."""

_ROUNDING = 4 * 2.0**-24
"""Usual rounding error of a float32 score of a row of unit length, divided by ‖w‖ + |b|, rounded up."""

_STRATUM_BITS = np.uint64(8)


def bands(scores: ArrayLike, *, error: float = 0.0, rule: int = RULE) -> NDArray[np.float64]:
    """Return, in ascending order, the scores that separate the bands of a pool.

    The scores include 0, the hyperplane. Let ``cuts`` be the result. Band h contains the scores s with
    ``cuts[h - 1] < s <= cuts[h]``, so ``np.searchsorted(cuts, scores)`` returns the band of each score.

    Identical items have equal scores. A cut lies between different scores, so that identical items are in one
    band even if their score is computed again and rounded otherwise.

    Parameters
    ----------
    scores : array of shape (n,), floating point
        Scores wᵀx + b of the items.
    error : float
        Scores count as equal if they differ by at most twice this rounding error.
    rule : int
        Version of the rule, for the frames of earlier logs; see `RULE`.

    Returns
    -------
    array of shape (n_bands - 1,), float64
    """
    scores = np.asarray(scores)
    above, below = np.sort(scores[scores > 0]), np.sort(-scores[scores <= 0])
    n_smaller, n_larger = sorted((len(above), len(below)))
    halves = [n_smaller // 2] if n_smaller >= 2 * LEAST_BAND else []
    doubling = _ends_of_doubling(max(n_smaller, LEAST_BAND), n_larger)
    of_above, of_below = (halves, doubling) if len(above) <= len(below) else (doubling, halves)
    if rule > 1:
        of_above, of_below = _after_equals(above, of_above, error), _after_equals(below, of_below, error)
    return np.unique(np.concatenate([[0.0], _between(above, of_above), -_between(below, of_below)]))


def _after_equals(ordered: NDArray[np.floating], places: ArrayLike, error: float) -> NDArray[np.int64]:
    """Move each index in `places` past the scores that equal the score before the index.

    Leave out an index if no score follows. `ordered` is ascending.
    """
    before = ordered[np.asarray(places, dtype=np.int64) - 1]
    limits = (before.astype(np.float64) + 2 * error).astype(ordered.dtype)
    moved = np.searchsorted(ordered, limits, side="right")
    return np.asarray(moved[moved < len(ordered)], dtype=np.int64)


def _between(ordered: NDArray[np.floating], places: ArrayLike) -> NDArray[np.float64]:
    """For each index in `places`, return the midpoint between the score at this index and the previous score.

    Rounding a midpoint does not move an item to another band.
    """
    places = np.asarray(places, dtype=np.int64)
    return np.asarray((ordered[places - 1].astype(np.float64) + ordered[places]) / 2)


def _ends_of_doubling(first: int, n: int) -> NDArray[np.int64]:
    """Divide n items into consecutive parts that double in size, starting with about `first` items.

    Return the index at which each part begins, except the first part.
    """
    n_bands = int(np.clip(round(np.log2(n / first + 1)), 1, MOST_BANDS)) if n else 1
    return np.asarray(n * (2 ** np.arange(1, n_bands) - 1) // (2**n_bands - 1), dtype=np.int64)


def shares(cuts: ArrayLike, sizes: ArrayLike) -> NDArray[np.float64]:
    """Return the fraction of the draws that come from each stratum, of shape (n_strata,).

    The module's docstring explains how draws are divided among the strata.

    Parameters
    ----------
    cuts : array of shape (n_strata - 1,)
        Scores that separate the strata, as returned by `bands`; empty for one stratum.
    sizes : array of shape (n_strata,)
        Number of items in each stratum.
    """
    roots = np.sqrt(np.asarray(sizes, dtype=np.float64))
    above = np.arange(len(roots)) > np.searchsorted(np.asarray(cuts), 0.0)
    n_above, n_below = float(np.sum(roots[above] ** 2)), float(np.sum(roots[~above] ** 2))
    if not n_above or not n_below:
        return np.asarray(roots / roots.sum())
    share = SMALLER_SHARE if n_above <= n_below else 1 - SMALLER_SHARE
    scale = np.where(above, share / roots[above].sum(), (1 - share) / roots[~above].sum())
    return np.asarray(scale * roots)


@dataclass(frozen=True, eq=False)
class Strata:
    """Strata of a `Frame`, from which the probability of drawing an item can be computed later.

    Parameters
    ----------
    hyperplane : Hyperplane or None
        Classifier that the pool is stratified by. If None, there is a single stratum.
    cuts : array of shape (n_strata - 1,), float64
        Scores that separate the strata, as returned by `bands`.
    sizes : array of shape (n_strata,), int64
        Number of items that could be drawn from each stratum when the frame was made.
    last : int
        Highest item id when the frame was made. Items added to the pool later are in no stratum.

    Raises
    ------
    InputError
        If the cuts are not ascending, if a size is negative, if the lengths disagree, or if there are cuts
        but no hyperplane.
    """

    hyperplane: Hyperplane | None
    cuts: NDArray[np.float64]
    sizes: NDArray[np.int64]
    last: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "cuts", np.asarray(self.cuts, dtype=np.float64))
        object.__setattr__(self, "sizes", np.asarray(self.sizes, dtype=np.int64))
        if len(self.sizes) != len(self.cuts) + 1 or (np.diff(self.cuts) <= 0).any() or (self.sizes < 0).any():
            raise InputError(
                f"strata need ascending cuts and one more size, not negative; got {len(self.cuts)} cuts and "
                f"{len(self.sizes)} sizes"
            )
        if self.hyperplane is None and len(self.cuts):
            raise InputError(f"without a hyperplane there is one stratum, got {len(self.sizes)}")

    def params(self) -> dict[str, Any]:
        """Return, as plain numbers, all fields but the hyperplane, for ``Strata(hyperplane, **params)``."""
        return {"cuts": self.cuts.tolist(), "sizes": self.sizes.tolist(), "last": self.last}

    def of(self, ids: ArrayLike, X: Rows) -> NDArray[np.int64]:
        """Return the stratum of each item, of shape (n,), int64; −1 for items newer than the frame.

        `X`, of shape (n, n_features), has the features of the items `ids`.
        """
        scores = self.hyperplane.scores(X) if self.hyperplane is not None else np.zeros(X.shape[0])
        return np.where(np.asarray(ids) <= self.last, np.searchsorted(self.cuts, scores), -1)


class Frame:
    """Sampling frame of an audit: the items of a pool, divided into strata by the scores of a classifier.

    A frame is immutable, so any number of threads may share it. Items are drawn from a stratum in a random
    order that depends only on the seed and the item ids. The items drawn from a stratum are therefore a
    simple random sample of the items that may be drawn. The same frame and arguments always give the same
    draw.

    Construction takes one scan of the pool and one sort. A frame takes 5 bytes per item.

    Parameters
    ----------
    pool : Pool
        The items.
    hyperplane : Hyperplane or None
        Classifier to stratify by; None if there is no classifier yet.
    exclude : iterable of int
        Ids of items that cannot be drawn: items already answered, for training or for the audit.
    seed : int
        Seed of the random order of the items. Each frame of an audit needs its own seed. Otherwise draws from
        a new frame would depend on earlier draws.
    rule : int
        Version of the rule by which the cuts between the strata are chosen; see `RULE`.

    Attributes
    ----------
    strata : Strata
        Description of the strata, to be saved with the items drawn from the frame.

    Raises
    ------
    PoolExhausted
        If every item is excluded.
    """

    def __init__(
        self,
        pool: PoolRows,
        hyperplane: Hyperplane | None,
        *,
        exclude: Iterable[int] = (),
        seed: int = 0,
        rule: int = RULE,
    ) -> None:
        self._pool = pool
        self._hyperplane = hyperplane
        free = np.ones(len(pool), dtype=np.bool_)
        free[rows_among(pool, _sorted(exclude))] = False
        if not free.any():
            raise PoolExhausted(f"all {len(pool)} items are answered: none is left to audit")
        scores, cuts = np.zeros(len(pool), np.float32), np.empty(0)
        if hyperplane is not None:
            scores = pool.alone().scores(hyperplane)  # the log keeps the cuts to the last bit
            error = _ROUNDING * (hyperplane.norm + abs(hyperplane.bias))
            cuts = bands(scores[free], error=error, rule=rule)
        self._stratum = np.searchsorted(cuts, scores).astype(np.uint8)
        self._stratum[~free] = len(cuts) + 1
        sizes = np.bincount(self._stratum[free], minlength=len(cuts) + 1)
        self.strata = Strata(hyperplane, cuts, sizes, int(pool.ids[-1]))
        keys = hashed(seed_for("audit", seed), pool.ids, 1)[:, 0] >> _STRATUM_BITS
        keys |= self._stratum.astype(np.uint64) << (np.uint64(64) - _STRATUM_BITS)
        self._order = np.argsort(keys, kind="stable").astype(np.uint32)
        self._ends = np.cumsum(sizes)
        self._shares = shares(cuts, sizes)

    def draw(self, *, exclude: Iterable[int] = (), seed: int = 0) -> Selection:
        """Draw one item: choose a stratum at random, then take a random item of the stratum.

        `shares` gives the probabilities of the strata. If a stratum is exhausted, its probability is divided
        among the other strata in proportion to their probabilities. `Selection.probability` is the
        probability with which the item was drawn.

        Parameters
        ----------
        exclude : iterable of int
            Ids of items that must not be drawn: all answered items, and items that other annotators are
            answering. Ids excluded from the frame need not be repeated.
        seed : int
            Seed of the choice of the stratum.

        Returns
        -------
        Selection
            The drawn item. Its margin is NaN if the frame has no hyperplane.

        Raises
        ------
        PoolExhausted
            If no item is left.
        """
        start = perf_counter()
        excluded = rows_among(self._pool, _sorted(exclude))
        n_strata = len(self.strata.sizes)
        left = self.strata.sizes - np.bincount(self._stratum[excluded], minlength=n_strata + 1)[:n_strata]
        if not left.any():
            raise PoolExhausted("Pool exhausted: 0 available for the audit, 1 requested")
        share = np.where(left > 0, self._shares, 0.0)
        share /= share.sum()
        stratum = int(np.random.default_rng(seed).choice(n_strata, p=share))
        row = self._first(stratum, excluded)
        margin = np.nan
        if self._hyperplane is not None:
            margin = float(np.abs(self._hyperplane.scores(self._pool.rows(np.array([row]))))[0])
        return Selection(
            ids=self._pool.ids[row : row + 1].astype(np.int64),
            margins=np.array([margin]),
            seconds=perf_counter() - start,
            scored=int(self._hyperplane is not None),
            items=len(self._pool),
            probability=float(share[stratum] / left[stratum]),
        )

    def _first(self, stratum: int, excluded: NDArray[np.int64]) -> int:
        """Return the first row, in the random order of the stratum, that is not in `excluded`.

        `excluded` must be ascending and must not contain the whole stratum.
        """
        start, end = int(self._ends[stratum] - self.strata.sizes[stratum]), int(self._ends[stratum])
        taken = len(excluded) + 1
        rows = self._order[start : min(end, start + taken)].astype(np.int64)
        return int(rows[np.isin(rows, excluded, invert=True).argmax()])


def _sorted(ids: Iterable[int]) -> NDArray[np.int64]:
    array = ids if isinstance(ids, np.ndarray) else np.fromiter(ids, dtype=np.int64)
    return np.unique(array.astype(np.int64, copy=False))
