"""Open a project for the command line: its pool, its database and the chosen concept."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from closecall.app.projects.config import ProjectFile, lock_project
from closecall.app.projects.questions import meant_by
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.storage import Archive, ConceptRecord, Concepts, Database, StorageError


@contextmanager
def open_labels(project: Path, *, write: bool = False) -> Iterator[Database]:
    """Open a project's label database, read-only unless `write` is true.

    Raises
    ------
    StorageError
        As for `Database.open`. With `write`, also if a server, perhaps on another machine, has the PostgreSQL
        database open.
    """
    labels = ProjectFile.read(project).labels(project)
    with Database.open(labels, read_only=not write, alone=write) as database:
        yield database


@contextmanager
def open_beside_server(project: Path) -> Iterator[Database]:
    """Open a project's label database for writing, even while another process serves the project.

    Write only settings, because a server also keeps the answers in memory. A database of an older version is
    upgraded first, but not while another process serves it.

    Raises
    ------
    InputError
        If there is no project, or it is served by an older version.
    StorageError
        If the database can't be used.
    """
    labels = ProjectFile.read(project).labels(project)
    with ExitStack() as opened:
        try:
            Database.open(labels, read_only=True).close()
        except StorageError as error:
            if error.kind != "older":
                raise
            opened.callback(lock_project(project).release)
        yield opened.enter_context(Database.open(labels, copies_in=project))


def open_pool(project: Path) -> Pool:
    """Open the project's pool in its current state, complete or not.

    Raises
    ------
    InputError
        If there is no project, or its pool can't be read.
    """
    return Pool.open(ProjectFile.read(project).pool_path(project))


def concept_named(database: Database, name: str | None) -> ConceptRecord | None:
    """Return the concept with this name or question, or None if no name is given; see `questions.meant_by`.

    Raises
    ------
    InputError
        If there is no such concept, or several.
    """
    if name is None:
        return None
    concepts = Concepts(database).all()
    found = meant_by(name, concepts, Archive(database).offered())
    if not found:
        raise InputError(f"There is no concept {name!r} in this project; it has {_names(concepts)}")
    if len(found) > 1:
        raise InputError(f"Several concepts resemble {name!r}: give the exact name of one ({_names(found)})")
    return found[0]


def one_concept(database: Database, name: str | None) -> ConceptRecord:
    """Return the concept with this name or, if no name is given, the project's only active concept.

    Raises
    ------
    InputError
        If there is no such concept, or if no name is given and the number of active concepts is not one.
    """
    found = concept_named(database, name)
    if found is not None:
        return found
    there = Archive(database).offered()
    if len(there) != 1:
        raise InputError(
            f"This project has {len(there)} concepts: choose one with --concept ({_names(there)})"
        )
    return there[0]


def _names(concepts: list[ConceptRecord]) -> str:
    return ", ".join(repr(concept.name) for concept in concepts) or "none"


def names_of(pool: Pool, items: Any) -> list[str]:
    """Return the names of items, with "" for items that do not exist, which a damaged log may contain."""
    wanted = np.asarray(items, dtype=np.int64)
    is_there = (wanted >= 0) & (wanted < len(pool.source))
    names = iter(pool.source.names(wanted[is_there]))
    return [next(names) if there else "" for there in is_there.tolist()]


def require_absent(out: Path | None, *, force: bool) -> None:
    """Check that an export overwrites no file, unless `force` is true.

    Raises
    ------
    InputError
        If `out` exists and `force` is false.
    """
    if out is not None and out.is_file() and not force:
        raise InputError(f"{out} exists already: add --force to overwrite it")


def require_csv(form: str, bom: bool) -> None:
    """Check that a byte order mark is wanted only for CSV.

    Raises
    ------
    InputError
        If `bom` is true and `form` is another format.
    """
    if bom and form != "csv":
        raise InputError(f"--bom is for csv, not for {form}")


@contextmanager
def written_whole(out: Path, *, binary: bool = False) -> Iterator[IO[Any]]:
    """Open a new file, which becomes `out` only if the ``with`` block ends without an error.

    Raises
    ------
    InputError
        If the folder of `out` does not exist.
    """
    _require_folder_of(out)
    half = out.with_name(out.name + ".tmp")
    try:
        with half.open("wb") if binary else half.open("w", encoding="utf-8", newline="") as stream:
            yield stream
        half.replace(out)
    finally:
        half.unlink(missing_ok=True)


@contextmanager
def folder_written_whole(out: Path) -> Iterator[Path]:
    """Create a folder, which becomes `out` only if the ``with`` block ends without an error.

    Until then the folder has a hidden name. If a killed command has left a folder with this name, that folder
    is replaced.

    Raises
    ------
    InputError
        If the folder of `out` does not exist.
    """
    _require_folder_of(out)
    half = out.with_name(f".{out.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()
    try:
        yield half
        if out.exists():
            out.rmdir()
        half.replace(out)
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _require_folder_of(out: Path) -> None:
    if not out.parent.is_dir():
        raise InputError(f"There is no folder {out.parent}: create it first")
