"""What every source of items promises.

A source is an ordered set of images, or of texts, numbered 0, 1, 2, … for ever. It knows how to show any one
of them, how to give many of them to the feature extractor, and, where it can, the truth about them. Sources
keep no state after they are made, so any number of threads may use one at once.

A pool is built from a source and remembers it by two things: `Source.spec()`, small and JSON, kept in the
pool's manifest; and whatever `Source.save(folder)` writes beside it, such as a list of 110,000 files. Both
go back into `core.sources.open_source(spec, folder)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.numerics.rows import Rows

GREY_SIZE = 32
"""Side, in pixels, of the square grey images that features are computed from."""

Extractor = Literal["gist", "edges", "sets"]
EXTRACTORS: tuple[Extractor, ...] = get_args(Extractor)
"""What images can be described by; `core.features` knows how."""

Items = NDArray[np.int64]


@dataclass(frozen=True)
class Problem:
    """An item that could not be read, and why, in words for the person who owns the file."""

    item: int
    name: str
    reason: str


class Source(ABC):
    """An ordered, numbered, unchanging set of images or texts.

    Attributes
    ----------
    kind : str
        The word that names this kind of source in a spec.
    title : str
        What a person would call the whole set.
    classes : tuple of str
        Names of the classes; empty where the truth is unknown.
    n_features : int or None
        Length of what `features` gives, or None where features are computed from `grey`.
    extractor : {"gist", "edges", "sets"}
        What computes them.
    is_sparse : bool
        Whether `features` gives a `csr_array`, as of texts (`core.sources.texts`). Of what an extractor
        gives, see `core.features.has_sparse_rows`.
    mean_entries : float
        How many numbers such a row has, on average.
    """

    kind: ClassVar[str]
    title: str
    classes: tuple[str, ...] = ()
    n_features: int | None = None
    extractor: Extractor = "gist"
    is_sparse: ClassVar[bool] = False
    mean_entries: float = 0.0

    @abstractmethod
    def __len__(self) -> int:
        """Number of items, those held out included: ids are 0 … len − 1."""

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """What `open_source` needs to make the same source again, as JSON; contains `kind`."""

    @classmethod
    @abstractmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None) -> Self:
        """The source that gave `spec`; `folder` is where it was saved, or None to do without.

        Raises
        ------
        InputError
            If what the spec describes is gone, or is no longer the same.
        """

    def save(self, folder: Path) -> None:  # noqa: B027 (most sources are wholly in their spec)
        """Write what is too long for the spec into `folder`; files there are replaced atomically."""

    def continuing(self, spec: dict[str, Any], folder: Path | None) -> Source:  # noqa: ARG002
        """The same items with those of an earlier source first, in their order, where this is that one grown.

        The earlier source is told by its spec, and by the folder that it was saved in. A pool that is built
        again when there is more asks for this. Sources whose order does not depend on what else there is are
        their own continuation.
        """
        return self

    @abstractmethod
    def name(self, item: int) -> str:
        """What a person would call the item: a relative path, "digit 123"."""

    def names(self, items: Items) -> list[str]:
        """What a person would call each of these items; for sources that can tell many at less cost."""
        return [self.name(item) for item in items.tolist()]

    @abstractmethod
    def image(self, item: int, size: int) -> Image.Image:
        """The item as it should be shown, mode RGB or L, longest side at most `size` pixels.

        Raises
        ------
        InputError
            If the item can't be read, or if there is no such item.
        """

    def original(self, item: int) -> Path | None:  # noqa: ARG002
        """The file that the item is, to be copied; None where it is none.

        Raises
        ------
        InputError
            If the file is a link that leads out of the source's folder.
        """
        return None

    @abstractmethod
    def grey(self, items: Items) -> tuple[NDArray[np.float32], list[Problem]]:
        """The items as grey images of shape (n_items, 32, 32) in 0 … 1, and those that can't be read.

        Rows of unreadable items are zero.
        """

    def features(self, items: Items) -> Rows | None:  # noqa: ARG002
        """The user's own embeddings, or words, of shape (n_items, n_features); None where there are none.

        A sparse row without entries is that of an item which has a `problem`.
        """
        return None

    def problem(self, item: int) -> Problem:
        """Why a sparse row is empty."""
        return Problem(item, self.name(item), "it holds nothing")

    def truth(self, items: Items) -> NDArray[np.int16]:
        """Index into `classes` for each item, −1 where unknown."""
        return np.full(len(self.check_items(items)), -1, dtype=np.int16)

    def held_out(self) -> Items:
        """Ids kept for measuring accuracy and never selected, ascending; empty where truth is unknown.

        They share no original with the others, and stay the same when the source grows at its end.
        """
        return np.empty(0, dtype=np.int64)

    def check_items(self, items: Items) -> Items:
        """The ids as int64.

        Raises
        ------
        InputError
            If one of them is no id of this source.
        """
        items = np.asarray(items, dtype=np.int64)
        if items.size and (items.min() < 0 or items.max() >= len(self)):
            bad = int(items[(items < 0) | (items >= len(self))][0])
            raise InputError(f"item must be from 0 to {len(self) - 1} in {self.title}, got {bad}")
        return items
