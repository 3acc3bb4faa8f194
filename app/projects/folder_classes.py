"""Folder names that may be classes, and whether a question names one of them.

Folders may also sort items by date, camera or person. If folders are used as classes, some items are held out
and never labeled. The user therefore decides. Without a decision, folders are used as classes only if the
question names one of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from closecall.core.pool.manifest import MANIFEST
from closecall.core.sources import Source, source_from

OWN = ("digits", "images", "urls", "cifar10", "tiny", "newsgroups", "vectors", "points")
"""Kinds of source whose items have known classes, so that classes needn't be guessed from folders."""


def guess_class(question: str, classes: Sequence[str]) -> str | None:
    """Return the longest class name at the end of a question, such as "airplane" in "Is it an airplane?"."""
    asked = " " + " ".join(re.findall(r"[\w-]+", question.lower()))
    named = [name for name in classes if asked.endswith(" " + " ".join(re.findall(r"[\w-]+", name.lower())))]
    return max(named, key=len, default=None)


@dataclass(frozen=True)
class FolderClasses:
    """The folder names of a source that could be classes.

    Parameters
    ----------
    names : tuple of str
        The folder names; empty if there are none, or if the source has known classes.
    """

    names: tuple[str, ...]

    @classmethod
    def of(cls, word: str) -> FolderClasses:
        """Return the possible classes of a source (`core.sources.words`) or of the pool in a folder.

        Raises
        ------
        InputError
            If `word` is not a source, or the source can't be used.
        """
        if word.partition(":")[0] in OWN or (Path(word).expanduser() / MANIFEST).is_file():
            return cls(())
        names = source_from(word).classes
        return cls(names if names and not source_from(word, use_classes=False).classes else ())

    def positive(self, question: str, given: str | None) -> str | None:
        """Return the class that means yes: the `given` class or, without one, the class in the question."""
        return given or guess_class(question, self.names)


def chosen_source(
    word: str, question: str, positive: str | None, use_classes: bool | None
) -> tuple[Source, bool]:
    """Return the source, and whether its folders are classes.

    Parameters
    ----------
    word : str
        See `core.sources.words`.
    question : str
        The question, as a person typed it.
    positive : str or None
        The class that means yes, if given.
    use_classes : bool or None
        Whether folders are classes. If None, folders are classes if the question names one of them, or if
        `positive` is given.

    Raises
    ------
    InputError
        If the word is not a source, or the source can't be used.
    """
    source = source_from(word, use_classes=use_classes is not False)
    if use_classes is None:
        use_classes = FolderClasses(source.classes).positive(question, positive) is not None
        if source.classes and not use_classes:
            source = source_from(word, use_classes=False)
    return source, use_classes
