"""The search methods of Find similar, their indexes built in the background, and checks of their recall.

An index is immutable, and belongs to one snapshot of the pool and one metric. Until it is ready, the exact
scan is used instead. When the pool has grown, the index stays in use until an extended index replaces it;
`app.indexes.strategies.is_due` says when to extend it. Indexes are saved on disk (`app.indexes.saved`). When
a newer metric replaces a metric, the indexes for the old metric are dropped from memory.

**Abandoned builds.** Each request names a `Waiter`, such as a session's view. A build ends early when no
waiter needs its result, because all waiters have changed their settings or have left the project. If the
codes are complete by then, they are kept; incomplete codes are dropped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Hashable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from closecall.app.display.strategy_labels import FAMILY_LABELS
from closecall.app.indexes.build_time import BuildTime, crowding
from closecall.app.indexes.codes import taught_by
from closecall.app.indexes.estimates import Estimates
from closecall.app.indexes.metric import LearnedMetric, Learning
from closecall.app.indexes.recipe import Recipe
from closecall.app.indexes.saved import KEPT_CODES, Coded, Kept, Wanted, is_outgrown
from closecall.app.indexes.settings import EXACT, OFFERED
from closecall.app.indexes.strategies import is_due
from closecall.app.runtime import kernels
from closecall.app.runtime.background import AbandonedError, Fitting, Troubles, Workers
from closecall.core.errors import InputError
from closecall.core.hashing import FAMILIES, SimilarityHasher
from closecall.core.mercer.kernel import OF_HISTOGRAMS, Cosine
from closecall.core.numerics.interruption import interruptible
from closecall.core.numerics.rows import Rows
from closecall.core.similar import ByAngle, ExactSearch, Neighbours, SimilaritySearch

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from closecall.app.engine.concept import LiveConcept
    from closecall.core.pool.pool import Pool
    from closecall.storage import Labels

METHODS: Mapping[str, str] = MappingProxyType(
    {
        "exact": "Exact scan",
        "scan": "Hashing, Hamming scan",
        "table": "Hashing, one large table",
        "tables": "Hashing, bucket tables",
        "orders": "Hashing, permuted orders",
        "ball": "Hashing, Hamming ball",
    }
)
"""Display names of the methods."""

CODES: Mapping[str, str] = MappingProxyType({name: FAMILY_LABELS.get(name, name) for name in OFFERED})
"""Display names of the hash families."""

KERNELS: Mapping[str, str] = MappingProxyType(
    {"chi2": "χ²", "intersection": "Intersection", "cosine": "Cosine", "rbf": "RBF"}
)
"""Display names of the kernels."""


def label_of(recipe: Recipe) -> str:
    """Return the display name of a recipe's method, with form and number of bits unless they are defaults."""
    parts = [recipe.form] if recipe.form else []
    if recipe.functions is not None or recipe.bits is not None:
        parts.append(f"{recipe.n_bits} bits")
    return METHODS[recipe.structure] + (f" ({', '.join(parts)})" if parts else "")


KEPT_SEARCHES = 6
"""Number of searches over the same codes that are kept in memory."""

K = TypeVar("K", bound=Hashable)


class Waiter(Protocol):
    """An object, such as a session's view, that waits for searches to be ready."""

    def awaited(self) -> Collection[tuple[Recipe, LearnedMetric | None]]:
        """Return the recipes and metrics of the searches that this object waits for or uses. Thread-safe."""


