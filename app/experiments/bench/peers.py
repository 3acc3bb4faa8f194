"""Indexes of faiss [1]_, a widely used library for nearest neighbours, to compare with our own structures.

A faiss index keeps a copy of the rows in memory, whereas our pools are on disk. All structures, ours and
those of faiss, are built and queried with one thread.

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
"""Number of training rows per list of an inverted file."""


@dataclass(frozen=True)
class _Kind:
    """A kind of faiss index.

    Parameters
    ----------
    make : callable
        Makes an empty index from the module faiss, the number of features and the number of rows.
    knob : str
        faiss's name of the parameter that controls the search effort; empty if there is none.
    efforts : tuple of int
        Values of this parameter to measure.
    """

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
"""Names of the indexes.

In this order: a scan by inner products, an inverted file with about 4√N lists for N rows, and an HNSW graph
with 16 links per row.
"""

KNOBS = {name: kind.knob for name, kind in _KINDS.items()}
"""For each index, faiss's name of the parameter that controls the search effort; empty if there is none."""


class FaissIndex:
    """A faiss index over the rows of a pool.

    Parameters
    ----------
    name : str
        One of `PEERS`.
    pool : Pool
        A pool of dense rows.

    Attributes
    ----------
    efforts : tuple of int
        Values of the search effort to measure; see `find`.
    build_seconds : float
        Seconds to build the index, including copying the rows and training the inverted lists.
    n_bytes : int
        Size of the serialized index.

    Raises
    ------
    InputError
        If there is no such index, if faiss is not installed, or if the pool's rows are sparse.
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
        """Return the ids of the n items that faiss finds nearest to a query, approximately.

        An inverted file may find fewer than n items.

        Parameters
        ----------
        query : array of shape (1, n_features)
            The query.
        n : int
            Number of items.
        effort : int
            Value of the parameter that `KNOBS` names for this index; ignored if it names none.
        """
        if KNOBS[self.name] == "nprobe":
            self._index.nprobe = effort
        elif KNOBS[self.name] == "efSearch":
            self._index.hnsw.efSearch = effort
        rows = self._index.search(_dense(query), n)[1][0]
        return np.asarray(self._ids[rows[rows >= 0]])


def loaded(name: str) -> Any:
    """Load faiss for the index `name`, limit it to one thread, and return the module.

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
