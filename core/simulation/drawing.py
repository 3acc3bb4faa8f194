"""Random choice of the items to label, in a pool whose classes are known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool

Ids = NDArray[np.int64]

MOST_CLASSES = 20
"""Largest number of classes in a data set of Jain et al. (NIPS 2010).

If a pool has more classes, `ItemsByClass.per_class` draws items from only `SEEN_CLASSES` classes.
"""

SEEN_CLASSES = 10
"""Number of classes in CIFAR-10, the labeled image data set of Jain et al. (NIPS 2010)."""


class ItemsByClass:
    """The items of a pool whose class is known, grouped by class for random draws.

    Parameters
    ----------
    pool : Pool
        The pool. Items of unknown class are left out.
    least : int
        Minimum size of a class to be used as the positive class.

    Attributes
    ----------
    classes : array of int
        Indices of the classes with at least `least` items.

    Raises
    ------
    InputError
        If fewer than two classes have `least` items.
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
        """Return n positive classes, each with `least` or more items.

        The list consists of random permutations of `classes`, one after another.
        """
        orders = [rng.permutation(self.classes) for _ in range(-(-n // len(self.classes)))]
        return [int(positive) for order in orders for positive in order][:n]

    def per_class(self, rng: np.random.Generator, positive: int, n: int) -> Ids:
        """Draw n items of each class, as Jain et al. do (NIPS 2010, section 4).

        The data sets of Jain et al. have 10 and 20 classes. If the pool has more than `MOST_CLASSES` classes,
        draw n items each of `positive` and of 9 other random classes, so that the ratio of positives to
        negatives stays close to the ratio in these data sets.
        """
        others = self.classes[self.classes != positive]
        if len(self.classes) > MOST_CLASSES:
            others = rng.choice(others, SEEN_CLASSES - 1, replace=False)
        return np.concatenate([self.of(rng, c, n) for c in (positive, *others.tolist())])

    def at_random(self, rng: np.random.Generator, positive: int, n: int) -> Ids:
        """Draw n items at random, at least 5 % of them positive and at least 5 % negative (`least_of`).

        The minimum hardly affects frequent classes. For rare classes, it provides the few positives with
        which an annotator would start.
        """
        least = least_of(n)
        size = self.size(positive)
        drawn = int(rng.hypergeometric(size, len(self) - size, n))
        yes = min(max(drawn, least), n - least)
        return np.concatenate([self.of(rng, positive, yes), self.others(rng, positive, n - yes)])

    def of(self, rng: np.random.Generator, positive: int, n: int) -> Ids:
        """Draw n items of a class at random."""
        places = self._bounds[positive] + rng.choice(self.size(positive), n, replace=False)
        return np.asarray(self._ids[places])

    def others(self, rng: np.random.Generator, positive: int, n: int) -> Ids:
        """Draw n items at random from all other classes together."""
        places = self._bounds[0] + rng.choice(len(self) - self.size(positive), n, replace=False)
        places[places >= self._bounds[positive]] += self.size(positive)
        return np.asarray(self._ids[places])

    def any(self, rng: np.random.Generator, n: int) -> Ids:
        """Draw n items of known class at random."""
        return np.asarray(rng.choice(self._ids[self._bounds[0] :], n, replace=False))

    def largest(self) -> int:
        """Return the number of items in the largest class."""
        return int(np.diff(self._bounds).max())

    def __len__(self) -> int:
        return int(self._bounds[-1] - self._bounds[0])

    def size(self, positive: int) -> int:
        """Return the number of items of a class."""
        return int(self._bounds[positive + 1] - self._bounds[positive])


def least_of(n_labels: int) -> int:
    """Return the minimum number of positives, and of negatives, among `n_labels`: 5 %, rounded up."""
    return -(-n_labels // 20)
