"""The requests to query strategies, and their answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection.reader import Ids


class PoolExhausted(InputError):  # noqa: N818 - the field's own words
    """Error raised when nothing is left to select, because every item of the pool is excluded."""


class SearchIncomplete(InputError):  # noqa: N818 - like PoolExhausted
    """Error raised when nothing was found, but not all rows could be searched in time."""


@dataclass(frozen=True, eq=False)
class Selection:
    """Items selected by a query strategy.

    Parameters
    ----------
    ids : array of shape (n,), int64
        Ids of the selected items. Strategies that search for the nearest items return the nearest first; ties
        go to the lower id.
    margins : array of shape (n,), float64
        |wᵀx + b| of each selected item; NaN if there was no hyperplane.
    seconds : float
        Wall-clock time of the query, or of all queries that were answered together in one pass.
    scored : int
        Number of items whose wᵀx + b was computed.
    items : int
        Number of items that the index covers. Items added to the pool later are not counted.
    probability : float or None
        Probability with which each selected item was selected, if the strategy knows it.
    parts : tuple of str
        For a strategy that combines others, the part that selected each item: a name in
        `core.selection.mixture.PARTS`, or "unlike" of `core.selection.auto`. Empty for other strategies.
    missing : int
        Number of rows that the search should have read but could not read in time; 0 if it is complete. Only
        searches with the help of workers (`core.workers`) can be incomplete.
    """

    ids: Ids
    margins: NDArray[np.float64]
    seconds: float
    scored: int
    items: int
    probability: float | None = None
    parts: tuple[str, ...] = ()
    missing: int = 0


class LabeledItems(NamedTuple):
    """The labels that a hyperplane was trained on.

    Parameters
    ----------
    ids : array of shape (n,), int64
        Distinct ids in any order; negative numbers for example images, which are not in the pool.
    y : array of shape (n,), bool
        True for yes.
    """

    ids: Ids
    y: NDArray[np.bool_]

    @property
    def n_positives(self) -> int:
        """Number of positive labels."""
        return int(np.count_nonzero(self.y))

    @property
    def n_negatives(self) -> int:
        """Number of negative labels."""
        return len(self.y) - self.n_positives


NO_LABELS = LabeledItems(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_))


@dataclass(frozen=True, eq=False)
class Request:
    """Arguments of `QueryStrategy.select`, for use with `QueryStrategy.select_many`."""

    hyperplane: Hyperplane | None
    n: int = 1
    exclude: Iterable[int] = ()
    seed: int = 0
    memory: object = None
    diversity: float = 0.0
    labels: LabeledItems = NO_LABELS


@dataclass(frozen=True, eq=False)
class Query:
    """A validated request, as passed to `QueryStrategy.choose`.

    Parameters
    ----------
    hyperplane : Hyperplane or None
        None only for strategies with `needs_hyperplane = False`.
    n : int
        Number of items to choose, at least 1. It is larger than the number requested if a diverse subset is
        to be taken from the choice.
    exclude : array of int64, ascending, without repeats
        Ids that must not be selected; ids that are not in the pool are ignored.
    seed : int
        Seed of random choices in this query.
    memory : object
        Result of `QueryStrategy.remember` for an earlier hyperplane, or None.
    labels : LabeledItems
        The labels that the hyperplane was trained on.
    """

    hyperplane: Hyperplane | None
    n: int
    exclude: Ids
    seed: int
    memory: object = None
    labels: LabeledItems = NO_LABELS

    def plane(self) -> Hyperplane:
        """Return the hyperplane, or raise an InputError if there is none."""
        if self.hyperplane is None:
            raise InputError("this query strategy needs a hyperplane, got None")
        return self.hyperplane

    def allowed(self, ids: Ids) -> NDArray[np.bool_]:
        """Return a mask of shape (len(ids),): true for ids that are not excluded."""
        if not len(self.exclude):
            return np.ones(len(ids), dtype=np.bool_)
        place = np.minimum(np.searchsorted(self.exclude, ids), len(self.exclude) - 1)
        return np.not_equal(self.exclude[place], ids)


@dataclass(frozen=True, eq=False)
class Choice:
    """Result of `QueryStrategy.choose`: the fields of a `Selection` that depend on the strategy."""

    ids: Ids
    margins: NDArray[np.float64]
    scored: int
    probability: float | None = None
    parts: tuple[str, ...] = ()
    missing: int = 0

    @classmethod
    def nothing(cls) -> Choice:
        """Return an empty choice, for when no item is left."""
        return cls(np.empty(0, dtype=np.int64), np.empty(0), scored=0)


def sorted_ids(ids: Iterable[int]) -> Ids:
    """Return ids in ascending order without repeats; an array that already has this order is not copied."""
    array = ids if isinstance(ids, np.ndarray) else np.fromiter(ids, dtype=np.int64)
    array = np.asarray(array, dtype=np.int64)
    if len(array) > 1 and not (array[1:] > array[:-1]).all():
        array = np.unique(array)
    return array
