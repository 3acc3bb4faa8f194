"""faiss's indexes beside our own structures: the library that most use for nearest neighbours [1]_.

It keeps its own copy of the rows in memory, where our pools lie on the disk. It is built and asked with one
thread, as our structures are.

References
----------
.. [1] M. Douze et al., "The Faiss library", 2024, arXiv:2401.08281.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.app.runtime.extras import load
from closecall.core.errors import InputError
from closecall.core.numerics.rows import Rows
from closecall.core.pool.pool import Pool

EACH_LIST = 64
"""So many rows are drawn for each list of an inverted file, to find where lists should be."""


@dataclass(frozen=True)
class _Kind:
    """How an index is made for n rows of d numbers, and by which of its numbers a query looks further."""

    make: Callable[[Any, int, int], Any]
    knob: str
    efforts: tuple[int, ...]


def _flat(faiss: Any, d: int, n: int) -> Any:  # noqa: ARG001
    return faiss.IndexFlatIP(d)


def _inverted(faiss: Any, d: int, n: int) -> Any:
    n_lists = max(1, min(round(4 * sqrt(n)), n // EACH_LIST))
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(d), d, n_lists, faiss.METRIC_INNER_PRODUCT)
    index.cp.max_points_per_centroid = EACH_LIST
    index.cp.min_points_per_centroid = 1
    return index


def _graph(faiss: Any, d: int, n: int) -> Any:  # noqa: ARG001
    return faiss.IndexHNSWFlat(d, 16, faiss.METRIC_INNER_PRODUCT)


_KINDS = {
    "faiss-flat": _Kind(_flat, "", (0,)),
    "faiss-ivf": _Kind(_inverted, "nprobe", (1, 2, 4, 8, 16, 32, 64, 128)),
    "faiss-hnsw": _Kind(_graph, "efSearch", (10, 20, 50, 100, 200, 500, 1000)),
}

PEERS = tuple(_KINDS)
"""A scan by inner products; an inverted file of 4√N lists; a graph, HNSW, with 16 links a row."""

KNOBS = {name: kind.knob for name, kind in _KINDS.items()}
"""What faiss calls the number by which a query looks further; empty where there is none."""


class FaissIndex:
    """An index of faiss over the rows of a pool.

    Parameters
    ----------
    name : str
        One of `PEERS`.
    pool : Pool
        Of dense rows.

    Attributes
    ----------
    efforts : tuple of int
        How far a query may look, see `find`.
    build_seconds : float
        Rows copied, places of lists found, and all.
    n_bytes : int
        Of the index, written out.

    Raises
    ------
    InputError
        If there is no such index, faiss is not installed, or the pool's rows are sparse.
    """

    def __init__(self, name: str, pool: Pool) -> None:
        faiss = loaded(name)
        if pool.is_sparse:
            raise InputError(f"{name} needs dense rows, and those of the pool {pool.path} are sparse")
        kind = _KINDS[name]
        self.name, self.efforts = name, kind.efforts
        self._ids = pool.ids
        started = time.perf_counter()
        self._index = kind.make(faiss, pool.n_features, len(pool))
        if not self._index.is_trained:
            drawn = np.random.default_rng(0).permutation(len(pool))[: EACH_LIST * self._index.nlist]
            self._index.train(_dense(pool.rows(np.sort(drawn))))
        for _, X in pool.blocks():
            self._index.add(_dense(X))
        self.build_seconds = time.perf_counter() - started
        self.n_bytes = int(faiss.serialize_index(self._index).nbytes)

    def find(self, query: Rows, n: int, effort: int) -> NDArray[np.int64]:
        """The ids of about the n nearest to a query of shape (1, n_features); fewer where no more are met."""
        if KNOBS[self.name] == "nprobe":
            self._index.nprobe = effort
        elif KNOBS[self.name] == "efSearch":
            self._index.hnsw.efSearch = effort
        rows = self._index.search(_dense(query), n)[1][0]
        return np.asarray(self._ids[rows[rows >= 0]])


def loaded(name: str) -> Any:
    """The library, for the index `name`; it will use one thread.

    Raises
    ------
    InputError
        If there is no such index, or faiss is not installed.
    """
    if name not in PEERS:
        raise InputError(f"a peer must be one of {', '.join(PEERS)}, got {name!r}")
    faiss = load("faiss", "peers", distribution="faiss-cpu")
    faiss.omp_set_num_threads(1)
    return faiss


def _dense(X: Rows) -> NDArray[np.float32]:
    return np.ascontiguousarray(X, dtype=np.float32)
