"""Folder names that may be classes, and whether a question names one of them.

Folders may also sort items by date, camera or person. If folders are used as classes, some items are held out
and never labeled. The user therefore decides. Without a decision, folders are used as classes only if the
question names one of them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from closecall.app.projects.positive_class import guess_class
from closecall.core.files.typed import existing_path
from closecall.core.pool.manifest import MANIFEST
from closecall.core.sources import Source, classes, source_from


@dataclass(frozen=True)
class FolderClasses:
    """The folder names of a source that could be classes.

    Parameters
    ----------
    names : tuple of str
        The folder names; empty if there are none, or if the classes come from something else.
    """

    names: tuple[str, ...]

    @classmethod
    def of(cls, source: Source | None) -> FolderClasses:
        """Return the possible classes of a source; none if `source` is None, as for an existing pool."""
        if source is None or not source.classes or source.without_folder_classes().classes:
            return cls(())
        return cls(source.classes)

    def positive(self, question: str, given: str | None) -> str | None:
        """Return the class that means yes, or None if no class does.

        If `given` is None, this is the class that the question names. Otherwise it is `given`, where ""
        stands for no class.
        """
        return guess_class(question, self.names) if given is None else given or None


def classes_of_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the folder names that may be classes, from the images' relative paths (with slashes)."""
    return classes.of(Path("/nowhere"), [path.replace("/", os.sep) for path in paths])[0]


def given_source(word: str, provider: str | None = None) -> Source | None:
    """Return the source that `word` describes (`core.sources.words`), or None if it is a pool's folder.

    Parameters
    ----------
    word : str
        The word for the source.
    provider : str or None
        The execution provider of a model; see `core.sources.words`.

    Raises
    ------
    InputError
        If `word` is not a source, or the source can't be used.
    """
    return source_from(word, provider=provider) if existing_path(Path(word) / MANIFEST) is None else None


def chosen_source(
    source: Source, question: str, positive: str | None, use_classes: bool | None
) -> tuple[Source, bool]:
    """Return the source with or without classes from folders, and whether its folders are classes.

    Parameters
    ----------
    source : Source
        The source, with classes from folders if it has any.
    question : str
        The question, as a person typed it.
    positive : str or None
        The class that means yes, if given.
    use_classes : bool or None
        Whether folders are classes. If None, folders are classes if the question names one of them, or if
        `positive` is given.
    """
    if use_classes is None:
        use_classes = FolderClasses(source.classes).positive(question, positive) is not None
    return source if use_classes else source.without_folder_classes(), use_classes
