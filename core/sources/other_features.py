"""Base class of sources that have the images of another source, but different features."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.onnx.resizing import Resizing
from closecall.core.sources.base import Items, Problem, Source
from closecall.core.sources.texts import Texts


class OtherFeatures(Source):
    """The images of `source`, with different features.

    Parameters
    ----------
    source : Source
        Source of images without features of its own.
    features : str
        Name of the new features, for messages and the title.

    Raises
    ------
    InputError
        If the source has texts, or features of its own.
    """

    def __init__(self, source: Source, features: str) -> None:
        if isinstance(source, Texts):
            raise InputError(f"{source.title} contains texts, but {features} features describe images")
        if source.n_features is not None:
            raise InputError(f"{source.title} has its own embeddings: it cannot have other features")
        self.source = source
        self.classes = source.classes
        self.title = f"{source.title}, by {features}"
        self.is_slow = self.is_slow or source.is_slow

    def __len__(self) -> int:
        return len(self.source)

    def save(self, folder: Path) -> None:
        """Save what `source` saves."""
        self.source.save(folder)

    def name(self, item: int) -> str:
        """See `Source.name`."""
        return self.source.name(item)

    def names(self, items: Items) -> list[str]:
        """See `Source.names`."""
        return self.source.names(items)

    def image(self, item: int, size: int) -> Image.Image:
        """See `Source.image`."""
        return self.source.image(item, size)

    def resolution(self, item: int) -> tuple[int, int] | None:
        """See `Source.resolution`."""
        return self.source.resolution(item)

    def whole_image(self, item: int) -> Image.Image:
        """See `Source.whole_image`."""
        return self.source.whole_image(item)

    def halved_image(self, item: int, times: int) -> Image.Image | None:
        """See `Source.halved_image`."""
        return self.source.halved_image(item, times)

    def resized_image(self, item: int, resizing: Callable[[int, int], Resizing]) -> Image.Image:
        """See `Source.resized_image`."""
        return self.source.resized_image(item, resizing)

    def original(self, item: int) -> Path | None:
        """See `Source.original`."""
        return self.source.original(item)

    def encoded(self, item: int) -> bytes | None:
        """See `Source.encoded`."""
        return self.source.encoded(item)

    def grey(self, items: Items) -> tuple[NDArray[np.float32], list[Problem]]:
        """See `Source.grey`."""
        return self.source.grey(items)

    def note_on_left_out(self) -> str | None:
        """See `Source.note_on_left_out`."""
        return self.source.note_on_left_out()

    def prepare(self, go_on: Callable[[], None]) -> None:
        """See `Source.prepare`."""
        self.source.prepare(go_on)

    def vanished(self) -> Path | None:
        """See `Source.vanished`."""
        return self.source.vanished()

    @contextmanager
    def reading_ahead(self, stop: threading.Event) -> Iterator[Callable[[Items], None]]:
        """See `Source.reading_ahead`."""
        with self.source.reading_ahead(stop) as announce:
            yield announce

    def truth(self, items: Items) -> NDArray[np.int16]:
        """See `Source.truth`."""
        return self.source.truth(items)

    def held_out(self) -> Items:
        """See `Source.held_out`."""
        return self.source.held_out()
