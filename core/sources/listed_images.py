"""Base class of sources of encoded images that are listed, such as files in a folder or in a tar archive."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.onnx.resizing import Resizing
from closecall.core.sources import listing
from closecall.core.sources.base import (
    GREY_SIZE,
    WHOLE,
    Items,
    Problem,
    Source,
    UnreadableImageError,
    UnshownItemError,
)
from closecall.core.sources.images import (
    RENDITION,
    grey_of,
    read_halved,
    read_image,
    read_resized,
    resolution_of,
)
from closecall.core.sources.listing import Listing
from closecall.core.sources.passing import PassingError


class ListedImages(Source):
    """Source of the images in a list. Subclasses implement `_file` and set `path`, `files` and `title`.

    Attributes
    ----------
    path : Path or str
        Location of the images, for messages.
    files : Listing
        The images in their order, with their classes and the held-out images.
    """

    path: Path | str
    files: Listing

    @abstractmethod
    def _file(self, item: int) -> Path | BinaryIO:
        """Return the file of an image: its path, or an open binary file.

        Raises
        ------
        UnreadableImageError
            If there is no such file.
        """

    def _read(self, item: int, size: int) -> Image.Image:
        """Return an image, scaled down if its longest side exceeds `size` pixels.

        Raises
        ------
        UnreadableImageError
            If the image cannot be read.
        """
        return read_image(self._file(item), size)

    def __len__(self) -> int:
        return len(self.files.paths)

    def name(self, item: int) -> str:
        """Return the image's path in the list, with slashes."""
        return self.names(np.array([item]))[0]

    def names(self, items: Items) -> list[str]:
        """See `Source.names`."""
        return [listing.as_text(self.files.paths[item]) for item in self.check_items(items).tolist()]

    def image(self, item: int, size: int) -> Image.Image:
        """Return the image, scaled down if its longest side exceeds `size` pixels."""
        (item,) = self.check_items(np.array([item]))
        try:
            return self._read(item, size)
        except UnreadableImageError as error:
            raise UnshownItemError(self.name(item), str(self.path), str(error)) from error
        except PassingError as error:
            raise UnshownItemError(self.name(item), str(self.path), error.reason) from error

    def resolution(self, item: int) -> tuple[int, int]:
        """See `Source.resolution`."""
        (item,) = self.check_items(np.array([item]))
        return resolution_of(self._file(item))

    def whole_image(self, item: int) -> Image.Image:
        """See `Source.whole_image`."""
        (item,) = self.check_items(np.array([item]))
        return self._read(item, WHOLE)

    def halved_image(self, item: int, times: int) -> Image.Image | None:
        """See `Source.halved_image`; JPEG files are decoded at a smaller size in less time."""
        (item,) = self.check_items(np.array([item]))
        return read_halved(self._file(item), times)

    def resized_image(self, item: int, resizing: Callable[[int, int], Resizing]) -> Image.Image:
        """See `Source.resized_image`; memory never holds two copies of a large image."""
        (item,) = self.check_items(np.array([item]))
        return read_resized(self._file(item), resizing)

    def grey(self, items: Items) -> tuple[NDArray[np.float32], list[Problem]]:
        """See `Source.grey`. Images that are not square are squeezed into a square."""
        items = self.check_items(items)
        grey = np.zeros((len(items), GREY_SIZE, GREY_SIZE), dtype=np.float32)
        problems = []
        for row, item in enumerate(items.tolist()):
            try:
                grey[row] = grey_of(self._read(item, RENDITION))
            except UnreadableImageError as error:
                problems.append(Problem(item, self.name(item), str(error)))
        return grey, problems

    def truth(self, items: Items) -> NDArray[np.int16]:
        """See `Source.truth`."""
        return self.files.truth[self.check_items(items)]

    def held_out(self) -> Items:
        """See `Source.held_out`; `core.sources.classes` chooses the images."""
        return self.files.held_out
