"""Which items of a pool of known truth are labeled, drawn at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool

Ids = NDArray[np.int64]

MOST_CLASSES = 20
"""How many classes the paper's widest set has; of a pool with more, a hyperplane sees `SEEN_CLASSES`."""

SEEN_CLASSES = 10
"""How many classes the paper's image sets have."""


class ItemsByClass:
    """The items of a pool whose class is known, to draw from.

    Parameters
    ----------
    pool : Pool
        Items of unknown class are left out.
    least : int
        Classes with fewer items are never the positive one.

    Attributes
    ----------
    classes : array of int
        Those with at least `least` items.

    Raises
    ------
    InputError
        If fewer than two classes have so many.
    """

    def __init__(self, pool: Pool, least: int = 1) -> None:
        truth = pool.truth(pool.ids)
        order = np.argsort(truth, kind="stable")
        self._ids = pool.ids[order]
        self._bounds = np.searchsorted(truth[order], np.arange(len(pool.classes) + 1))
        self.classes = np.flatnonzero(np.diff(self._bounds) >= least)
        if len(self.classes) < 2:
            items = "item" if least == 1 else "items"
            raise InputError(
                f"the pool {pool.path} needs at least two classes with {least} {items} of known truth"
            )

    def positives(self, rng: np.random.Generator, n: int) -> list[int]:
        """As many classes to ask for: in random order, and all of them before any comes again."""
        orders = [rng.permutation(self.classes) for _ in range(-(-n // len(self.classes)))]
        return [int(positive) for order in orders for positive in order][:n]

    def per_class(self, rng: np.random.Generator, positive: int, n: int) -> Ids:
        """The paper's draw (Section 5.1): n items of each class.

        Its sets have 10 and 20 classes. Where there are more than `MOST_CLASSES`, n items of `positive` and
        of 9 others, drawn anew each time, so that yes and no have about the paper's proportion.
        """
        others = self.classes[self.classes != positive]
        if len(self.classes) > MOST_CLASSES:
            others = rng.choice(others, SEEN_CLASSES - 1, replace=False)
        return np.concatenate([self.of(rng, c, n) for c in (positive, *others.tolist())])

    def at_random(self, rng: np.random.Generator, positive: int, n: int) -> Ids:
        """A plain draw of n items, corrected where it holds too few of class `positive`, or too few others.

        Each kind is at least 5 % of the items (`least_of`). A frequent class is hardly touched by that; a
        rare one has the few examples without which nobody would ask for it.
        """
        least = least_of(n)
        size = self._size(positive)
        drawn = int(rng.hypergeometric(size, len(self) - size, n))
        yes = min(max(drawn, least), n - least)
        return np.concatenate([self.of(rng, positive, yes), self.others(rng, positive, n - yes)])

    def of(self, rng: np.random.Generator, positive: int, n: int) -> Ids:
        """Any n items of a class."""
        places = self._bounds[positive] + rng.choice(self._size(positive), n, replace=False)
        return np.asarray(self._ids[places])

    def others(self, rng: np.random.Generator, positive: int, n: int) -> Ids:
        """Any n items of all other classes together."""
        places = self._bounds[0] + rng.choice(len(self) - self._size(positive), n, replace=False)
        places[places >= self._bounds[positive]] += self._size(positive)
        return np.asarray(self._ids[places])

    def any(self, rng: np.random.Generator, n: int) -> Ids:
        """Any n items of known class."""
        return np.asarray(rng.choice(self._ids[self._bounds[0] :], n, replace=False))

    def largest(self) -> int:
        """How many items the most frequent class has."""
        return int(np.diff(self._bounds).max())

    def __len__(self) -> int:
        return int(self._bounds[-1] - self._bounds[0])

    def _size(self, positive: int) -> int:
        return int(self._bounds[positive + 1] - self._bounds[positive])


def least_of(n_labels: int) -> int:
    """How many of `n_labels` drawn at random are a yes at the least: 5 %, rounded up."""
    return -(-n_labels // 20)
