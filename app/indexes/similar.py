"""What retrieves: the methods that the page offers, their indexes built in the background, and the check.

An index is immutable, and of one snapshot of the pool and one metric. Until it is there the exact scan stands
in for it; where the pool has grown since, the index serves on until it is time to extend it, as those of the
query strategies are (`app.indexes.strategies`). It outlasts the process (`app.indexes.saved`). Of a metric
that a newer one has replaced nothing is kept.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from closecall.app.display.strategy_labels import FAMILY_LABELS
from closecall.app.indexes.codes import OFFERED, USUAL
from closecall.app.indexes.metric import LearnedMetric, Learning
from closecall.app.indexes.saved import KEPT_CODES, Coded, Kept, Wanted, is_outgrown
from closecall.app.indexes.strategies import is_due
from closecall.app.runtime import kernels
from closecall.app.runtime.background import ClosedError, Troubles, Workers
from closecall.core.errors import InputError
from closecall.core.hashing import FAMILIES
from closecall.core.numerics.rows import Rows
from closecall.core.similar import ByAngle, ExactSearch, Neighbours, SimilaritySearch
from closecall.core.similar.answers import GoOn

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from closecall.app.engine.concept import LiveConcept
    from closecall.core.pool.pool import Pool
    from closecall.storage import Labels

log = logging.getLogger(__name__)

METHODS: Mapping[str, str] = MappingProxyType(
    {
        "exact": "Exact scan",
        "scan": "Hashing, Hamming scan",
        "table": "Hashing, one large table",
        "tables": "Hashing, bucket tables",
        "orders": "Hashing, permuted orders",
    }
)
"""What the page calls each method."""

CODES: Mapping[str, str] = MappingProxyType(
    {name: f"Codes: {FAMILY_LABELS.get(name, name)}" for name in OFFERED}
)
"""What it calls the families whose codes hashing compares."""


@dataclass(frozen=True, eq=False)
class Method:
    """What answers a search now.

    Parameters
    ----------
    search : SimilaritySearch
    params : mapping
        Whatever else must be known to make the same search again.
    awaited : dict or None
        Where another method is being prepared: its `label`, the `share` that is done, 0 … 1, and what
        hinders it, as `problem`.
    """

    search: SimilaritySearch
    params: Mapping[str, Any] = field(default_factory=dict)
    awaited: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """Of what answers: "exact" where that stands in for another method."""
        return self.search.name

    @property
    def label(self) -> str:
        """As the page names it."""
        return METHODS[self.name]


class Checked:
    """The exact scan's answer to what was `found`, for comparison; it comes when it is there."""

    def __init__(self, found: Neighbours, n: int, job: Future[Neighbours] | None) -> None:
        self.found = found
        self._n = n
        self._job = job

    @property
    def is_done(self) -> bool:
        """Whether it is there."""
        return self._job is None or self._job.done()

    def wait(self, seconds: float) -> bool:
        """Until it is there, but no longer; returns whether it is."""
        event = threading.Event()
        if self._job is not None:
            self._job.add_done_callback(lambda _: event.set())
            event.wait(seconds)
        return self.is_done

    def said(self) -> dict[str, Any]:
        """The share of the nearest that was found, 0 … 1, and what the scan took; None until it is known."""
        if self._job is None:
            return {"recall": 1.0, "exact_ms": 1000 * self.found.seconds}
        if not self._job.done() or self._job.cancelled() or self._job.exception() is not None:
            return {"recall": None, "exact_ms": None}
        exact = self._job.result()
        nearest = set(exact.ids[: self._n].tolist())
        hits = len(nearest.intersection(self.found.ids[: self._n].tolist()))
        return {"recall": hits / max(1, len(nearest)), "exact_ms": 1000 * exact.seconds}


@dataclass
class _Index:
    """An index of the pool under one metric: its codes, and what was built over them, by name."""

    coded: Coded | None = None
    methods: Mapping[str, Method] = field(default_factory=dict)
    seconds: float = 0.0
    is_wanted: bool = False
    share: float = 0.0
    problem: str | None = None
    tried: tuple[int, int | None] | None = None


