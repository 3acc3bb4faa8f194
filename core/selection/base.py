"""Base class of query strategies.

A query strategy is fitted to a pool once and then shared by all sessions. It is immutable, so several threads
may call `select` at once. A fitted strategy depends only on its parameters, including the seed, and on the
rows of the pool that it covers. It does not matter in how many steps these rows were added to the pool.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection.diversity import AHEAD, diverse, typical_angle
from closecall.core.selection.files import covered_rows, header_of, read_index, write_index
from closecall.core.selection.former import strategy_of
from closecall.core.selection.reader import PoolRows, RowReader
from closecall.core.selection.requests import (
    NO_LABELS,
    Choice,
    LabeledItems,
    PoolExhausted,
    Query,
    Request,
    SearchIncomplete,
    Selection,
    sorted_ids,
)

Arrays = dict[str, NDArray[Any]]
Progress = Callable[[int, int], None]
"""Callback for progress: takes the number of rows done and the total number of rows.

An exception that the callback raises stops the work.
"""


@dataclass(frozen=True)
class Cost:
    """Estimated cost of preparing a strategy.

    Parameters
    ----------
    seconds : float
        Elapsed time if all processors of this machine are used.
    n_bytes : int
        Memory of the index, in bytes.
    """

    seconds: float
    n_bytes: int


class QueryStrategy(ABC):
    """Base class of query strategies, which select the next items to label.

    A strategy is a subclass with a `name`, an `__init__` that only assigns its keyword parameters, and a
    `choose` that accesses the pool as `pool_` and computes margins with `reader_`. `check` validates the
    parameters. A strategy with an index builds it in `prepare`. It overrides `grow` if extending the index is
    cheaper than rebuilding it, and `arrays` and `restore` if the index is worth saving.
    """

    name: ClassVar[str]
    about: ClassVar[str] = ""
    """What the strategy selects, in one line, as pages show it; "" if the strategy does not say."""
    needs_hyperplane: ClassVar[bool] = True
    query_params: ClassVar[frozenset[str]] = frozenset()
    """Parameters that only queries use. Strategies that differ in no other parameter can share an index."""

    pool_: PoolRows
    reader_: RowReader
    _thrifty: QueryStrategy | None = None
    _certain: QueryStrategy | None = None
    _alone: QueryStrategy | None = None

    def __init__(self, *, random_state: int = 0) -> None:
        self.random_state = random_state

    @abstractmethod
    def choose(self, query: Query) -> Choice:
        """Choose the items for one query.

        If fewer than `query.n` items remain after exclusion, all remaining items are chosen. Several threads
        may call this method at once.
        """

    def choose_many(self, queries: Sequence[Query]) -> list[Choice]:
        """Return the result of `choose` for each query; override if answering queries together is cheaper."""
        return [self.choose(query) for query in queries]

    def check(self) -> None:  # noqa: B027
        """Raise an InputError if the parameters are invalid; called before anything is built."""

    def check_pool(self, pool: PoolRows) -> None:  # noqa: B027
        """Raise an InputError if the strategy can't be used on the pool; called before anything is built."""

    def cost(self, pool: PoolRows) -> Cost | None:  # noqa: ARG002
        """Return the estimated cost of `prepare`; None if it takes only seconds.

        `check_pool` must have accepted the pool.
        """
        return None

    def prepare(self, pool: PoolRows, progress: Progress | None) -> None:  # noqa: B027
        """Build the index for queries, if there is one. `fit` calls this method once."""

    def grow(self, old: Self, pool: PoolRows, progress: Progress | None) -> None:  # noqa: ARG002
        """Build the same index as `prepare`, by extending `old`, which covers the first rows of `pool`."""
        self.prepare(pool, progress)

    def arrays(self) -> Arrays:
        """Return the arrays built by `prepare`, by name, for `save`."""
        return {}

    def restore(self, arrays: Arrays) -> None:  # noqa: B027
        """Restore the index from the arrays that the method `arrays` returned.

        Arrays loaded from disk are memory-mapped, and their checksums have been verified.
        """

    @property
    def index_name(self) -> str:
        """Name of the strategy whose index this strategy uses; by default, the name of this strategy.

        Two strategies with the same `index_name` and `index_params` can share an index.
        """
        return self.name

    @property
    def n_items(self) -> int:
        """Number of rows of the pool that the index covers."""
        return len(self.pool_)

    @classmethod
    def param_names(cls) -> list[str]:
        """Return the names of the parameters of `__init__`, each of which is also an attribute."""
        return list(inspect.signature(cls).parameters)

    def params(self) -> dict[str, Any]:
        """Return the parameters given to `__init__`, by name."""
        return {name: getattr(self, name) for name in self.param_names()}

    def index_params(self) -> dict[str, Any]:
        """Return the parameters that the index depends on: `params` without the `query_params`."""
        return {name: value for name, value in self.params().items() if name not in self.query_params}

    def fit(self, pool: PoolRows, *, progress: Progress | None = None) -> Self:
        """Prepare for queries over every row of `pool`.

        Raises
        ------
        InputError
            If the pool is empty, if the strategy can't be used on it, or if a parameter is invalid.
        """
        if not len(pool):
            raise InputError(f"{self.name} needs a pool with at least one item, got an empty one")
        if self.random_state < 0:
            raise InputError(f"random_state must be at least 0, got {self.random_state}")
        self.check()
        self.check_pool(pool)
        self._cover(pool)
        self.prepare(pool, progress)
        return self

    def extended(self, pool: PoolRows, *, progress: Progress | None = None) -> Self:
        """Return a new strategy over a later snapshot of the same pool, without changing this strategy.

        Raises
        ------
        InputError
            If `pool` does not start with the rows that this strategy covers.
        """
        n = self.n_items
        if len(pool) < n or not np.array_equal(pool.ids[:n], self.pool_.ids[:n]):
            raise InputError(
                f"{self.name} covers {n} rows, but the pool of {len(pool)} rows does not start with them"
            )
        later = type(self)(**self.params())
        later._cover(pool)
        later.grow(self, pool, progress)
        return later

    def sharing(self, other: QueryStrategy) -> Self:
        """Use the pool and index of `other`, instead of calling `fit`.

        Raises
        ------
        InputError
            If the two strategies differ in `index_name` or `index_params`.
        """
        if (self.index_name, self.index_params()) != (other.index_name, other.index_params()):
            raise InputError(
                f"{self.name} with {self.index_params()} cannot share the index of {other.name} "
                f"with {other.index_params()}"
            )
        return self.restored(other.pool_, other.arrays())

    def restored(self, pool: PoolRows, arrays: Arrays) -> Self:
        """Use the index in `arrays`, which was built over `pool`, instead of calling `fit`."""
        self.check()
        self._cover(pool)
        self.restore(arrays)
        return self

    def thrifty(self) -> QueryStrategy:
        """Return a variant of this strategy that uses the same index but scores fewer rows.

        A server selects with the variant when time is short. The two strategies have the same name, and
        differ only in `thrifty_params`. If there is no variant, return this strategy.
        """
        changes = self.thrifty_params()
        if not changes:
            return self
        if self._thrifty is None:
            self._thrifty = type(self)(**{**self.params(), **changes}).sharing(self)
        return self._thrifty

    def thrifty_params(self) -> dict[str, Any]:
        """Return the parameters that `thrifty` changes, with their new values; none by default.

        All these parameters must be `query_params`. Override this method if a query can be given a smaller
        budget of rows.
        """
        return {}

    def certain(self) -> QueryStrategy:
        """Return a variant of this strategy that uses the same index, but searches all rows without it.

        A server selects with the variant while a device scans the pool (`core.accelerator`). The two
        strategies have the same name, and differ only in `certain_params`. If there is no variant, return
        this strategy.
        """
        changes = self.certain_params()
        if not changes:
            return self
        if self._certain is None:
            self._certain = type(self)(**{**self.params(), **changes}).sharing(self)
        return self._certain

    def alone(self) -> QueryStrategy:
        """Return this strategy over the same pool, searched by this process alone; see `Pool.alone`."""
        pool = self.pool_.alone()
        if pool is self.pool_:
            return self
        if self._alone is None:
            self._alone = type(self)(**self.params()).restored(pool, self.arrays())
        return self._alone

    def certain_params(self) -> dict[str, Any]:
        """Return the parameters that `certain` changes, with their new values; none by default.

        All these parameters must be `query_params`. Override this method if an index can miss rows.
        """
        return {}

    def select(
        self,
        hyperplane: Hyperplane | None,
        n: int = 1,
        *,
        exclude: Iterable[int] = (),
        seed: int = 0,
        memory: object = None,
        diversity: float = 0.0,
        labels: LabeledItems = NO_LABELS,
    ) -> Selection:
        """Select the `n` items to label next, or fewer if fewer are left.

        Parameters
        ----------
        hyperplane : Hyperplane or None
            The current classifier. It may be None only for strategies with `needs_hyperplane` = False.
        n : int
            Number of items.
        exclude : int64 array or iterable of ids
            Items that must not be selected; an ascending array without repeats is not copied.
        seed : int
            Seed of random choices. The same seed and arguments give the same selection.
        memory : object
            Result of `remember` for an earlier hyperplane; ignored by strategies that have no use for it.
        diversity : float, 0 to 1
            Minimum angle between any two selected items, as a fraction of the median angle between two items
            of the pool; ignored if n is 1. 0 allows identical items; 0.7 excludes most variants of one
            photograph. The strategy chooses 10 n items, and n of these are selected, in the strategy's order.
            If too few of the 10 n items are far enough apart, the selection is filled up with items that are
            as far apart as possible (see `core.selection.diversity`).
        labels : LabeledItems
            The labels that the hyperplane was trained on, for strategies that depend on them.

        Returns
        -------
        Selection

        Raises
        ------
        PoolExhausted
            If no item is left.
        InputError
            If the hyperplane is missing or has a different number of features than the pool, or `n` or
            `diversity` is out of range.
        """
        request = Request(hyperplane, n, exclude, seed, memory, diversity, labels)
        (selection,) = self.select_many([request])
        if selection is None:
            raise PoolExhausted(f"Pool exhausted: 0 available, {n} requested")
        return selection

    def select_many(self, requests: Sequence[Request]) -> list[Selection | None]:
        """Return the result of `select` for each request; None for a request that excludes all items.

        Some strategies answer all requests, such as those of several annotators, in one pass over the pool.

        Raises
        ------
        InputError
            If a request is invalid; then no request is answered.
        SearchIncomplete
            If nothing was found for a request, because workers did not answer in time.
        """
        start = perf_counter()
        queries = [self._query(request) for request in requests]
        choices = self.choose_many(queries)
        final = [self._final(*pair) for pair in zip(choices, requests, strict=True)]
        seconds = perf_counter() - start
        if any(choice.missing and not len(choice.ids) for choice in final):
            raise SearchIncomplete("Workers did not answer in time, so nothing was found: try again")
        return [
            Selection(
                ids=choice.ids,
                margins=choice.margins,
                seconds=seconds,
                scored=choice.scored,
                items=self.n_items,
                probability=choice.probability,
                parts=choice.parts,
                missing=choice.missing,
            )
            if len(choice.ids)
            else None
            for choice in final
        ]

    def remember(self, hyperplanes: Sequence[Hyperplane]) -> list[object]:
        """Return, for each hyperplane, the `memory` for later queries with similar hyperplanes.

        The memory makes these queries cheaper and does not change their guarantees. It is None if the
        strategy does not use `memory`. This method may take as long as a full scan of the pool, so call it in
        the background.
        """
        return [None for _ in hyperplanes]

    def save(self, folder: Path | str) -> None:
        """Replace the content of `folder` by the parameters and arrays, with checksums."""
        header = {
            "strategy": self.name,
            "params": self.params(),
            **header_of(self.pool_),
        }
        write_index(Path(folder), header, self.arrays())

    @classmethod
    def load(cls, folder: Path | str, pool: PoolRows) -> Self:
        """Load the strategy saved in `folder`.

        The loaded strategy covers the same rows as the saved strategy: the first rows of `pool`. Arrays are
        memory-mapped.

        Raises
        ------
        InputError
            If the folder has no index, is damaged, or contains another strategy, or if the index was made for
            another pool or by another version.
        """
        header, arrays = read_index(Path(folder))
        if (name := strategy_of(header)) != cls.name:
            raise InputError(f"{folder} has an index for {name}, not for {cls.name}")
        covered = covered_rows(Path(folder), header, pool)
        try:
            return cls(**header["params"]).restored(covered, arrays)
        except (KeyError, TypeError) as error:
            raise InputError(f"{folder} was made by another version: build the index again") from error

    def _query(self, request: Request) -> Query:
        n, hyperplane = request.n, request.hyperplane
        if n < 1:
            raise InputError(f"n must be at least 1, got {n}")
        if not 0 <= request.diversity <= 1:
            raise InputError(f"diversity must be from 0 to 1, got {request.diversity}")
        if hyperplane is None and self.needs_hyperplane:
            raise InputError(f"{self.name} needs a hyperplane, got None: select at random until there is one")
        if hyperplane is not None and len(hyperplane.normal) != self.pool_.n_features:
            given, own = len(hyperplane.normal), self.pool_.n_features
            raise InputError(f"the hyperplane has {given} features, the pool's rows have {own}")
        wanted = AHEAD * n if _thins(request) else n
        return Query(
            hyperplane,
            wanted,
            sorted_ids(request.exclude),
            request.seed % 2**63,
            request.memory,
            request.labels,
        )

    def _final(self, choice: Choice, request: Request) -> Choice:
        """Return the choice for the request, reduced to a diverse subset if the request asks for one."""
        if not _thins(request) or not len(choice.ids):
            return choice
        X = self.pool_.rows(np.searchsorted(self.pool_.ids, choice.ids))
        kept = diverse(X, request.n, request.diversity * typical_angle(self.pool_))
        return replace(
            choice,
            ids=choice.ids[kept],
            margins=choice.margins[kept],
            probability=None,
            parts=tuple(choice.parts[place] for place in kept) if choice.parts else (),
        )

    def _cover(self, pool: PoolRows) -> None:
        self.pool_ = pool
        self.reader_ = RowReader(pool)


def _thins(request: Request) -> bool:
    """Return whether a diverse subset is to be taken from a larger choice."""
    return request.n > 1 and request.diversity > 0
