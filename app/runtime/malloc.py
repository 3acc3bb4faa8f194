"""Settings of glibc's ``malloc`` for many threads. They have no effect with other C libraries."""

from __future__ import annotations

import ctypes
import os
import platform
import threading

TRIM_SECONDS = 15.0
"""Interval in seconds between returns of free memory to the system; each takes a few milliseconds."""

LARGE = 1 << 22
"""Allocations of at least this many bytes get their own pages, which return to the system when freed.

With a smaller size, the program often requests and returns pages, which is slow: with glibc's initial
1 << 17, computing image features took twice as long.
"""

KEPT = 1 << 26
"""Free memory at the end of the heap, in bytes, that is kept for the next allocations.

With glibc's 1 << 17, a server returns the pages of an image or of a training's arrays after each use, and
requests them again for the next one.
"""

# M_TRIM_THRESHOLD, M_MMAP_THRESHOLD and M_ARENA_MAX of glibc's <malloc.h>
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8


def _glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None


def settle() -> None:
    """Make all threads use one arena that keeps free memory; give large allocations their own pages.

    By default, glibc gives threads up to eight arenas per processor, and memory freed in one arena can't be
    used by another arena. After a minute, a server with 50 people had 110 MB of free memory in 16 arenas, and
    more with every minute. With one arena it had 15 MB. One arena is enough, because Python's lock lets only
    one thread allocate at a time.

    The size from which allocations get their own pages is fixed at `LARGE`. By default, glibc raises the size
    when such an allocation is freed. Arrays that grow with the labels then leave holes in the arena: 8 MB
    after five minutes, compared with 3 MB at a fixed size.

    Call this before a second thread allocates memory; later it has no effect. The environment variables
    ``MALLOC_ARENA_MAX``, ``MALLOC_MMAP_THRESHOLD_`` and ``MALLOC_TRIM_THRESHOLD_`` take precedence.
    """
    libc = _glibc()
    if libc is None:
        return
    for variable, parameter, value in (
        ("MALLOC_ARENA_MAX", _ARENA_MAX, 1),
        ("MALLOC_MMAP_THRESHOLD_", _MMAP_THRESHOLD, LARGE),
        ("MALLOC_TRIM_THRESHOLD_", _TRIM_THRESHOLD, KEPT),
    ):
        if variable not in os.environ:
            libc.mallopt(parameter, value)


class Trimmer:
    """A thread that returns free memory to the system at intervals until `close`.

    Freed objects leave holes between objects in use, which later objects don't fill. The thread returns the
    pages of such holes.

    Parameters
    ----------
    seconds : float
        Interval in seconds.
    """

    def __init__(self, seconds: float = TRIM_SECONDS) -> None:
        self._seconds = seconds
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trimmer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and wait for its end."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        libc = _glibc()
        while libc is not None and not self._closed.wait(self._seconds):
            libc.malloc_trim(0)