@dataclass(frozen=True, eq=False)
class Method:
    """A search method that can search now.

    Until the requested method is ready, this is the exact scan.

    Parameters
    ----------
    search : SimilaritySearch
        The search.
    params : mapping
        Parameters that are needed to repeat the search, besides the query.
    awaited : dict or None
        None if this is the requested method. Otherwise, facts about the requested method: its `label`, the
        finished `share` of its preparation, 0 … 1, and a `problem` or None.
    recipe : Recipe
        Settings of the search.
    """

    search: SimilaritySearch
    params: Mapping[str, Any] = field(default_factory=dict)
    awaited: dict[str, Any] | None = None
    recipe: Recipe = field(default_factory=Recipe)

    @property
    def name(self) -> str:
        """The method's name; "exact" if the exact scan is used until another method is ready."""
        return self.search.name

    @property
    def label(self) -> str:
        """The method's display name."""
        return label_of(self.recipe)

    @property
    def taught(self) -> dict[str, Any] | None:
        """How many answers the codes learned from, or None if they don't learn from answers.

        The value of "used" is the number of answers that the codes learned from, and "of" the number of all
        answers at that time. If a kernel was learned, "pairs" is the number of pairs that it learned from,
        and "paired" the number of answers that form these pairs. Otherwise both are None.
        """
        return taught_by(self.params)


class Checked:
    """The recall of a search with the result `found`, determined by an exact scan in the background."""

    def __init__(self, found: Neighbours, n: int, job: Future[Neighbours] | None) -> None:
        self.found = found
        self._n = n
        self._job = job

    @property
    def is_done(self) -> bool:
        """Return whether the exact scan has ended."""
        return self._job is None or self._job.done()

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for the exact scan; return whether it has ended."""
        event = threading.Event()
        if self._job is not None:
            self._job.add_done_callback(lambda _: event.set())
            event.wait(seconds)
        return self.is_done

    def state(self) -> dict[str, Any]:
        """Return the recall of the `n` nearest items, 0 … 1, and the scan's time in ms. Both may be None."""
        if self._job is None:
            return {"recall": 1.0, "exact_ms": 1000 * self.found.seconds}
        if not self._job.done() or self._job.cancelled() or self._job.exception() is not None:
            return {"recall": None, "exact_ms": None}
        exact = self._job.result()
        nearest = set(exact.ids[: self._n].tolist())
        hits = len(nearest.intersection(self.found.ids[: self._n].tolist()))
        return {"recall": hits / max(1, len(nearest)), "exact_ms": 1000 * exact.seconds}


@dataclass(eq=False)
class _Index(Fitting):
    """An index of the pool under one metric: its codes, and the searches over them that were used last.

    Attributes
    ----------
    waiters : WeakSet of Waiter
        The waiters that requested a search over these codes.
    is_unconditional : bool
        Whether a search was requested without a waiter. If so, no build of this index is abandoned.
    """

    coded: Coded | None = None
    methods: Mapping[Recipe, Method] = field(default_factory=dict)
    seconds: float = 0.0
    waiters: WeakSet[Waiter] = field(default_factory=WeakSet)
    is_unconditional: bool = False


