"""Reading ahead: several threads read images before the builder of a pool needs them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from closecall.core.errors import InputError
from closecall.core.sources.base import Items

MOST_HELD = 256 << 20
"""Maximum number of bytes that have been read ahead and not yet been requested."""

_POLL_SECONDS = 0.2


class ReadAhead:
    """Threads that read items in the order in which they are announced.

    Items that have been read wait in memory. `get` returns a waiting item and deletes it. While the waiting
    items have `MOST_HELD` bytes, no further item is read ahead. If `get` is called for an item that has not
    been read, it reads the item in the calling thread.

    Parameters
    ----------
    read : callable
        Function that returns the bytes of an item, or raises an InputError.
    connections : int
        Number of threads.
    stop : Event
        After it is set, no further item is read ahead, and `get` does not wait for items.
    """

    def __init__(self, read: Callable[[int], bytes], connections: int, stop: threading.Event) -> None:
        self._read = read
        self._stop = stop
        self._changed = threading.Condition()
        self._announced: OrderedDict[int, None] = OrderedDict()
        self._being_read: set[int] = set()
        self._results: dict[int, bytes | InputError] = {}
        self._held = 0
        self._closed = False
        for _ in range(connections):
            threading.Thread(target=self._work, name="read-ahead", daemon=True).start()

    def announce(self, items: Items) -> None:
        """Read these items ahead, after those that were announced before."""
        with self._changed:
            known = self._results.keys() | self._being_read
            self._announced.update({item: None for item in items.tolist() if item not in known})
            self._changed.notify_all()

    def get(self, item: int) -> bytes:
        """Return the bytes of an item, or raise the error that occurred when it was read."""
        with self._changed:
            while item in self._being_read and not self._stop.is_set():
                self._changed.wait(_POLL_SECONDS)
            self._announced.pop(item, None)
            result = self._results.get(item)
            if isinstance(result, bytes):
                del self._results[item]  # an error is kept, because it is requested again
                self._held -= len(result)
                self._changed.notify_all()
        if result is None:
            return self._read(item)
        if isinstance(result, InputError):
            raise result
        return result

    def close(self) -> None:
        """End the threads, each after the item that it is reading."""
        with self._changed:
            self._closed = True
            self._results.clear()
            self._changed.notify_all()

    def _work(self) -> None:
        while (item := self._next()) is not None:
            result: bytes | InputError | None = None
            try:
                result = self._read(item)
            except InputError as error:
                result = error
            finally:
                with self._changed:
                    self._being_read.discard(item)
                    if result is not None and not self._closed:
                        self._results[item] = result
                        self._held += len(result) if isinstance(result, bytes) else 0
                    self._changed.notify_all()

    def _next(self) -> int | None:
        """Wait until an item can be read ahead, and return it. Return None if reading ahead has ended."""
        with self._changed:
            while not (self._announced and self._held < MOST_HELD):
                if self._closed or self._stop.is_set():
                    return None
                self._changed.wait(_POLL_SECONDS)
            if self._closed or self._stop.is_set():
                return None
            item, _ = self._announced.popitem(last=False)
            self._being_read.add(item)
            return item
