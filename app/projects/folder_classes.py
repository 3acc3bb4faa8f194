"""Names of folders that may be classes: which there are, and whether a question asks for one of them.

Folders by date, by camera or by person look like folders by class. What is taken for classes costs: a part of
the items is held out, and never labeled. So it is asked, and without an answer it is done only where the
question names one of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from closecall.core.pool.manifest import MANIFEST
from closecall.core.sources import Source, source_from

OWN = ("digits", "cifar10", "tiny", "newsgroups")
"""Kinds of source whose classes are known, whatever folders are called."""


def guess_class(question: str, classes: Sequence[str]) -> str | None:
    """The class that a question ends in: "airplane" in "Is it an airplane?"; the longest where several do."""
    asked = " " + " ".join(re.findall(r"[\w-]+", question.lower()))
    named = [name for name in classes if asked.endswith(" " + " ".join(re.findall(r"[\w-]+", name.lower())))]
    return max(named, key=len, default=None)


@dataclass(frozen=True)
class FolderClasses:
    """The names of folders that a source could take for classes.

    Parameters
    ----------
    names : tuple of str
        Empty where there are none, or where the source has classes of its own.
    """

    names: tuple[str, ...]

    @classmethod
    def of(cls, word: str) -> FolderClasses:
        """Return what a SOURCE word, or the folder of a pool, leaves to be chosen.

        Raises
        ------
        InputError
            If it names no source, or one that can't be used.
        """
        if word.partition(":")[0] in OWN or (Path(word).expanduser() / MANIFEST).is_file():
            return cls(())
        names = source_from(word).classes
        return cls(names if names and not source_from(word, use_classes=False).classes else ())

    def positive(self, question: str, given: str | None) -> str | None:
        """Return the class that means yes: the one that is given, or that the question names."""
        return given or guess_class(question, self.names)


def chosen_source(
    word: str, question: str, positive: str | None, use_classes: bool | None
) -> tuple[Source, bool]:
    """Return the source, and whether it takes folders for classes.

    Parameters
    ----------
    word : str
        See `core.sources.words`.
    question : str
        As a person asks it.
    positive : str or None
        The class that means yes, where it is given.
    use_classes : bool or None
        None: where the question names one, or one is given.

    Raises
    ------
    InputError
        If the word names no source, or one that can't be used.
    """
    source = source_from(word, use_classes=use_classes is not False)
    if use_classes is None:
        use_classes = FolderClasses(source.classes).positive(question, positive) is not None
        if source.classes and not use_classes:
            source = source_from(word, use_classes=False)
    return source, use_classes
