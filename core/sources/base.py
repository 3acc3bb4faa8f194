"""Base class of sources of items.

A source is an ordered set of images or texts, permanently numbered 0, 1, 2, … It returns single items for
display, many items at once for the feature extractor, and the true classes if they are known. Sources do not
change after construction, so any number of threads may share a source.

A pool is built from a source, and stores two things to restore the source later: `Source.spec()`, which is
small JSON in the pool's manifest, and the files that `Source.save(folder)` writes, such as a list of 110,000
paths. `core.sources.open_source(spec, folder)` restores the source from both.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.numerics.rows import Rows
from closecall.core.onnx.resizing import Resizing

if TYPE_CHECKING:
    from closecall.core.onnx.text import TextModel

WHOLE = 1 << 30
"""A size in pixels that is larger than any image. An image scaled down to this size stays unchanged."""

GREY_SIZE = 32
"""Side, in pixels, of the square grayscale images from which features are computed."""

Extractor = Literal["gist", "edges", "sets"]
EXTRACTORS: tuple[Extractor, ...] = get_args(Extractor)
"""Names of the feature extractors for images, implemented in `core.features`."""

Items = NDArray[np.int64]


def changed(file: Path | None) -> InputError:
    """Return the error for a source's file that has changed since the pool was built."""
    return InputError(
        f"{file} has changed since the pool was made: put the former file back, or build another pool"
    )


class UnreadableImageError(InputError):
    """Error for an image that cannot be read. The message is the reason, without the image's name."""


class UnshownItemError(InputError):
    """Error for an item that can't be displayed.

    Parameters
    ----------
    name, place : str
        Name of the item, and place of the source, for the message. Only owners may see the place.
    reason : str
        Why the item can't be displayed, without the name and the place.
    """

    def __init__(self, name: str, place: str, reason: str) -> None:
        super().__init__(f"{name} in {place} can't be shown: {reason}")
        self.reason = reason


@dataclass(frozen=True)
class Problem:
    """An item that could not be read, and the reason, in words for the owner of the file."""

    item: int
    name: str
    reason: str


