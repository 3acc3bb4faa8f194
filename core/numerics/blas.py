"""Linear algebra on one thread, where its number of threads would tell in the last bits, or in the times.

The limit is the process's own, and so is what it is put back to afterwards. Of two threads that limit and put
back by turns, the one that began second would put back the limit of the first, for ever; so they are counted,
and the last one puts back what was before the first. (Newer versions of threadpoolctl let one thread at a
time set a limit of OpenBLAS, and ignore all others in silence: here they are told that the thread may.)
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import LibController, ThreadpoolController

_lock = threading.Lock()
_inside = 0
_before: list[tuple[LibController, int]] = []


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS uses one thread until the last of those who are inside at the same time has left."""
    global _inside
    with _lock:
        if _inside == 0:
            libraries = ThreadpoolController().select(user_api="blas").lib_controllers
            _before[:] = [(library, library.num_threads) for library in libraries]
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


def _set(library: LibController, n_threads: int) -> None:
    let_go = getattr(library, "clear_controlling_thread", None)
    if let_go is None:
        library.set_num_threads(n_threads)
    else:
        let_go(force=True)
        library.set_num_threads(n_threads)
        let_go()
