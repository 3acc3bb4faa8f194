"""Labels out of a project and back: export, backup, restore."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import numpy as np

from app.project_file import LABELS_FILE, ProjectFile, lock_project
from core.errors import InputError
from core.pool import Pool
from storage import Concepts, Database, LabelLog, StorageError, backup, export, restore
from storage.exports import Format


def export_labels(project: Path, *, form: Format, concept: str | None, log: bool, out: Path | None) -> None:
    """Write a project's labels to `out`, atomically, or to stdout."""
    file = ProjectFile.read(project)
    name = _names(file.pool_path(project))
    with Database.open(project / LABELS_FILE, read_only=True) as database:
        concept_id = _concept_id(database, concept)
        if out is None:
            export(database, sys.stdout, format=form, concept_id=concept_id, log=log, name_of=name)
            return
        half = out.with_name(out.name + ".tmp")
        try:
            with half.open("w", encoding="utf-8", newline="") as stream:
                rows = export(database, stream, format=form, concept_id=concept_id, log=log, name_of=name)
            half.replace(out)
        finally:
            half.unlink(missing_ok=True)
    click.echo(f"{rows:,} rows in {out}")


def _concept_id(database: Database, name: str | None) -> int | None:
    if name is None:
        return None
    concepts = Concepts(database)
    found = concepts.named(name)
    if found is None:
        there = ", ".join(repr(concept.name) for concept in concepts.all())
        raise InputError(f"There is no concept {name!r} in this project; it has {there}")
    return found.id


def _names(pool_path: Path) -> Callable[[int], str] | None:
    """What a person would call an item: a function of its id; ids alone where the pool can't be opened."""
    try:
        return Pool.open(pool_path).source.name
    except InputError as error:
        click.echo(f"Warning: item names are left out, since the pool can't be read: {error}", err=True)
        return None


def backup_labels(project: Path, file: Path, *, overwrite: bool) -> None:
    """Copy the label database of a project to `file`; the project may be in use."""
    ProjectFile.read(project)
    with _force_is_offered():
        backup(project / LABELS_FILE, file, overwrite=overwrite)
    click.echo(f"The labels of {project} are in {file}")


def restore_labels(file: Path, project: Path, *, overwrite: bool) -> None:
    """Put a backup's labels into a project that nobody serves.

    Raises
    ------
    InputError
        If the labels are about images that the project does not have.
    """
    pool_path = ProjectFile.read(project).pool_path(project)
    with lock_project(project):
        _require_same_images(file, project, pool_path)
        with _force_is_offered():
            aside = restore(file, project / LABELS_FILE, overwrite=overwrite)
    said = f"; those it had are in {aside}" if aside else ""
    click.echo(f"{project} has the labels of {file}{said}")


def _require_same_images(file: Path, project: Path, pool_path: Path) -> None:
    """Refuse labels whose items or classes the project's pool does not have."""
    pool = Pool.open(pool_path)
    with Database.open(file, read_only=True) as database:
        log = LabelLog(database)
        for concept in Concepts(database).all():
            if concept.positive_class is not None and concept.positive_class not in pool.classes:
                raise InputError(
                    f"{file} holds the labels of other images: {concept.question!r} is about the class "
                    f"{concept.positive_class!r}, which {project} does not have"
                )
            items = log.answered_items(concept.id)
            absent = items[~np.isin(items, pool.ids)]
            if len(absent) and pool.complete:
                raise InputError(
                    f"{file} holds the labels of other images: {project} has no item {absent[0]} to label"
                )


@contextmanager
def _force_is_offered() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        if error.kind == "exists":
            raise InputError(f"{error}: add --force to replace it") from None
        raise
