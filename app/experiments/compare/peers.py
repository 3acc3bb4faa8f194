"""Uncertainty sampling by other libraries, for races against the strategies of this program.

A peer is such a library. Each peer is called as its manual describes, with the current hyperplane as a fitted
binary classifier. The probability of a yes is the logistic function of wᵀx + b, so the least certain item is
the one nearest to the hyperplane. A peer gets the whole pool as one matrix, and its additional memory is
limited.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack
from scipy.special import expit

from closecall.app.runtime.extras import load
from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import Choice, PoolRows, Progress, Query, QueryStrategy

GIGABYTES = 4.0
"""Default limit on a peer's additional memory, in 10⁹ bytes."""


class LinearProbabilities:
    """A hyperplane as a fitted classifier, with the methods that the other libraries call.

    Parameters
    ----------
    hyperplane : Hyperplane
        The hyperplane whose scores become probabilities.
    """

    classes_ = np.array([0, 1])

    def __init__(self, hyperplane: Hyperplane) -> None:
        self._normal = hyperplane.normal.astype(np.float32)
        self._bias = hyperplane.bias

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of no and yes for each row, of shape (n, 2)."""
        yes = expit((X @ self._normal).astype(np.float64) + self._bias)
        return np.column_stack([1 - yes, yes])

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return 1 for each positive row and 0 for each negative row, of shape (n,)."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))


class Peer(QueryStrategy):
    """A query strategy that uses the uncertainty sampling of another library.

    Parameters
    ----------
    gigabytes : float
        Limit on the memory that the library uses in addition to the current memory of this process, in 10⁹
        bytes. If the library needs more, the strategy fails. Only Linux enforces the limit.
    random_state : int
    """

    package: ClassVar[str]
    """Name of the package to import."""

    distribution: ClassVar[str]
    """Name of the distribution to install."""

    def __init__(self, *, gigabytes: float = GIGABYTES, random_state: int = 0) -> None:
        super().__init__(random_state=random_state)
        self.gigabytes = gigabytes

    def check(self) -> None:
        """See `QueryStrategy.check`; checks that the library is installed."""
        load(self.package, "peers", distribution=self.distribution)

    def prepare(self, pool: PoolRows, progress: Progress | None) -> None:  # noqa: ARG002
        """See `QueryStrategy.prepare`; loads the pool as one matrix if the memory limit allows it."""
        self.X_: Any = None
        with suppress(MemoryError), memory_limited(self.gigabytes):
            parts = [X for _, X in pool.blocks()]
            join = vstack if issparse(parts[0]) else np.concatenate
            self.X_ = parts[0] if len(parts) == 1 else join(parts)

    def choose(self, query: Query) -> Choice:
        """See `QueryStrategy.choose`; sorts the rows by |wᵀx + b|, because a library may use any order."""
        if self.X_ is None:
            raise MemoryError
        labeled = np.isin(self.pool_.ids, query.exclude, assume_unique=True)
        n = min(query.n, len(labeled) - int(labeled.sum()))
        if not n:
            return Choice.nothing()
        with memory_limited(self.gigabytes):
            rows = np.sort(self.ask(LinearProbabilities(query.plane()), labeled, n))
        margins = self.reader_.margins(rows, query.plane())
        order = np.argsort(margins, kind="stable")
        return Choice(self.pool_.ids[rows][order], margins[order], scored=len(labeled))

    @abstractmethod
    def ask(self, classifier: LinearProbabilities, labeled: NDArray[np.bool_], n: int) -> NDArray[np.int64]:
        """Return the n rows that the library selects among the unlabeled ones.

        `labeled` is a mask of shape (n_rows,).
        """


class Modal(Peer):
    """The function `uncertainty_sampling` of modAL.

    The function does not know which rows are labeled. To select n rows while m rows are labeled, `ask`
    therefore requests n + m rows and drops the labeled ones.
    """

    name = "modal"
    package = "modAL.uncertainty"
    distribution = "modAL-python"

    def ask(self, classifier: LinearProbabilities, labeled: NDArray[np.bool_], n: int) -> NDArray[np.int64]:
        """See `Peer.ask`."""
        from modAL.uncertainty import uncertainty_sampling

        found = uncertainty_sampling(classifier, self.X_, n_instances=n + int(labeled.sum()))
        rows = np.asarray(found[0] if isinstance(found, tuple) else found, dtype=np.int64)
        free = rows[~labeled[rows]]
        certain = np.abs(classifier.predict_proba(self.X_[free])[:, 1] - 0.5)
        return free[np.argsort(certain, kind="stable")[:n]]


class ScikitActiveml(Peer):
    """The class `UncertaintySampling` of scikit-activeml."""

    name = "scikit-activeml"
    package = "skactiveml.pool"
    distribution = "scikit-activeml"

    def ask(self, classifier: LinearProbabilities, labeled: NDArray[np.bool_], n: int) -> NDArray[np.int64]:
        """See `Peer.ask`."""
        from skactiveml.pool import UncertaintySampling

        y = np.where(labeled, 0.0, np.nan)
        strategy = UncertaintySampling(method="least_confident", random_state=self.random_state)
        wrapped = self._wrapper(classifier)
        found = strategy.query(self.X_, y, wrapped, fit_clf=False, batch_size=n)
        return np.asarray(found, dtype=np.int64)

    @cached_property
    def _wrapper(self) -> Any:
        """A subclass of the library's classifier that wraps the hyperplane."""
        from skactiveml.base import SkactivemlClassifier

        class Fitted(SkactivemlClassifier):  # type: ignore[misc]
            def __init__(self, fitted: LinearProbabilities) -> None:
                super().__init__(classes=[0, 1])
                self.fitted = fitted

            def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # noqa: ARG002
                return self

            def predict_proba(self, X: Any) -> NDArray[np.float64]:
                return self.fitted.predict_proba(X)

        return Fitted


class SmallText(Peer):
    """The class `LeastConfidence` of small-text."""

    name = "small-text"
    package = "small_text"
    distribution = "small-text"

    def ask(self, classifier: LinearProbabilities, labeled: NDArray[np.bool_], n: int) -> NDArray[np.int64]:
        """See `Peer.ask`."""
        from small_text import LeastConfidence

        free, known = np.flatnonzero(~labeled), np.flatnonzero(labeled)
        found = LeastConfidence().query(classifier, self.X_, free, known, np.zeros(len(known), np.int64), n=n)
        return np.asarray(found, dtype=np.int64)


PEERS: dict[str, type[Peer]] = {cls.name: cls for cls in (ScikitActiveml, SmallText, Modal)}


def make_peer(name: str, *, random_state: int = 0) -> Peer:
    """Return an unfitted strategy that selects with the library `name`.

    Raises
    ------
    InputError
        If `name` is not in `PEERS`.
    """
    if name not in PEERS:
        raise InputError(f"a peer must be one of {', '.join(PEERS)}, got {name!r}")
    return PEERS[name](random_state=random_state)


@contextmanager
def memory_limited(gigabytes: float) -> Iterator[None]:
    """Limit this process's memory within the context.

    Memory can grow by at most `gigabytes` (10⁹ bytes) after the start of the context. Allocations beyond this
    limit raise MemoryError. There is no limit on systems without /proc.
    """
    status = Path("/proc/self/status")
    if not status.is_file():
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    (kilobytes,) = (
        int(line.split()[1]) for line in status.read_text("utf-8").splitlines() if line.startswith("VmData")
    )
    limit = int(1024 * kilobytes + gigabytes * 10**9)
    hard = before[1]
    resource.setrlimit(
        resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard)
    )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
