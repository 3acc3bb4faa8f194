"""What a query strategy is asked and what it answers.

A query strategy is fitted to a pool once and then shared by every session: it is immutable, and several
threads may call `select` at the same moment. What it is, is a function of its parameters (the seed is one)
and of the number of pool rows it covers, however it grew to them.
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
from closecall.core.selection.reader import Ids, PoolRows, RowReader

Arrays = dict[str, NDArray[Any]]
Progress = Callable[[int, int], None]
"""Called now and then with (rows done, rows in all); what it raises stops the work and passes through."""


class PoolExhausted(InputError):  # noqa: N818 - the field's own words
    """Every item of the pool is excluded: there is nothing left to select."""


@dataclass(frozen=True, eq=False)
class Selection:
    """A query strategy's answer.

    Parameters
    ----------
    ids : array of shape (n,), int64
        The selected items; the nearest first where the strategy looks at distances, ties by the lower id.
    margins : array of shape (n,), float64
        |wᵀx + b| of each; NaN where there is no hyperplane yet.
    seconds : float
        Wall-clock time of the whole query; of all together, where several were answered by one pass.
    scored : int
        How many items' wᵀx + b were computed for it.
    items : int
        How many items the index covers; those added to the pool later are not among them.
    probability : float or None
        The chance that a given item had of being selected, where the strategy knows it.
    parts : tuple of str
        Which part of a mixture chose each item; empty for other strategies.
    """

    ids: Ids
    margins: NDArray[np.float64]
    seconds: float
    scored: int
    items: int
    probability: float | None = None
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Request:
    """The arguments of `QueryStrategy.select`, for `QueryStrategy.select_many`."""

    hyperplane: Hyperplane | None
    n: int = 1
    exclude: Iterable[int] = ()
    seed: int = 0
    memory: object = None
    diversity: float = 0.0


@dataclass(frozen=True, eq=False)
class Query:
    """One request, checked: what `QueryStrategy.choose` works on.

    Parameters
    ----------
    hyperplane : Hyperplane or None
        None only for strategies with `needs_hyperplane = False`.
    n : int
        Items wanted, at least 1; more than were requested, where the most diverse of them are taken.
    exclude : array of int64, ascending, without repeats
        Ids never to be selected; ids the pool does not have are harmless.
    seed : int
        For whatever is random about this one call.
    memory : object
        What `QueryStrategy.remember` gave for an earlier hyperplane of the session, or None.
    """

    hyperplane: Hyperplane | None
    n: int
    exclude: Ids
    seed: int
    memory: object = None

    def plane(self) -> Hyperplane:
        """The hyperplane, for strategies that cannot do without."""
        if self.hyperplane is None:
            raise InputError("this query strategy needs a hyperplane, got None")
        return self.hyperplane

    def allowed(self, ids: Ids) -> NDArray[np.bool_]:
        """Which of `ids` are not excluded, of shape (len(ids),)."""
        if not len(self.exclude):
            return np.ones(len(ids), dtype=np.bool_)
        place = np.minimum(np.searchsorted(self.exclude, ids), len(self.exclude) - 1)
        return np.not_equal(self.exclude[place], ids)


@dataclass(frozen=True, eq=False)
class Choice:
    """What `QueryStrategy.choose` found: `Selection` without the bookkeeping."""

    ids: Ids
    margins: NDArray[np.float64]
    scored: int
    probability: float | None = None
    parts: tuple[str, ...] = ()

    @classmethod
    def nothing(cls) -> Choice:
        """No item is left."""
        return cls(np.empty(0, dtype=np.int64), np.empty(0), scored=0)


class QueryStrategy(ABC):
    """Picks the next items to label.

    A new strategy is a class with a `name`, an `__init__` that only assigns its keyword parameters, and a
    `choose`, which finds the pool in `pool_` and reads margins by `reader_`. If parameters can be bad ones,
    `check` says so. One that prepares something also has `prepare` (and `grow`, where that is cheaper than
    preparing again), and `arrays` and `restore` if that something is worth saving.
    """

    name: ClassVar[str]
    needs_hyperplane: ClassVar[bool] = True
    query_params: ClassVar[frozenset[str]] = frozenset()
    """Parameters that only queries look at: strategies that differ in no others can share an index."""

    pool_: PoolRows
    reader_: RowReader

    def __init__(self, *, random_state: int = 0) -> None:
        self.random_state = random_state

    @abstractmethod
    def choose(self, query: Query) -> Choice:
        """The items for one query.

        At most `query.n`, and fewer only where the pool has fewer that are not excluded; empty if it has
        none. Called from several threads at once.
        """

    def choose_many(self, queries: Sequence[Query]) -> list[Choice]:
        """What `choose` gives for each query; for strategies that answer many together at less cost."""
        return [self.choose(query) for query in queries]

    def check(self) -> None:  # noqa: B027
        """Raise an InputError where the parameters make no sense; called before anything is built."""

    def prepare(self, pool: PoolRows, progress: Progress | None) -> None:  # noqa: B027
        """Build what queries need. `fit` calls it once, before the strategy is shared."""

    def grow(self, old: Self, pool: PoolRows, progress: Progress | None) -> None:  # noqa: ARG002
        """As `prepare`, from `old`, which covers the first rows of `pool`. The result must be the same."""
        self.prepare(pool, progress)

    def arrays(self) -> Arrays:
        """What `prepare` built, by name, for `save`."""
        return {}

    def restore(self, arrays: Arrays) -> None:  # noqa: B027
        """Take over what `arrays` gave, memory-mapped and checked, instead of `prepare`."""

    @property
    def index_name(self) -> str:
        """The name of the strategy whose index it asks: its own, if it doesn't ask another's.

        That strategy, made with `index_params`, builds the index, and both can share it.
        """
        return self.name

    @property
    def n_items(self) -> int:
        """How many rows of the pool this index covers."""
        return len(self.pool_)

    @classmethod
    def param_names(cls) -> list[str]:
        """The names of `__init__`'s parameters; each is an attribute, too."""
        return list(inspect.signature(cls).parameters)

    def params(self) -> dict[str, Any]:
        """The parameters given to `__init__`, by name."""
        return {name: getattr(self, name) for name in self.param_names()}

    def index_params(self) -> dict[str, Any]:
        """`params` without the `query_params`: what the index is a function of, beside the pool."""
        return {name: value for name, value in self.params().items() if name not in self.query_params}

    def fit(self, pool: PoolRows, *, progress: Progress | None = None) -> Self:
        """Prepare for queries over every row of `pool`."""
        if not len(pool):
            raise InputError(f"{self.name} needs a pool with at least one item, got an empty one")
        if self.random_state < 0:
            raise InputError(f"random_state must be at least 0, got {self.random_state}")
        self.check()
        self._cover(pool)
        self.prepare(pool, progress)
        return self

    def extended(self, pool: PoolRows, *, progress: Progress | None = None) -> Self:
        """A new strategy over a later snapshot of the same pool; this one stays as it is.

        Raises
        ------
        InputError
            If `pool` is not a continuation of this strategy's pool.
        """
        n = self.n_items
        if len(pool) < n or not np.array_equal(pool.ids[:n], self.pool_.ids[:n]):
            raise InputError(
                f"{self.name} covers {n} rows, which the pool of {len(pool)} rows does not begin with"
            )
        later = type(self)(**self.params())
        later._cover(pool)
        later.grow(self, pool, progress)
        return later

    def sharing(self, other: QueryStrategy) -> Self:
        """Instead of `fit`: cover what `other` covers, with the index that it has.

        Raises
        ------
        InputError
            If the two differ in `index_name` or `index_params`.
        """
        if (self.index_name, self.index_params()) != (other.index_name, other.index_params()):
            raise InputError(
                f"{self.name} with {self.index_params()} cannot share the index of {other.name} "
                f"with {other.index_params()}"
            )
        return self.restored(other.pool_, other.arrays())

    def restored(self, pool: PoolRows, arrays: Arrays) -> Self:
        """Instead of `fit`: cover `pool` with the index of which these are the `arrays`."""
        self.check()
        self._cover(pool)
        self.restore(arrays)
        return self

    def select(
        self,
        hyperplane: Hyperplane | None,
        n: int = 1,
        *,
        exclude: Iterable[int] = (),
        seed: int = 0,
        memory: object = None,
        diversity: float = 0.0,
    ) -> Selection:
        """The `n` items to label next, or as many as are left.

        Parameters
        ----------
        hyperplane : Hyperplane or None
            The current classifier; None, before there is one, only for strategies that do without.
        n : int
            How many items.
        exclude : int64 array or iterable of ids
            Items that must not be selected; a sorted array without repeats is taken as it is.
        seed : int
            The same seed and arguments give the same answer.
        memory : object
            What `remember` gave for an earlier hyperplane; strategies without use for it ignore it.
        diversity : float, 0 … 1
            How far apart the items must be, where n > 1: the angle between any two is at least this share of
            the median angle between two items of the pool. 0 takes items however alike; 0.7 lets few variants
            of one photograph through. They are chosen among the 10 n that come first without diversity, and
            stay in that order; where too few of these are far enough apart, the least alike join them (see
            `core.selection.diversity`).

        Raises
        ------
        PoolExhausted
            If no item is left.
        InputError
            If the hyperplane is missing or has another number of features than the pool.
        """
        (selection,) = self.select_many([Request(hyperplane, n, exclude, seed, memory, diversity)])
        if selection is None:
            raise PoolExhausted(f"Pool exhausted: 0 available, {n} requested")
        return selection

    def select_many(self, requests: Sequence[Request]) -> list[Selection | None]:
        """What `select` gives for each request; None where no item is left.

        Strategies that can answer several concepts or annotators by one pass over the pool do.

        Raises
        ------
        InputError
            If one of the requests is a bad one; then none is answered.
        """
        start = perf_counter()
        queries = [self._query(request) for request in requests]
        choices = self.choose_many(queries)
        final = [self._final(*pair) for pair in zip(choices, requests, strict=True)]
        seconds = perf_counter() - start
        return [
            Selection(
                ids=choice.ids,
                margins=choice.margins,
                seconds=seconds,
                scored=choice.scored,
                items=self.n_items,
                probability=choice.probability,
                parts=choice.parts,
            )
            if len(choice.ids)
            else None
            for choice in final
        ]

    def remember(self, hyperplanes: Sequence[Hyperplane]) -> list[object]:
        """For each hyperplane what a session may give as `memory` when it asks with a later, similar one.

        It makes that query cheaper, never different in kind. It may take as long as a full scan, one pass for
        all of them, and belongs into the background. None where the strategy has no use for it.
        """
        return [None for _ in hyperplanes]

    def save(self, folder: Path | str) -> None:
        """Write parameters and arrays to `folder`, checksummed, replacing what is there."""
        header = {
            "strategy": self.name,
            "params": self.params(),
            **header_of(self.pool_),
        }
        write_index(Path(folder), header, self.arrays())

    @classmethod
    def load(cls, folder: Path | str, pool: PoolRows) -> Self:
        """The strategy saved in `folder`, over the rows of `pool` that it covered; arrays stay on disk.

        Raises
        ------
        InputError
            If the folder is damaged, holds another strategy, or was made for another pool.
        """
        header, arrays = read_index(Path(folder))
        if header["strategy"] != cls.name:
            raise InputError(f"{folder} holds an index for {header['strategy']}, not for {cls.name}")
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
        return Query(hyperplane, wanted, sorted_ids(request.exclude), request.seed % 2**63, request.memory)

    def _final(self, choice: Choice, request: Request) -> Choice:
        """The choice that answers the request, of one that may hold more items."""
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
    """Whether more items are looked for than are wanted."""
    return request.n > 1 and request.diversity > 0


def sorted_ids(ids: Iterable[int]) -> Ids:
    """Ids in ascending order, without repeats; an array that is so already is taken as it is."""
    array = ids if isinstance(ids, np.ndarray) else np.fromiter(ids, dtype=np.int64)
    array = np.asarray(array, dtype=np.int64)
    if len(array) > 1 and not (array[1:] > array[:-1]).all():
        array = np.unique(array)
    return array
