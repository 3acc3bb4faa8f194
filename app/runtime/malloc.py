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

LARGE_IN_SERVERS = 1 << 16
"""The size that replaces `LARGE` in a process that serves people."""

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8  # M_MMAP_THRESHOLD and M_ARENA_MAX of glibc's <malloc.h>


def _glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None


def settle() -> None:
    """Make all threads allocate from one arena, and give large allocations their own pages.

    By default, glibc gives threads up to eight arenas per processor, and memory freed in one arena can't be
    used by the others. After a minute, a server with 50 people had 110 MB of free memory in 16 arenas, and
    more with every minute. With one arena it had 15 MB. One arena is enough, because Python's lock lets only
    one thread allocate at a time.

    The size from which allocations get their own pages is fixed at `LARGE`. By default, glibc raises the size
    when such an allocation is freed. Arrays that grow with the labels then leave holes in the arena: 8 MB
    after five minutes, compared with 3 MB at a fixed size.

    Call this before a second thread allocates memory; later it has no effect. The environment variables
    ``MALLOC_ARENA_MAX`` and ``MALLOC_MMAP_THRESHOLD_`` take precedence.
    """
    libc = _glibc()
    if libc is not None and "MALLOC_ARENA_MAX" not in os.environ:
        libc.mallopt(_ARENA_MAX, 1)
    _own_pages_from(LARGE)


def settle_server() -> None:
    """Give allocations their own pages from the size `LARGE_IN_SERVERS` on, which is below `LARGE`.

    Allocations of these sizes are mostly arrays that grow with the labels. Without their own pages, they lie
    between small objects. When they are freed, they leave holes, most of which are not used again: with 50
    people, there were 31 MB of holes after 17,000 answers.

    Call this before the first answer. Selections take longer: a full scan of 230,000 items by 4 %, H-Hash by
    6 %, and the margin index by 3 %, which was not significant.
    """
    _own_pages_from(LARGE_IN_SERVERS)


def _own_pages_from(size: int) -> None:
    libc = _glibc()
    if libc is not None and "MALLOC_MMAP_THRESHOLD_" not in os.environ:
        libc.mallopt(_MMAP_THRESHOLD, size)


class Trimmer:
    """A thread that returns free memory to the system at intervals until `close`.

    Objects that are freed between others leave holes, which other objects don't fill. The thread returns the
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
