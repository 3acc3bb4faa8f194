"""Base class of sources of texts, which have words as features and pictures of pages as images.

When the pool is first built, the vocabulary is computed from the items that are not held out, and is saved
with the pool. The features therefore stay the same when the pool grows. Words that occur only in later texts
are ignored.
"""

from __future__ import annotations

import textwrap
from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from closecall.core.errors import InputError
from closecall.core.numerics.rows import Rows
from closecall.core.sources.base import GREY_SIZE, Items, Problem, Source, UnshownItemError
from closecall.core.sources.images import grey_of
from closecall.core.sources.passing import PassingError
from closecall.core.sources.vocabulary import Vocabulary

VOCABULARY_FILE = "vocabulary.npz"
LONGEST = 5_000_000
"""Maximum length of a text in bytes. Longer texts count as unreadable."""

_SMALLEST_PAGE = 64
_COLUMNS, _LINES = 24, 10


class UnreadableTextError(InputError):
    """Error for a text that cannot be read. The message is the reason, without the item's name."""


class Texts(Source):
    """Base class of sources of texts. Subclasses implement `read` and set `title`, `classes` and `_saved`."""

    item_word: ClassVar[str] = "text"
    is_sparse: ClassVar[bool] = True
    own_features: str = "tf-idf over the pool's vocabulary"

    _saved: Vocabulary | None = None
    """Vocabulary of an earlier version of the source, which is kept; None if there is no earlier version."""

    @abstractmethod
    def read(self, item: int) -> str:
        """Return the text of the item; raise UnreadableTextError if it cannot be read."""

    def text(self, item: int) -> str:
        """Return the text of the item, for display.

        Raises
        ------
        UnshownItemError
            If the item cannot be read.
        InputError
            If the item does not exist.
        """
        (item,) = self.check_items(np.array([item]))
        try:
            return self.read(item)
        except UnreadableTextError as error:
            raise UnshownItemError(self.name(item), self.title, str(error)) from error
        except PassingError as error:
            raise UnshownItemError(self.name(item), self.title, error.reason) from error

    def opening(self, text: str) -> str:
        """Return the part of the text whose first lines the thumbnail shows; by default, the whole text."""
        return text

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Vocabulary of the texts.

        Raises
        ------
        InputError
            If no text has a word.
        """
        if self._saved is not None:
            return self._saved
        found = Vocabulary.of(self._known_texts())
        if not len(found):
            raise InputError(f"{self.title} has no text with a word of two letters or more")
        return found

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Number of words in the vocabulary."""
        return len(self.vocabulary)

    @property
    def mean_entries(self) -> float:  # type: ignore[override]
        """See `Vocabulary.mean_entries`."""
        return self.vocabulary.mean_entries

    @classmethod
    def feature_kind(cls, spec: dict[str, Any], folder: Path | None) -> str:
        """Return "words of the vocabulary …", with its digest."""
        if folder is None:
            words = cls.from_spec(spec, None).vocabulary
        else:
            words = Vocabulary.load(folder / VOCABULARY_FILE)
        return f"words of the vocabulary {words.digest}"

    def features(self, items: Items) -> Rows:
        """See `core.sources.vocabulary`. Rows of unreadable texts and of texts without words are empty."""
        texts = []
        for item in self.check_items(items).tolist():
            try:
                texts.append(self.read(item))
            except UnreadableTextError:
                texts.append("")
        return self.vocabulary.rows(texts)

    def problem(self, item: int) -> Problem:
        """See `Source.problem`."""
        try:
            blank = not self.read(item).strip()
        except UnreadableTextError as error:
            return Problem(item, self.name(item), str(error))
        reason = "it is empty" if blank else "it has no word of the pool's vocabulary"
        return Problem(item, self.name(item), reason)

    def image(self, item: int, size: int) -> Image.Image:
        """Return a thumbnail: the first lines on a square page, black on white."""
        page = _page(self.opening(self.text(item)), max(size, _SMALLEST_PAGE))
        return page.resize((size, size), Image.Resampling.LANCZOS) if page.width != size else page

    def grey(self, items: Items) -> tuple[NDArray[np.float32], list[Problem]]:
        """Return the pages that `image` shows, in grayscale; see `Source.grey`."""
        items = self.check_items(items)
        grey = np.zeros((len(items), GREY_SIZE, GREY_SIZE), dtype=np.float32)
        problems = []
        for row, item in enumerate(items.tolist()):
            try:
                grey[row] = grey_of(_page(self.opening(self.read(item)), _SMALLEST_PAGE))
            except UnreadableTextError as error:
                problems.append(Problem(item, self.name(item), str(error)))
        return grey, problems

    def save(self, folder: Path) -> None:
        """Save the vocabulary."""
        self.vocabulary.save(folder / VOCABULARY_FILE)

    def _known_texts(self) -> Iterator[str]:
        """Yield the texts from which the vocabulary is computed; a corpus may be larger than memory."""
        for item in np.setdiff1d(np.arange(len(self)), self.held_out()).tolist():
            try:
                yield self.read(item)
            except UnreadableTextError:
                if gone := self.vanished():
                    raise InputError(
                        f"{gone} no longer exists or is empty: try again when it is back"
                    ) from None


def require_length(n_bytes: int) -> None:
    """Raise UnreadableTextError if a text has too many bytes."""
    if n_bytes > LONGEST:
        raise UnreadableTextError(f"it has {n_bytes:,} bytes, but at most {LONGEST:,} are read")


def decoded(raw: bytes, encoding: str | None = None) -> str:
    """Decode bytes with the given encoding.

    Without an encoding, the bytes are decoded as UTF-8 or, if this fails, as Latin-1, which accepts any
    bytes.

    Raises
    ------
    UnreadableTextError
        If there are too many bytes, or they contain zero bytes.
    """
    require_length(len(raw))
    if b"\0" in raw:
        raise UnreadableTextError("it contains zero bytes, so it is not a text")
    if encoding is None:
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            encoding = "latin-1"
    return raw.decode(encoding)


def _page(text: str, side: int) -> Image.Image:
    page = Image.new("L", (side, side), "white")
    lines: list[str] = []
    for line in text[: 40 * _LINES * _COLUMNS].splitlines():
        lines += textwrap.wrap(line, _COLUMNS)
        if len(lines) >= _LINES:
            break
    height = 0.9 * side / _LINES
    ImageDraw.Draw(page).multiline_text(
        (0.06 * side, 0.05 * side),
        "\n".join(lines[:_LINES]),
        font=ImageFont.load_default(0.8 * height),
        fill=20,
        spacing=0.2 * height,
    )
    return page
