"""Reading images across a network, with retries and a cache on disk.

After a temporary failure, reading is retried with growing pauses. While a pool is built, retries go on for
`PATIENCE` seconds. If all retries for an image fail although the server has sent other images meanwhile,
the image counts as unreadable. Otherwise, the server or bucket counts as unreachable: an `UnreachableError`
stops the build, which can be resumed later. The build also stops after `MOST_REFUSED` refusals in a row,
because the bucket may be gone, or access may have expired. *Minor* servers, which have a small fraction of
the images in a list, do not stop a build. Their images count as unreadable instead.

The cache may have an earlier version of an image. A page may show this version, so that it need not wait. A
build reads each image once from its server or bucket, so that the features are those of the present version.

While a user waits for an image, retries go on for `PATIENCE_SHOWN` seconds. If the server does not answer at
all, its other images fail at once for the next `GIVEN_UP_SECONDS`. After that, reading is retried for one
image.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable

from platformdirs import user_cache_path

from closecall.core.files.disk_cache import DiskCache
from closecall.core.sources.base import UnreadableImageError
from closecall.core.sources.remote.address import STORES, Address
from closecall.core.sources.remote.failures import TemporaryError, UnreachableError
from closecall.core.sources.remote.stores import Store
from closecall.core.sources.remote.web import Web

CONNECTIONS = 16
"""Number of images that are read at once while a pool is built."""
MOST_CACHED = 2 << 30
"""Maximum size of the cache in bytes."""
PATIENCE, PATIENCE_SHOWN = 60.0, 5.0
"""Seconds for which reading is retried while a pool is built, and while a user waits for an image."""
FIRST_PAUSE, FIRST_PAUSE_SHOWN, LONGEST_PAUSE = 0.5, 0.1, 8.0
"""Seconds before the first retry while a pool is built, the same while a user waits, and the longest pause.
Each pause is twice as long as the previous one. All are multiplied by a random factor of 0.5 to 1.
"""
GIVEN_UP_SECONDS = 30.0
"""Seconds for which reading from a server is not retried after it was found unreachable."""
MOST_REFUSED = 100


class Fetcher:
    """Reader of images at addresses. Any number of threads may share it.

    Parameters
    ----------
    is_minor : callable
        Function that takes a server or bucket (`Address.place`) and returns whether it is minor. Minor
        servers and buckets do not stop a build.
    """

    def __init__(self, is_minor: Callable[[str], bool]) -> None:
        self._is_minor = is_minor
        self._web = Web(CONNECTIONS)
        self._stores = {scheme: Store(scheme) for scheme in STORES}
        self._cache = DiskCache(user_cache_path("closecall") / "images", MOST_CACHED)
        self._lock = threading.Lock()
        self._answered: dict[str, float] = {}
        self._given_up: dict[str, float] = {}
        self._silent: dict[str, tuple[float, str]] = {}  # when the server did not answer, and the reason
        self._refused: Counter[str] = Counter()
        self._current: set[str] = set()  # keys of the images that the present build has put into the cache

    def begin_build(self) -> None:
        """Forget which images an earlier build has read; they may have changed."""
        self._current = set()

    def read(self, address: Address, inside: Address, *, stop: threading.Event | None = None) -> bytes:
        """Return the bytes of an image, from the cache if possible.

        For a build, the cache is used only for images that the same build has read before.

        Parameters
        ----------
        address : Address
            Address of the image.
        inside : Address
            Folder that redirects must not leave.
        stop : Event
            Event that stops the build, given while a pool is built. If given, reading is retried for longer,
            but only until `stop` is set, and the cache is filled without deleting older images.

        Raises
        ------
        UnreadableImageError
            If this image can't be read, but other images of the server may be readable.
        UnreachableError
            If the server or bucket can't be read, or `stop` is set.
        """
        key = self._key(address)
        if (stop is None or key in self._current) and (held := self._cache.get(key)) is not None:
            return held
        data = self._fetched(address, inside, stop)
        is_kept = self._cache.put(key, data, evict=stop is None)
        if is_kept and stop is not None:
            self._current.add(key)
        return data

    def _key(self, address: Address) -> str:
        """Return the name of an image in the cache. Each endpoint or account has its own buckets."""
        if address.is_web:
            return address.identity
        return f"{address.identity} at {self._stores[address.scheme].endpoint()}"

    def _fetched(self, address: Address, inside: Address, stop: threading.Event | None) -> bytes:
        if stop is None:
            self._require_answering(address.place)
        began, pause = time.monotonic(), FIRST_PAUSE_SHOWN if stop is None else FIRST_PAUSE
        until = began + (PATIENCE_SHOWN if stop is None else PATIENCE)
        waiting = stop or threading.Event()
        while not waiting.is_set():
            try:
                data = self._once(address, inside)
            except UnreadableImageError as error:
                self._count_refusal(address, error)
                raise
            except TemporaryError as error:
                wait = max(error.wait, pause * random.uniform(0.5, 1.0))
                if time.monotonic() + wait > until or self._is_given_up(address.place):
                    self._give_up(address, began, error)
                pause = min(2 * pause, LONGEST_PAUSE)
                waiting.wait(wait)
            else:
                with self._lock:
                    self._answered[address.place] = time.monotonic()
                    self._refused[address.place] = 0
                    self._silent.pop(address.place, None)
                return data
        raise UnreachableError(f"{address.place} was not read: the build was stopped")

    def _once(self, address: Address, inside: Address) -> bytes:
        if not address.is_web:
            data = self._stores[address.scheme].read(address)
        else:
            data, _, media = self._web.read(address, inside)
            if media == "text/html":
                raise UnreadableImageError("the server sends a web page instead of an image")
        if not data:
            raise UnreadableImageError("the file is empty")
        return data

    def _is_given_up(self, place: str) -> bool:
        return time.monotonic() - self._given_up.get(place, -GIVEN_UP_SECONDS) < GIVEN_UP_SECONDS

    def _give_up(self, address: Address, began: float, error: TemporaryError) -> None:
        place, reason = address.place, str(error)
        with self._lock:
            if self._answered.get(place, -1.0) > began:
                raise UnreadableImageError(f"it can't be read, though other images can: {reason}") from None
            self._given_up[place] = time.monotonic()
            if error.is_silent:
                self._silent[place] = time.monotonic(), reason
        raise self._unreachable(place, reason, is_silent=error.is_silent) from None

    def _unreachable(
        self, place: str, reason: str, *, is_silent: bool = True
    ) -> UnreachableError | UnreadableImageError:
        if self._is_minor(place):
            return UnreadableImageError(f"{place} can't be reached: {reason}")
        return UnreachableError(
            f"{place} can't be reached ({reason}): try again once it can",
            f"its server can't be reached ({reason})" if is_silent else reason,
        )

    def _require_answering(self, place: str) -> None:
        """For `GIVEN_UP_SECONDS` after a server did not answer, raise the same error again.

        After this time, one caller may try again. Until that caller succeeds, all others get the last error.
        """
        with self._lock:
            if place not in self._silent:
                return
            since, reason = self._silent[place]
            if time.monotonic() - since >= GIVEN_UP_SECONDS:
                self._silent[place] = time.monotonic(), reason
                return
        raise self._unreachable(place, reason)

    def _count_refusal(self, address: Address, error: UnreadableImageError) -> None:
        place = address.place
        with self._lock:
            self._refused[place] += 1
            if self._refused[place] < MOST_REFUSED or self._is_minor(place):
                return
            self._refused[place] = 0
        raise UnreachableError(
            f"none of the last {MOST_REFUSED} images of {place} could be read (the last one: {error}): try "
            "again once it can be read, or remove its images from the list",
            str(error),
        ) from None
