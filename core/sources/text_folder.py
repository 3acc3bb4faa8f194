"""A folder of text files, including its subfolders."""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.sources import listing
from closecall.core.sources.base import Items, Source
from closecall.core.sources.listing import Listing
from closecall.core.sources.passing import require_lasting
from closecall.core.sources.texts import (
    LONGEST,
    VOCABULARY_FILE,
    Texts,
    UnreadableTextError,
    decoded,
    require_length,
)
from closecall.core.sources.vocabulary import Vocabulary

LIST_FILE = "files.npz"


class TextFolder(Texts):
    """Source of all text files in a folder and its subfolders.

    See `core.sources.listing` for the order of the files and `core.sources.classes` for their classes.

    Parameters
    ----------
    path : Path
        The folder.
    use_classes : bool
        Whether to use folder names as classes, and to hold out a part of the texts for testing.
    files : Listing, optional
        Files that the folder had when the source was first made. By default, the files that it has now.
    vocabulary : Vocabulary, optional
        Vocabulary that the source had when it was first made. By default, a new one.

    Raises
    ------
    InputError
        If the folder does not exist or has no texts.
    """

    kind: ClassVar[str] = "texts"
    extensions: ClassVar[Collection[str]] = (".md", ".rst", ".text", ".txt")
    encoding: ClassVar[str | None] = None

    def __init__(
        self,
        path: Path,
        *,
        use_classes: bool = True,
        files: Listing | None = None,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        self.path = Path(os.path.realpath(path))
        self.use_classes = use_classes
        self.title = self._title()
        self.files = self._listed() if files is None else files
        self.classes = self.files.classes
        self._saved = vocabulary

    @cached_property
    def root(self) -> str:
        """Folder to which the files' paths are relative, with a trailing separator."""
        return os.path.join(self.path, "")  # noqa: PTH118 (ends with a separator)

    def _title(self) -> str:
        return f"Texts in {self.path.name or self.path}"

    def _listed(self) -> Listing:
        if not self.path.is_dir():
            raise InputError(f"there is no folder {self.path}")
        try:
            return listing.list_files(
                self.path, use_classes=self.use_classes, extensions=self.extensions, what="texts"
            )
        except OSError as error:
            raise InputError(f"the folder {self.path} can't be listed: {error.strerror}") from error

    def __len__(self) -> int:
        return len(self.files.paths)

    def spec(self) -> dict[str, Any]:
        """Return the source's settings, and digests of what `save` writes."""
        return {
            "kind": self.kind,
            "path": str(self.path),
            "use_classes": self.use_classes,
            "items": len(self),
            "digest": self.files.digest,
            "vocabulary": self.vocabulary.digest,
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None) -> Self:
        """Restore the source from the list and vocabulary saved in `folder`.

        If `folder` is None, list the files again, and compute a new vocabulary.
        See `Source.from_spec` for errors.
        """
        path = Path(spec["path"])
        files = None if folder is None else listing.load(folder / LIST_FILE)
        words = None if folder is None else Vocabulary.load(folder / VOCABULARY_FILE)
        source = cls(path, use_classes=spec["use_classes"], files=files, vocabulary=words)
        same = source.files.digest == spec["digest"] and source.vocabulary.digest == spec["vocabulary"]
        if not same and folder is None:
            raise InputError(
                f"{path} has changed: it had {spec['items']:,} texts, and now has {len(source):,}, "
                f"or different ones"
            )
        if not same:
            raise InputError(f"the list of texts in {folder} is damaged: build the pool again")
        return source

    def save(self, folder: Path) -> None:
        """Save the list of files and the vocabulary, so that new files do not change the existing items."""
        listing.save(self.files, folder / LIST_FILE)
        super().save(folder)

    def continuing(self, spec: dict[str, Any], folder: Path | None) -> Source:
        """See `Source.continuing`. New files come after the files of the earlier source."""
        known = {"kind": self.kind, "path": str(self.path), "use_classes": self.use_classes}
        if folder is None or any(spec.get(key) != value for key, value in known.items()):
            return self
        earlier = self.from_spec(spec, folder)
        files = listing.continued(earlier.files, self.files)
        return type(self)(self.path, use_classes=self.use_classes, files=files, vocabulary=earlier.vocabulary)

    def without_folder_classes(self) -> Source:
        """See `Source.without_folder_classes`."""
        if not self.use_classes:
            return self
        files = self.files.without_classes()
        return type(self)(self.path, use_classes=False, files=files, vocabulary=self._saved)

    def name(self, item: int) -> str:
        """Return the path relative to the folder, with slashes."""
        return self.names(np.array([item]))[0]

    def names(self, items: Items) -> list[str]:
        """See `Source.names`."""
        return [listing.as_text(self.files.paths[item]) for item in self.check_items(items).tolist()]

    def read(self, item: int) -> str:
        """See `Texts.read`."""
        try:
            with self._file(item).open("rb") as file:
                require_length(os.fstat(file.fileno()).st_size)
                return decoded(file.read(LONGEST + 1), self.encoding)
        except (OSError, MemoryError) as error:
            require_lasting(error, f"{self.name(item)} in {self.path}")
            reason = getattr(error, "strerror", "") or error
            raise UnreadableTextError(f"the file can't be read ({reason})") from error

    def vanished(self) -> Path | None:
        """See `Source.vanished`."""
        return listing.vanished(self.path, self.root, self.files)

    def original(self, item: int) -> Path:
        """See `Source.original`."""
        (item,) = self.check_items(np.array([item]))
        try:
            return self._file(item)
        except UnreadableTextError as error:
            raise InputError(f"{self.name(item)} in {self.path} can't be copied: {error}") from error

    def _file(self, item: int) -> Path:
        path = os.path.realpath(self.root + self.files.paths[item])
        # The file may have been replaced by a link since it was listed.
        if not path.startswith(self.root):
            raise UnreadableTextError("it is a link that leads outside the folder")
        return Path(path)

    def truth(self, items: Items) -> NDArray[np.int16]:
        """See `Source.truth`."""
        return self.files.truth[self.check_items(items)]

    def held_out(self) -> Items:
        """See `Source.held_out`; `core.sources.classes` chooses the texts."""
        return self.files.held_out
