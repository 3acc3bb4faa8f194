"""Base class of sources of images on HTTP servers and in object storage."""

from __future__ import annotations

import io
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

import numpy as np

from closecall.core.errors import InputError
from closecall.core.sources.base import Items, UnreadableImageError
from closecall.core.sources.listed_images import ListedImages
from closecall.core.sources.remote.address import Address
from closecall.core.sources.remote.fetching import CONNECTIONS, Fetcher
from closecall.core.sources.remote.read_ahead import ReadAhead


class RemoteImages(ListedImages):
    """Source of images that are read across a network (`core.sources.remote.fetching`).

    Images are not copied into the pool. While a pool is built, several images are read at once, before their
    features are computed. The user's cache keeps images that were displayed recently and, while it has room,
    images that were read for a build.

    Subclasses set `path`, `files` and `title`, and call `_connect`.
    """

    _ahead: ReadAhead | None = None

    def _connect(self, is_minor: Callable[[str], bool] = lambda _: False) -> None:
        self._fetcher = Fetcher(is_minor)

    @abstractmethod
    def _address(self, item: int) -> tuple[Address, Address]:
        """Return the address of an image, and the folder within which redirects must stay.

        Raises
        ------
        UnreadableImageError
            If the image has no address that can be read.
        """

    @contextmanager
    def reading_ahead(self, stop: threading.Event) -> Iterator[Callable[[Items], None]]:
        """See `Source.reading_ahead`."""
        self._fetcher.begin_build()
        ahead = ReadAhead(lambda item: self._fetched(item, stop), CONNECTIONS, stop)
        self._ahead = ahead
        try:
            yield ahead.announce
        finally:
            self._ahead = None
            ahead.close()

    def encoded(self, item: int) -> bytes:
        """Return the bytes of the image, as they are on the server; see `Source.encoded`."""
        (item,) = self.check_items(np.array([item]))
        try:
            return self._bytes(item)
        except UnreadableImageError as error:
            raise InputError(f"{self.name(item)} in {self.path} can't be copied: {error}") from None

    def _file(self, item: int) -> BinaryIO:
        return io.BytesIO(self._bytes(item))

    def _bytes(self, item: int) -> bytes:
        ahead = self._ahead
        return self._fetched(item) if ahead is None else ahead.get(item)

    def _fetched(self, item: int, stop: threading.Event | None = None) -> bytes:
        address, inside = self._address(item)
        return self._fetcher.read(address, inside, stop=stop)
