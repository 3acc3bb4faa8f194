"""Copies of a project's label database: backup and restore."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from app.project_file import ProjectFile, checked_database, lock_project
from core.errors import InputError
from core.pool import Pool
from storage import Concepts, Database, LabelLog, StorageError, backup, restore
from storage.address import with_schema

IN_FOLDER = "sqlite"
"""Stands in the place of an address for a file in the project's folder."""


def backup_labels(project: Path, file: Path, *, overwrite: bool) -> None:
    """Copy the label database of a project to `file`; the project may be in use."""
    labels = ProjectFile.read(project).labels(project)
    with _force_is_offered():
        backup(labels, file, overwrite=overwrite)
    click.echo(f"The labels of {project} are in {file}")


def restore_labels(file: Path, project: Path, *, overwrite: bool, database: str | None = None) -> None:
    """Put a backup's labels into a project that nobody serves.

    Parameters
    ----------
    file : Path
        The backup.
    project : Path
        The project's folder.
    overwrite : bool
        Whether labels that are there may be set aside.
    database : str or None
        Where the project's labels are from then on: an address in PostgreSQL, or `IN_FOLDER`; where they are
        now if None.

    Raises
    ------
    InputError
        If the labels are about images that the project does not have.
    """
    if database != IN_FOLDER:
        database = checked_database(database)
    before = ProjectFile.read(project)
    after = before
    if database is not None:
        address = "" if database == IN_FOLDER else with_schema(database, project.resolve().name)
        after = replace(before, database=address)
    with lock_project(project):
        _require_same_images(file, project, before.pool_path(project))
        with _force_is_offered():
            aside = restore(file, after.labels(project), overwrite=overwrite)
        if after != before:
            after.write(project)
            click.echo(f"From now on {project} has its labels in {after.labels(project)}")
            click.echo(f"Those it had stay in {before.labels(project)}")
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
                    f"{file} holds the labels of other items: {concept.question!r} is about the class "
                    f"{concept.positive_class!r}, which {project} does not have"
                )
            items = log.answered_items(concept.id)
            absent = items[~np.isin(items, pool.ids)]
            if len(absent) and pool.complete:
                raise InputError(
                    f"{file} holds the labels of other items: {project} has no item {absent[0]} to label"
                )


@contextmanager
def _force_is_offered() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        if error.kind == "exists":
            raise InputError(f"{error}: add --force to replace it") from None
        raise