class Source(ABC):
    """Ordered, numbered, immutable set of images or texts.

    Attributes
    ----------
    kind : str
        Name of this kind of source in a spec.
    item_word : str
        Display name of one item.
    title : str
        Display name of the whole set.
    classes : tuple of str
        Names of the classes; empty if the truth is unknown.
    n_features : int or None
        Length of the rows that `features` returns, or None if features are computed from `grey`.
    own_features : str
        Display name of the features that `features` returns.
    extractor : {"gist", "edges", "sets"}
        Name of the extractor that computes features from `grey`, if the source has no features of its own.
    is_sparse : bool
        Whether `features` returns a `csr_array`, as it does for texts (`core.sources.texts`). See
        `core.features.has_sparse_rows` for features that an extractor computes.
    mean_entries : float
        Mean number of nonzero entries of a sparse row.
    is_slow : bool
        Whether `features` takes milliseconds or more per item. If so, builders work in smaller parts.
    """

    kind: ClassVar[str]
    item_word: ClassVar[str] = "image"
    title: str
    classes: tuple[str, ...] = ()
    n_features: int | None = None
    own_features: str = "the pool's own embeddings"
    extractor: Extractor = "gist"
    is_sparse: ClassVar[bool] = False
    mean_entries: float = 0.0
    is_slow: bool = False

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of items, including those held out; ids are 0 … len − 1."""

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """Return the JSON object from which `open_source` restores the same source; it contains `kind`."""

    @classmethod
    @abstractmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None) -> Self:
        """Restore the source that returned `spec`.

        `folder` is the folder given to `save`, or None if nothing was saved.

        Raises
        ------
        InputError
            If the data that the spec describes is missing or has changed.
        """

    @classmethod
    def feature_kind(cls, spec: dict[str, Any], folder: Path | None) -> str:  # noqa: ARG003
        """Return the kind of features that the source with this spec has; see `from_spec` for `folder`.

        The kind names the extractor or, for texts, the vocabulary. It is "embeddings" for a user's own
        embeddings, whose model is not known. Two sources can share a hyperplane only if their features are of
        the same kind and have the same length.

        Raises
        ------
        InputError
            If the features depend on data that is missing or damaged.
        """
        return cls.extractor

    def save(self, folder: Path) -> None:  # noqa: B027 (most sources are wholly in their spec)
        """Write data that is too large for the spec to `folder`, replacing existing files atomically."""

    def continuing(self, spec: dict[str, Any], folder: Path | None) -> Source:  # noqa: ARG002
        """Return this source, reordered to begin with the items of an earlier, smaller version of it.

        `spec` and `folder` describe the earlier version, as in `from_spec`. The earlier items keep their
        order. Builders call this method when a pool is built again from a larger source. If this source is
        not a larger version of the earlier source, or if it already begins with the earlier items, return it
        unchanged.

        Raises
        ------
        InputError
            If data of the earlier version has changed or is missing.
        """
        return self

    def without_folder_classes(self) -> Source:
        """Return a source of the same items, without classes that are names of folders.

        If the classes are names of folders, the result has no classes and no held-out items. Otherwise, the
        classes stay. Folders across a network are not listed again.
        """
        return self

    @abstractmethod
    def name(self, item: int) -> str:
        """Return the display name of the item, such as a relative path or "digit 123"."""

    def names(self, items: Items) -> list[str]:
        """Return the display names of these items.

        Subclasses override this method if it is cheaper to compute many names at once.
        """
        return [self.name(item) for item in items.tolist()]

    @abstractmethod
    def image(self, item: int, size: int) -> Image.Image:
        """Return the item for display, in mode RGB or L, with its longest side at most `size` pixels.

        Raises
        ------
        UnshownItemError
            If the item cannot be read.
        InputError
            If the item does not exist, or the source has changed.
        """

    def resolution(self, item: int) -> tuple[int, int] | None:  # noqa: ARG002
        """Return the width and height of `whole_image` in pixels. Decode the image only if necessary.

        If `image` can draw the item at any size, the item has no resolution of its own: return None.

        Raises
        ------
        UnreadableImageError
            If the item cannot be read.
        """
        return None

    def whole_image(self, item: int) -> Image.Image:
        """Return the item at its own resolution, in mode RGB or L.

        Raises
        ------
        UnreadableImageError
            If the item cannot be read.
        """
        return self.image(item, WHOLE)

    def halved_image(self, item: int, times: int) -> Image.Image | None:  # noqa: ARG002
        """Return `whole_image` with its width and height halved `times` times, rounded up.

        Return None if this is not faster than decoding the whole image.

        Raises
        ------
        UnreadableImageError
            If the item cannot be read.
        """
        return None

    def resized_image(self, item: int, resizing: Callable[[int, int], Resizing]) -> Image.Image:
        """Return `whole_image`, resized for a model.

        `resizing` takes the image's width and height, and returns how to resize it.

        Raises
        ------
        UnreadableImageError
            If the item cannot be read.
        """
        image = self.whole_image(item)
        return resizing(*image.size).of(image)

    def original(self, item: int) -> Path | None:  # noqa: ARG002
        """Return the path of the item's file, for copying, or None if the item is not a file.

        Raises
        ------
        InputError
            If the file is a link that leads outside the source's folder.
        """
        return None

    def encoded(self, item: int) -> bytes | None:  # noqa: ARG002
        """Return the content of the item's image file if it is stored inside another file, otherwise None.

        Raises
        ------
        InputError
            If the item cannot be read.
        """
        return None

    @abstractmethod
    def grey(self, items: Items) -> tuple[NDArray[np.float32], list[Problem]]:
        """Return grayscale images of shape (n_items, 32, 32) in [0, 1], and the items that cannot be read.

        Rows of unreadable items are zero.
        """

    def prepare(self, go_on: Callable[[], None]) -> None:  # noqa: B027 (most sources need no preparation)
        """Compute in advance what all images need. The first image then takes no longer than later images.

        Parameters
        ----------
        go_on : callable
            Function that is called at intervals. It may raise an error to end the preparation.
        """

    def vanished(self) -> Path | None:
        """If the file or folder with the source's data no longer exists, return its path, otherwise None.

        A folder that has none of its files any more, such as an empty mount point, counts as well.
        """
        path = getattr(self, "path", None)
        return path if isinstance(path, Path) and not os.access(path, os.F_OK) else None

    @contextmanager
    def reading_ahead(self, stop: threading.Event) -> Iterator[Callable[[Items], None]]:  # noqa: ARG002
        """Within this context, read items across a network before they are requested.

        The context yields a function that announces items. Announce each item once, in the order in which the
        items will be requested. After `stop` is set, a request for an item that has not been read raises an
        InputError. Sources that do not read across a network ignore announcements.
        """
        yield lambda _: None

    def features(self, items: Items) -> Rows | None:  # noqa: ARG002
        """Return the source's own features, such as embeddings, of shape (n_items, n_features).

        Return None if features are computed from `grey`. The row of an item that has no features contains
        only zeros; see `problem`.
        """
        return None

    def problem(self, item: int) -> Problem:
        """Return why an item has no features, given an item whose row contains only zeros."""
        return Problem(item, self.name(item), "it is empty")

    def about_features(self) -> list[str]:
        """Return sentences that tell a user, before a pool is built, how features will be computed."""
        return []

    def note_on_left_out(self) -> str | None:
        """Return a sentence on the image files that the source leaves out, or None if there are none."""
        return None

    @property
    def describes_images(self) -> bool:
        """Whether features can be computed from an image that is not in the source, such as an upload."""
        return self.n_features is None

    @property
    def stretches_images(self) -> bool:
        """Whether features are computed from images whose 16-bit values are stretched (see `read_image`)."""
        return True

    def features_of_image(self, image: Image.Image) -> NDArray[np.float32] | None:  # noqa: ARG002
        """Return the source's own features of an image of mode RGB or L, of shape (n_features,).

        The image should have its original resolution. Return None if an extractor computes the features, or
        if features can't be computed from images, as with a user's own embeddings.

        Raises
        ------
        UnreadableImageError
            If the image has no features.
        """
        return None

    def note_on_new_images(self) -> str | None:
        """Return a sentence on how the features of new images will differ from the pool's, or None.

        No model is loaded to find differences, so the result can be None although there is a difference.
        """
        return None

    @property
    def has_text_model(self) -> bool:
        """Whether items can be searched by words. No model is loaded to find this out.

        This stays true if the file of the text model is moved. `text_model` then raises an InputError.
        """
        return False

    def text_model(self) -> TextModel:
        """Return the text model, which maps words to vectors in the space of the features.

        Raises
        ------
        InputError
            If there is no text model, or if the text model does not belong to the features.
        """
        raise InputError(
            f"{self.title} can't be searched by words: this needs features from the vision model of a pair "
            f"such as CLIP"
        )

    def truth(self, items: Items) -> NDArray[np.int16]:
        """For each item, return the index of its class in `classes`, or −1 if unknown; shape (n_items,)."""
        return np.full(len(self.check_items(items)), -1, dtype=np.int16)

    def held_out(self) -> Items:
        """Return the ids, ascending, of the items that are kept for measuring accuracy and never selected.

        A held-out item and an item that is not held out are never variants of the same original. The held-out
        items stay the same when items are appended to the source. If the truth is unknown, no items are held
        out, unless the source has queries of its own (`core.sources.vectors`).
        """
        return np.empty(0, dtype=np.int64)

    def check_items(self, items: Items) -> Items:
        """Return the ids as int64.

        Raises
        ------
        InputError
            If an id is not in this source.
        """
        items = np.asarray(items, dtype=np.int64)
        if items.size and (items.min() < 0 or items.max() >= len(self)):
            bad = int(items[(items < 0) | (items >= len(self))][0])
            raise InputError(f"item must be from 0 to {len(self) - 1} in {self.title}, got {bad}")
        return items
