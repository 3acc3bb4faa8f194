"""Back up and restore a project's labels and the uploads that they refer to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from closecall.app.projects.config import ProjectFile, checked_database, lock_project
from closecall.app.projects.uploads import Uploads
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.storage import Concepts, Database, LabelLog, StorageError, backup, carried, restore
from closecall.storage.address import with_schema
from closecall.storage.carried import Upload

IN_FOLDER = "sqlite"
"""Word given instead of a PostgreSQL address to keep the labels in a file in the project's folder."""


def backup_labels(project: Path, file: Path, *, overwrite: bool) -> None:
    """Copy a project's label database and its uploads to `file`; the project may be in use.

    Raises
    ------
    InputError, StorageError
        If there is no project, if `file` exists and may not be overwritten, or if the copy fails.
    """
    labels = ProjectFile.read(project).labels(project)
    whole, damaged = 0, []

    def uploads() -> Iterator[Upload]:
        nonlocal whole
        for digest, upload in Uploads(project).all():
            if upload is None:
                damaged.append(digest)
            else:
                whole += 1
                yield upload

    with _force_is_offered():
        backup(labels, file, overwrite=overwrite, uploads=uploads())
    click.echo(f"The labels of {project} are in {file}")
    if whole:
        click.echo(f"Uploaded images that go with them: {whole:,}")
    for digest in damaged:
        click.echo(f"Warning: the upload {digest} is left out, because it is damaged", err=True)


def restore_labels(file: Path, project: Path, *, overwrite: bool, database: str | None = None) -> None:
    """Restore the labels and uploads of a backup into a project that is not being served.

    If this fails, nothing is restored.

    Parameters
    ----------
    file : Path
        The backup.
    project : Path
        The project's folder.
    overwrite : bool
        Whether the project's existing labels may be replaced. They are kept under another name.
    database : str or None
        New place of the project's labels: a PostgreSQL address or `IN_FOLDER`. None keeps the current place.

    Raises
    ------
    InputError, StorageError
        If the project is being served, if the backup is damaged or its labels are about items that the
        project does not have, or if the project has labels and `overwrite` is false.
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
        # The log may only refer to uploads that exist, so the uploads are restored before the labels.
        with _force_is_offered(), Uploads(project).taken_in(carried.read(file), file) as number:
            aside = restore(file, after.labels(project), overwrite=overwrite)
        if after != before:
            after.write(project)
            click.echo(f"{project} now keeps its labels in {after.labels(project)}")
            click.echo(f"Its former labels stay in {before.labels(project)}")
    note = f"; its former labels are in {aside}" if aside else ""
    click.echo(f"{project} has the labels of {file}{note}")
    if number:
        click.echo(f"Uploaded images that came with them: {number:,}")


def _require_same_images(file: Path, project: Path, pool_path: Path) -> None:
    """Raise InputError if the labels are about items or classes that the project's pool does not have."""
    pool = Pool.open(pool_path)
    with _up_to_date(file, project) as database:
        log = LabelLog(database)
        for concept in Concepts(database).all():
            if concept.positive_class is not None and concept.positive_class not in pool.classes:
                raise InputError(
                    f"{file} contains labels of other items: {concept.question!r} is about the class "
                    f"{concept.positive_class!r}, which {project} does not have"
                )
            items = log.answered_items(concept.id)
            absent = items[~pool.have_rows(items)]
            if not pool.complete or not len(absent):
                continue
            # An answer without a selection may name any item, but imported answers were matched to the pool.
            unasked = {
                answer.item
                for answer in log.answers_after(concept.id)
                if answer.selection_id is None and answer.purpose != "import"
            }
            if asked := sorted(set(absent.tolist()) - unasked):
                raise InputError(
                    f"{file} contains labels of other items: {project} has no item {asked[0]} to label"
                )


@contextmanager
def _up_to_date(file: Path, project: Path) -> Iterator[Database]:
    """Open the backup's labels for reading; if their version is older, open an upgraded copy."""
    try:
        database = Database.open(file, read_only=True)
    except StorageError as error:
        if error.kind != "older":
            raise
        with TemporaryDirectory(dir=project, prefix=".restoring-") as scratch:
            restore(file, Path(scratch) / file.name)
            with Database.open(Path(scratch) / file.name, backup_before_migration=False) as newer:
                yield newer
        return
    with database:
        yield database


@contextmanager
def _force_is_offered() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        if error.kind == "exists":
            raise InputError(f"{error.full}: add --force to replace it") from None
        raise
