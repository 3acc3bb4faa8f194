"""Limit BLAS to one thread where the number of threads would affect the last bits or the timing.

The limit applies to the whole process, and several threads may need it at the same time. The first caller to
enter `one_thread` saves the number of BLAS threads, and the last caller to leave restores it. If every caller
did both, a caller that enters second would save the limited number and, if it leaves last, restore that
number for good.

In newer versions of threadpoolctl, only one thread at a time can limit OpenBLAS, and calls from other threads
are silently ignored. `_set` lifts this restriction.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from time import perf_counter

import numpy as np
from threadpoolctl import LibController, ThreadpoolController

_lock = threading.Lock()
_inside = 0
_before: list[tuple[LibController, int]] = []


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread, until the last of several overlapping contexts has ended."""
    global _inside
    with _lock:
        if _inside == 0:
            _before[:] = [(library, library.num_threads) for library in _libraries(len(sys.modules))]
            for library, _ in _before:
                _set(library, 1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                for library, n_threads in _before:
                    _set(library, n_threads)


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> list[LibController]:  # noqa: ARG001
    """Return the BLAS libraries of the process.

    Looking for them takes several milliseconds, so it is repeated only when `n_modules`, the number of
    imported modules, has changed.
    """
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@cache
def operations_per_second() -> float:
    """Return the measured number of additions and multiplications per second on one thread.

    They are measured in float32 matrix products. The measurement takes about 10 ms, once per process. Other
    programs on the machine make the result smaller.
    """
    rows, columns = np.ones((1024, 384), dtype=np.float32), np.ones((384, 256), dtype=np.float32)
    seconds = []
    with one_thread():
        for _ in range(4):
            start = perf_counter()
            rows @ columns
            seconds.append(perf_counter() - start)
    return 2 * rows.size * columns.shape[1] / min(seconds)


def _set(library: LibController, n_threads: int) -> None:
    let_go = getattr(library, "clear_controlling_thread", None)
    if let_go is None:
        library.set_num_threads(n_threads)
    else:
        let_go(force=True)
        library.set_num_threads(n_threads)
        let_go()
