"""Import other models' predictions, and list the models that have predictions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.exchange.importing import print_matches
from closecall.app.exchange.item_matching import Items, require_matches
from closecall.app.exchange.label_words import Meaning
from closecall.app.exchange.offline_project import one_concept, open_labels, open_pool
from closecall.app.projects.config import lock_project
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.sources.listing import as_text
from closecall.storage import ConceptRecord, Database
from closecall.storage.claims import Claim
from closecall.storage.imports import ImportFormat, digest_of, format_of, read_predictions
from closecall.storage.predictions import Predicted, Predictions
from closecall.storage.records import AnswerWord
from closecall.storage.tabular import shown


def import_predictions(
    project: Path, file: Path, *, form: ImportFormat | None, concept: str | None, model: str
) -> None:
    """Store another model's predictions for a concept.

    They replace the model's earlier predictions for the concept.

    Raises
    ------
    InputError, StorageError
        As in `import_labels`, and if an item has two predictions.
    """
    form, pool = form or format_of(file), open_pool(project)
    with lock_project(project), open_labels(project, write=True) as database:
        its = one_concept(database, concept)
        number, items = take_in_predictions(database, pool, file, form=form, concept=its, model=model)
    click.echo(
        f"{counted(number, 'prediction')} of {model} for {its.name!r} stored, separately from its labels."
    )
    print_matches(items)


def take_in_predictions(
    database: Database, pool: Pool, file: Path, *, form: ImportFormat, concept: ConceptRecord, model: str
) -> tuple[int, Items]:
    """Store a model's predictions for a concept.

    Return the number of predictions, and the matched and unmatched items of the file.
    """
    items, digest = Items(pool), digest_of(file)
    predicted = _predicted(read_predictions(file, form), concept, pool, items, file)
    number = Predictions(database).store(concept.id, model, predicted, file=as_text(file.name), digest=digest)
    return number, items


def _predicted(
    claims: Iterable[Claim], concept: ConceptRecord, pool: Pool, items: Items, file: Path
) -> Iterator[Predicted]:
    meaning = Meaning([concept], [concept], concept, pool.classes)
    is_there = np.zeros(len(pool.source), dtype=np.bool_)
    number = 0
    for claim in claims:
        word: AnswerWord | None = meaning.of(claim, file)[0][1] if claim.word else None
        if word not in ("yes", "no", None):
            raise InputError(
                f"{file}, {claim.place}: a prediction must be yes or no, got {shown(claim.word)}"
            )
        item = items.find(claim)
        if item is None:
            continue
        if is_there[item]:
            raise InputError(f"{file}, {claim.place}: item {item} has a prediction already")
        is_there[item] = True
        number += 1
        yield Predicted(item, claim.score, word)
    require_matches(items, number, file)
    if not number:
        raise InputError(f"{file} contains no predictions")


def print_predictions(project: Path) -> None:
    """List the models that have predictions in the project."""
    open_pool(project)
    with open_labels(project) as database:
        records = Predictions(database).all()
    if not records:
        click.echo("There are no predictions: closecall import PROJECT FILE --predictions MODEL adds some.")
    for its in records:
        agreement = f", {its.agree:,} of {its.labeled:,} labels agree" if its.labeled else ""
        click.echo(f"{its.model}: {its.items:,} items for {its.concept!r}, from {its.file}{agreement}")