class Similar:
    """What a project needs to find similar items: indexes and learned metrics.

    Parameters
    ----------
    pool : callable
        Returns the newest snapshot of the pool that is searched, None before its first items.
    folder : Path
        Where indexes are kept.
    labels : callable
        Returns a concept's labels at a position of the log; see `LabelLog.labels`.
    """

    def __init__(
        self, pool: Callable[[], Pool | None], folder: Path, labels: Callable[[int, int], Labels]
    ) -> None:
        self._saves = Kept(folder, labels)
        self._pool = pool
        self._learnings: dict[int, Learning] = {}
        self._exact: ExactSearch | None = None
        self._plain: dict[tuple[str, int | None], _Index] = {}
        self._learned: WeakKeyDictionary[LearnedMetric, _Index] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._closed = False
        self._troubles = Troubles()
        self._learner = Workers(1, "similar-learn", "Learning a metric", self._troubles)
        self._builder = Workers(1, "similar-build", "Preparing Find similar", self._troubles)
        self._checker = Workers(1, "similar-check", "Checking Find similar", self._troubles)

    @property
    def methods(self) -> Mapping[str, str]:
        """What may retrieve, by name, as the page calls it."""
        return METHODS

    @property
    def problem(self) -> str | None:
        """What goes wrong in the background, in one sentence; None while all is well."""
        return self._troubles.first

    def close(self) -> None:
        """Stop what runs in the background."""
        self._closed = True
        for executor in (self._learner, self._builder, self._checker):
            executor.shutdown(cancel_futures=True)

    def learning(self, concept: LiveConcept) -> Learning:
        """What learns a metric from the concept's labels."""
        with self._lock:
            number = concept.record.id
            if number not in self._learnings:
                self._learnings[number] = Learning(self._learn)
            return self._learnings[number]

    @property
    def codes(self) -> Mapping[str, str]:
        """The families whose codes a method may compare, by name, as the page calls them."""
        pool = self._pool()
        own = ("all", "sparse" if pool is not None and pool.is_sparse else "dense")
        return {name: label for name, label in CODES.items() if FAMILIES[name].takes in own}

    def method(
        self, name: str, codes: str, pool: Pool, metric: LearnedMetric | None, concept: LiveConcept
    ) -> Method:
        """What answers a search by the method `name` and these codes now; an index that is missing is begun.

        Under a metric the codes are always the usual ones. Those that learn from answers are the concept's
        own, and are learned again when there are `GROWTH` times as many.
        """
        exact = metric.exact if metric is not None else self._exact_scan(pool)
        if name == "exact":
            return Method(exact)
        pool = metric.pool if metric is not None else pool
        is_taught = metric is None and FAMILIES[codes].needs_labels
        labels = concept.standing().labels if is_taught else None
        wanted = Wanted(USUAL if metric is not None else codes, pool, concept.record.id, metric, labels)
        with self._lock:
            index = self._kept(wanted) if metric is None else self._learned.setdefault(metric, _Index())
            method = index.methods.get(name)
            if method is None or _is_behind(method, index, pool, labels):
                self._want(index, name, wanted)
            if method is not None:
                return method
            awaited = {"label": METHODS[name], "share": index.share, "problem": index.problem}
        return Method(exact, awaited=awaited)

    def check(
        self, search: SimilaritySearch, found: Neighbours, n: int, queries: Rows, exclude: NDArray[np.int64]
    ) -> Checked:
        """Ask the exact scan for the same n, in the background, unless it was the one that answered."""
        if isinstance(search, ExactSearch):
            return Checked(found, n, None)
        exact = ExactSearch(search.nearness)
        return Checked(found, n, self._checker.submit(exact.neighbours, queries, n, exclude=exclude))

    def _exact_scan(self, pool: Pool) -> ExactSearch:
        with self._lock:
            if self._exact is None or self._exact.pool is not pool:
                self._exact = ExactSearch(ByAngle(pool))
            return self._exact

    def _learn(self, job: Callable[[GoOn], None]) -> None:
        def learn() -> None:
            kernels.wait_for("everything")
            job(self._go_on)

        self._learner.submit(learn)

    def _go_on(self) -> None:
        if self._closed:
            raise ClosedError

    def _kept(self, wanted: Wanted) -> _Index:
        """The index of these codes, begun if there is none; to be called under the lock."""
        key = wanted.family, None if wanted.labels is None else wanted.concept
        if next(reversed(self._plain), None) != key:
            self._saves.touch(wanted.word)
        index = self._plain.pop(key, None) or _Index()
        self._plain[key] = index
        for oldest in list(self._plain)[:-KEPT_CODES]:
            del self._plain[oldest]
        return index

    def _want(self, index: _Index, name: str, wanted: Wanted) -> None:
        """Have an index built, unless that is being done, or failed; to be called under the lock."""
        tried = len(wanted.pool), None if wanted.labels is None else wanted.labels.through
        if not index.is_wanted and not (index.problem is not None and index.tried == tried):
            index.is_wanted, index.share, index.problem, index.tried = True, 0.0, None, tried
            self._builder.submit(self._build, index, name, wanted)

    def _build(self, index: _Index, name: str, wanted: Wanted) -> None:
        def advanced(done: int, of: int) -> None:
            self._go_on()
            index.share = done / of

        coded, methods, problem = index.coded, {}, None
        kernels.wait_for("everything")
        started = time.perf_counter()
        try:
            coded = self._saves.coded(wanted, index.coded, advanced)
            methods[name] = Method(*self._saves.search(name, wanted, coded))
        except InputError as error:
            log.warning("%s can't be prepared: %s", METHODS[name], error)
            problem = f"{METHODS[name]} can't be prepared: {error}"
        except Exception as error:
            log.exception("%s can't be prepared", METHODS[name])
            problem = f"{METHODS[name]} can't be prepared: {error or type(error).__name__}"
        with self._lock:
            others = index.methods if coded is index.coded else {}
            index.coded, index.methods = coded, {**others, **methods}
            index.seconds = time.perf_counter() - started
            index.is_wanted, index.problem = False, problem


def _is_behind(method: Method, index: _Index, pool: Pool, labels: Labels | None) -> bool:
    """Whether the pool, or what there is to learn from, has outgrown what was built."""
    learned_from = index.coded.labels if index.coded is not None else None
    return is_due(len(method.search.pool), index.seconds, pool) or is_outgrown(learned_from, labels)