class Similar:
    """A project's search for similar items: indexes and learned metrics.

    Parameters
    ----------
    pool : callable
        Returns the newest snapshot of the pool, or None while the pool has no items.
    folder : Path
        Folder of the saved indexes.
    labels : callable
        Returns a concept's labels up to a log position; see `LabelLog.labels`.
    alone : bool
        Whether no other process writes to `folder`; see `Kept`.
    """

    def __init__(
        self,
        pool: Callable[[], Pool | None],
        folder: Path,
        labels: Callable[[int, int], Labels],
        *,
        alone: bool = True,
    ) -> None:
        self.estimates = Estimates(pool)
        """Estimates of the building time of indexes, and of settings that suit the pool."""
        self._saves = Kept(folder, labels, alone=alone)
        self._pool = pool
        self._learnings: dict[int, Learning] = {}
        self._exact: ExactSearch | None = None
        self._plain: dict[tuple[Recipe, int | None], _Index] = {}
        self._learned: WeakKeyDictionary[LearnedMetric, dict[Recipe, _Index]] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._troubles = Troubles()
        self._learner = Workers(1, "similar-learn", "Learning a metric", self._troubles)
        self._builder = Workers(1, "similar-build", "Preparing Find similar", self._troubles)
        self._checker = Workers(1, "similar-check", "Checking Find similar", self._troubles)

    @property
    def methods(self) -> Mapping[str, str]:
        """Return a mapping from the names of the search methods to their display names."""
        return METHODS

    @property
    def problem(self) -> str | None:
        """Return a sentence about a current problem of the background work, or None."""
        return self._troubles.first

    def close(self) -> None:
        """Stop the background work and wait for its end."""
        executors = (self._learner, self._builder, self._checker)
        for executor in executors:
            executor.shutdown(wait=False, cancel_futures=True)
        for executor in executors:
            executor.shutdown()

    def learning(self, concept: LiveConcept) -> Learning:
        """Return the learner of the concept's metric."""
        with self._lock:
            number = concept.record.id
            if number not in self._learnings:
                self._learnings[number] = Learning(self._learner)
            return self._learnings[number]

    @property
    def codes(self) -> Mapping[str, str]:
        """Return the hash families that suit the pool's items, as a mapping from names to display names."""
        pool = self._pool()
        own = ("all", "sparse" if pool is not None and pool.is_sparse else "dense")
        return {name: label for name, label in CODES.items() if FAMILIES[name].takes in own}

    @property
    def kernels(self) -> Mapping[str, str]:
        """Return the kernels that suit the pool's features, as a mapping from names to display names."""
        unsuitable = OF_HISTOGRAMS if self.estimates.has_negatives else ()
        return {word: label for word, label in KERNELS.items() if word not in unsuitable}

    def with_suitable_kernel(self, recipe: Recipe) -> Recipe:
        """Return the recipe, with the cosine instead of a kernel that does not suit the pool's features."""
        word = (recipe.value("kernel") or "").partition(":")[0]
        return recipe if not word or word in self.kernels else recipe.having(kernel=Cosine.word)

    def method(
        self,
        recipe: Recipe,
        pool: Pool,
        metric: LearnedMetric | None,
        concept: LiveConcept,
        waiter: Waiter | None = None,
    ) -> Method:
        """Return a method that can search now, and start to build or extend the requested index if necessary.

        Until the requested method is ready, the result is the exact scan. Codes that learn from answers use
        answers about `concept`. They are learned again when there are `app.indexes.strategies.GROWTH` times
        as many answers as they learned from. A build ends early if none of the waiters that requested it
        still needs it. If a request has no `waiter`, the build never ends early.
        """
        exact = metric.exact if metric is not None else self._exact_scan(pool)
        if recipe.structure == EXACT:
            return Method(exact)
        if metric is not None:
            pool, recipe = metric.pool, recipe.under_metric
        is_taught = metric is None and recipe.learns
        labels = concept.standing().labels if is_taught else None
        wanted = Wanted(recipe, pool, concept.record.id, metric, labels)
        with self._lock:
            index = self._kept(wanted)
            if waiter is None:
                index.is_unconditional = True
            else:
                index.waiters.add(waiter)
            method = index.methods.get(recipe)
            is_behind = method is None or _is_behind(method, index, pool, labels)
            label = label_of(recipe)
            if is_behind and not index.is_under_way:
                given = recipe, len(pool), None if labels is None else labels.through
                index.request(self._builder, f"{label} can't be prepared", given, self._build, index, wanted)
            if method is not None:
                return method
            problem = None if index.is_under_way else index.failure
            return Method(exact, awaited={"label": label, "share": index.share, "problem": problem})

    def seconds(self, recipe: Recipe, concept: LiveConcept) -> float | None:
        """Return the seconds that building a recipe's codes took, or None if the codes aren't in memory.

        Codes under a learned metric are ignored.
        """
        with self._lock:
            index = self._plain.get((recipe.codes, concept.record.id if recipe.learns else None))
            return None if index is None or index.coded is None else index.coded.seconds

    def agreeing(self, recipe: Recipe) -> SimilarityHasher | None:
        """Return a recipe's fitted hash family if it is in memory, otherwise use `Estimates.family`."""
        with self._lock:
            index = self._plain.get((recipe.codes, None))
            if index is not None and index.coded is not None:
                return index.coded.hasher
        return self.estimates.family(recipe)

    def build_time(
        self, recipe: Recipe, concept: LiveConcept, metric: LearnedMetric | None = None
    ) -> BuildTime | None:
        """Estimate the time to build a recipe's index, under `metric` if given (`Estimates.build_time`)."""
        n_labels = len(concept.standing().labels) if metric is None and recipe.learns else 0
        try:
            family = self.agreeing(recipe)
        except InputError:
            return None
        return self.estimates.build_time(recipe, n_labels, family)

    def check(
        self, search: SimilaritySearch, found: Neighbours, n: int, queries: Rows, exclude: NDArray[np.int64]
    ) -> Checked:
        """Start an exact scan for the `n` nearest items in the background, unless `search` is exact."""
        if isinstance(search, ExactSearch):
            return Checked(found, n, None)
        exact = ExactSearch(search.nearness)
        return Checked(found, n, self._checker.submit(exact.neighbours, queries, n, exclude=exclude))

    def _exact_scan(self, pool: Pool) -> ExactSearch:
        with self._lock:
            if self._exact is None or self._exact.pool is not pool:
                self._exact = ExactSearch(ByAngle(pool))
            return self._exact

    def _kept(self, wanted: Wanted) -> _Index:
        """Return the index of these codes; create it if there is none. The caller holds the lock."""
        codes = wanted.recipe.codes
        if wanted.metric is not None:
            return _newest(self._learned.setdefault(wanted.metric, {}), codes)
        key = codes, None if wanted.labels is None else wanted.concept
        if next(reversed(self._plain), None) != key:
            self._saves.touch(wanted.word)
        return _newest(self._plain, key)

    def _build(self, index: _Index, wanted: Wanted) -> None:
        recipe, metric = wanted.recipe, wanted.metric

        def go_on(recipe: Recipe) -> None:
            self._builder.go_on()
            self._require_waiter(index, recipe, metric)

        def advanced(done: int, of: int) -> None:
            go_on(recipe.codes)
            index.share = done / of

        coded, methods, is_abandoned = index.coded, dict[Recipe, Method](), False
        go_on(recipe)
        kernels.wait_for("everything")
        go_on(recipe)
        started, crowded = time.perf_counter(), crowding()
        try:
            with interruptible(partial(go_on, recipe.codes)):
                coded = self._saves.coded(wanted, index.coded, advanced)
            if coded.is_new and coded is not index.coded:
                self.estimates.learn(recipe, coded, crowded)
            go_on(recipe)
            with interruptible(partial(go_on, recipe)):
                methods[recipe] = Method(*self._saves.search(wanted, coded), recipe=recipe)
        except AbandonedError:
            is_abandoned = True
            raise
        finally:
            # Even if this structure can't be built or was abandoned, other structures can use the codes.
            if not is_abandoned or coded is not index.coded:
                with self._lock:
                    others = dict(index.methods) if coded is index.coded else {}
                    others.pop(recipe, None)
                    newest = list(others.items())[-KEPT_SEARCHES + 1 :]
                    index.coded, index.methods = coded, {**dict(newest), **methods}
                    index.seconds = time.perf_counter() - started

    def _require_waiter(self, index: _Index, recipe: Recipe, metric: LearnedMetric | None) -> None:
        """Raise AbandonedError if no waiter that requested the index still needs this search.

        If `recipe` describes only codes (`Recipe.codes`), it suffices that a waiter needs some structure over
        these codes.
        """
        with self._lock:
            if index.is_unconditional:
                return
            waiters = list(index.waiters)
        for waiter in waiters:
            for own, under in waiter.awaited():
                if under is metric and recipe in (own, own.codes):
                    return
        raise AbandonedError


def _newest(indexes: dict[K, _Index], key: K) -> _Index:
    """Return the index of `key`, creating it if necessary; keep only the `KEPT_CODES` indexes used last."""
    index = indexes[key] = indexes.pop(key) if key in indexes else _Index()
    for oldest in list(indexes)[:-KEPT_CODES]:
        del indexes[oldest]
    return index


def _is_behind(method: Method, index: _Index, pool: Pool, labels: Labels | None) -> bool:
    """Return whether the index must be extended or learned again: the pool or the labels have grown."""
    learned_from = index.coded.labels if index.coded is not None else None
    return is_due(len(method.search.pool), index.seconds, pool) or is_outgrown(learned_from, labels)
