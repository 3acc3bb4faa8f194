"""Import rows that a program sends while the project is served, and write exports to a temporary file.

Rows are imported like the lines of a file, so that both are checked alike.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from closecall.app.exchange.importing import take_in
from closecall.app.exchange.label_studio_tasks import Wishes
from closecall.app.exchange.predicted import take_in_predictions
from closecall.app.exchange.reading import Imported, Manner
from closecall.core.errors import InputError
from closecall.storage import ConceptRecord
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from closecall.app.exchange.item_matching import Items
    from closecall.app.projects.project import Project
    from closecall.core.pool.pool import Pool

NAME = "rows.jsonl"
"""Name of the temporary file with the rows; the log keeps it as the name of the imported file."""

Row = Mapping[str, Any]


def add_labels(
    project: Project, concept: ConceptRecord, rows: Sequence[Row], annotator: str
) -> dict[str, Any]:
    """Store labels; return counts as in `Imported`, and the rows that match no item.

    Each row has `label`, and `item` or `name`. A row without `annotator` gets the argument `annotator`.
    Labels that are in force already are not stored again. If a row is malformed, no row is stored.

    Raises
    ------
    InputError, StorageError
        As for `importing.take_in`, or if the pool has no items yet.
    """
    with _as_file(rows) as file:
        manner = Manner(concept=concept, annotator=annotator, mirrors=True)
        imported = take_in(project.database, _pool(project), file, form="jsonl", manner=manner)
    return {**_numbers(imported), **_unmatched(imported.items)}


def add_predictions(
    project: Project, concept: ConceptRecord, rows: Sequence[Row], model: str
) -> dict[str, Any]:
    """Replace a model's predictions; return how many are stored, and the rows that match no item.

    Each row has `item` or `name`, and `score`, `label` or both.

    Raises
    ------
    InputError, StorageError
        As for `predicted.import_predictions`, or if the pool has no items yet.
    """
    with _as_file(rows) as file:
        number, items = take_in_predictions(
            project.database, _pool(project), file, form="jsonl", concept=concept, model=model
        )
    return {"stored": number, **_unmatched(items)}


def _pool(project: Project) -> Pool:
    if project.pool is None:
        raise InputError("The pool has no items yet")
    return project.pool


@contextmanager
def _as_file(rows: Sequence[Row]) -> Iterator[Path]:
    """Write the rows to a temporary file; errors name the rows instead of this file."""
    with tempfile.TemporaryDirectory(prefix="closecall-rows-") as folder:
        file = Path(folder) / NAME
        with file.open("w", encoding="utf-8") as stream:
            for row in rows:
                stream.write(json.dumps(row) + "\n")
        try:
            yield file
        except (InputError, StorageError) as error:
            sentence = str(error).replace(f"{file}, line ", "Row ").replace(str(file), "The request")
            sentence = re.sub(r"\bline (\d+)", r"row \1", sentence)
            if isinstance(error, StorageError):
                raise StorageError(sentence, error.kind) from None
            raise InputError(sentence) from None


def _numbers(imported: Imported) -> dict[str, int]:
    return {
        "new": imported.new,
        "known": imported.known,
        "same": imported.same,
        "contested": imported.contested,
    }


def _unmatched(items: Items) -> dict[str, Any]:
    return {"unmatched": items.unmatched.number, "examples": list(items.unmatched.listed)}


@contextmanager
def exported(
    project: Project,
    concept: ConceptRecord | None,
    form: Literal["csv", "jsonl", "label-studio"],
    *,
    log: bool,
) -> Iterator[IO[bytes]]:
    """Write an export to a temporary file, and yield it, opened at its beginning."""
    from closecall.app.exchange.exporting import options_of
    from closecall.storage import export

    settings = project.store.file

    with tempfile.TemporaryFile() as file:
        with open(file.fileno(), "w", encoding="utf-8", newline="", closefd=False) as stream:
            options = options_of(
                project.database,
                project.pool,
                concept,
                form,
                log=log,
                wishes=Wishes(users=settings.label_studio_users),
                description=settings.description,
            )
            export(project.database, stream, **options)
        file.seek(0)
        yield file
