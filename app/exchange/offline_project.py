"""A project as the command line opens it: its pool, its database, and the concept that is meant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from closecall.app.projects.config import ProjectFile
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.storage import Archive, ConceptRecord, Concepts, Database


@contextmanager
def open_labels(project: Path, *, write: bool = False) -> Iterator[Database]:
    """The label database of a project, for reading unless said otherwise."""
    with Database.open(ProjectFile.read(project).labels(project), read_only=not write) as database:
        yield database


def open_pool(project: Path) -> Pool:
    """The pool of a project as it is now.

    Raises
    ------
    InputError
        If there is no project, or its pool can't be read.
    """
    return Pool.open(ProjectFile.read(project).pool_path(project))


def concept_named(database: Database, name: str | None) -> ConceptRecord | None:
    """The concept of this name; None without a name.

    Raises
    ------
    InputError
        If there is none.
    """
    if name is None:
        return None
    concepts = Concepts(database)
    found = concepts.named(name)
    if found is None:
        raise InputError(f"There is no concept {name!r} in this project; it has {_names(concepts.all())}")
    return found


def one_concept(database: Database, name: str | None) -> ConceptRecord:
    """The concept of this name; without a name the project's only one that is not put away.

    Raises
    ------
    InputError
        If there is none, or if there are several and no name.
    """
    found = concept_named(database, name)
    if found is not None:
        return found
    there = Archive(database).offered()
    if len(there) != 1:
        raise InputError(f"This project has {len(there)} concepts: name one by --concept ({_names(there)})")
    return there[0]


def _names(concepts: list[ConceptRecord]) -> str:
    return ", ".join(repr(concept.name) for concept in concepts) or "none"


def names_of(pool: Pool, items: Any) -> list[str]:
    """What a person would call some items; "" where a damaged log speaks of one that was never there."""
    wanted = np.asarray(items, dtype=np.int64)
    is_there = (wanted >= 0) & (wanted < len(pool.source))
    names = iter(pool.source.names(wanted[is_there]))
    return [next(names) if there else "" for there in is_there.tolist()]


@contextmanager
def written_whole(out: Path, *, binary: bool = False) -> Iterator[IO[Any]]:
    """A file to write to that appears under its name only when the block has ended without error."""
    half = out.with_name(out.name + ".tmp")
    try:
        with half.open("wb") if binary else half.open("w", encoding="utf-8", newline="") as stream:
            yield stream
        half.replace(out)
    finally:
        half.unlink(missing_ok=True)
