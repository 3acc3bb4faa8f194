"""Import labels and predictions from files.

An import stores everything in the file that is about items of the pool. If the file has an error, the import
stores nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from closecall.app.display.phrases import counted
from closecall.app.exchange.item_matching import Items, require_matches
from closecall.app.exchange.label_words import Meaning
from closecall.app.exchange.offline_project import concept_named, one_concept, open_labels, open_pool
from closecall.app.exchange.statements import Statement, Statements
from closecall.app.projects.config import lock_project
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.sources.listing import as_text
from closecall.storage import (
    AnswerRecord,
    Archive,
    ConceptRecord,
    Concepts,
    Database,
    LabelLog,
    SessionRecord,
    StorageError,
)
from closecall.storage.imports import (
    IMPORT,
    Claim,
    ImportFormat,
    answer_id,
    checked_annotator,
    digest_of,
    format_of,
    read_labels,
    read_predictions,
    session_id,
    store,
)
from closecall.storage.predictions import Predicted, Predictions
from closecall.storage.records import AnswerWord
from closecall.storage.rows import now_ms
from closecall.storage.tabular import shown


@dataclass
class Imported:
    """Counts of an import.

    Parameters
    ----------
    lines : int
        Number of labels in the file.
    new : int
        Number of answers that were stored.
    known : int
        Number of answers that an earlier import of this file had stored.
    same : int
        Number of answers that equal the current answers in the log, and are not stored again.
    contested : int
        Number of new yes and no answers that contradict the answer of another annotator.
    items : Items
        Matched and unmatched items.
    """

    items: Items
    lines: int = 0
    new: int = 0
    known: int = 0
    same: int = 0
    contested: int = 0


def import_labels(
    project: Path, file: Path, *, form: ImportFormat | None, concept: str | None, annotator: str
) -> None:
    """Read the labels in `file` into the project's log and print what was imported.

    Raises
    ------
    InputError, StorageError
        If the file is malformed, contradicts itself, or is about no item of the pool, or if the project is
        being served. In these cases nothing is stored.
    """
    pool = open_pool(project)
    with lock_project(project), open_labels(project, write=True) as database:
        only = concept_named(database, concept)
        _print(take_in(database, pool, file, form=form, concept=only, annotator=annotator), file)


def take_in(
    database: Database,
    pool: Pool,
    file: Path,
    *,
    form: ImportFormat | None = None,
    concept: ConceptRecord | None = None,
    annotator: str = IMPORT,
) -> Imported:
    """Store the labels in `file` that are about the pool's items; see `import_labels`."""
    form, digest = form or format_of(file), digest_of(file)
    offered = Archive(database).offered()
    meaning = Meaning(Concepts(database).all(), offered, concept, pool.classes)
    imported = Imported(Items(pool))
    statements = _statements(read_labels(file, form), meaning, file, annotator, imported)
    require_matches(imported.items, len(statements), file)
    if not imported.lines:
        raise InputError(f"{file} contains no labels")
    _store(database, statements, file, digest, imported)
    return imported


def _statements(
    claims: Iterable[Claim], meaning: Meaning, file: Path, annotator: str, imported: Imported
) -> Statements:
    """Collect the file's statements about items that can be labeled."""
    statements = Statements()
    try:
        for claim in claims:
            imported.lines += 1
            meant = meaning.of(claim, file)
            item = imported.items.find(claim)
            if item is None:
                continue
            by = claim.annotator or (annotator if claim.number == 1 else f"{annotator} {claim.number}")
            by = checked_annotator(by, f"{file}, {claim.place}")
            for concept, word in meant:
                statement = Statement(concept.id, item, by, word, claim.purpose)
                statements.add(statement, claim.place, replaces=claim.replaces)
    except (InputError, StorageError):
        _require_consistent(statements, file)  # reports a contradiction on an earlier line instead
        raise
    _require_consistent(statements, file)
    return statements


def _require_consistent(statements: Statements, file: Path) -> None:
    """Raise InputError if the file contradicts itself."""
    both = statements.contradiction()
    if both is not None:
        before, its = statements.at(np.array(both))
        first, place = map(statements.place, both)
        raise InputError(
            f"{file}, {place}: item {its.item} is labeled {its.word} here but {before.word} in {first}: "
            f"{shown(its.annotator)} can have only one answer per item"
        ) from None


def _changes(
    database: Database, statements: Statements, imported: Imported
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the indices of the file's statements that change the log, and a mask of the same length.

    The mask marks statements about audited items. The statements that change nothing, and new contradictions
    between annotators, are counted in `imported`.
    """
    log, settled = LabelLog(database), statements.settled()
    states = {concept_id: log.state(concept_id) for concept_id in statements.concepts()}
    is_new, is_audited = np.ones((2, len(settled)), dtype=np.bool_)
    for number, its in enumerate(statements.at(settled)):
        state = states[its.concept]
        is_audited[number] = its.purpose != "decision" and state.is_audited(its.item)
        if its.purpose == "decision":
            is_new[number] = state.decision(its.item) != its.word
            continue
        votes = state.votes(its.item)
        if votes.get(its.annotator) == its.word:
            is_new[number] = False
            continue
        others = {word for name, word in votes.items() if name != its.annotator}
        imported.contested += its.word in ("yes", "no") and bool(others & ({"yes", "no"} - {its.word}))
    imported.same = len(settled) - int(np.count_nonzero(is_new))
    return settled[is_new], is_audited[is_new]


def _store(database: Database, statements: Statements, file: Path, digest: str, imported: Imported) -> None:
    """Store the new statements as answers; answers about audited items are not used for training."""
    news, is_audited = _changes(database, statements, imported)
    speakers = dict.fromkeys((its.concept, its.annotator) for its in statements.at(news))
    ids = {(concept, by): session_id(digest, concept, by) for concept, by in speakers}
    sessions = (
        SessionRecord(
            id=ids[concept, by],
            concept_id=concept,
            annotator=by,
            seed=0,
            strategy=IMPORT,
            parameters={IMPORT: {"file": as_text(file.name), "digest": digest}},
        )
        for concept, by in speakers
    )
    now = now_ms()
    answers = (
        AnswerRecord(
            id="",
            concept_id=its.concept,
            session_id=ids[its.concept, its.annotator],
            annotator=its.annotator,
            item=its.item,
            answer=its.word,
            browser_time=now,
            purpose="audit" if audited else its.purpose,
        )
        for its, audited in zip(statements.at(news), is_audited, strict=True)
    )
    named = (replace(answer, id=answer_id(digest, answer)) for answer in answers)
    imported.new, imported.known = store(database, sessions, named, now)


def _print(imported: Imported, file: Path) -> None:
    click.echo(f"{counted(imported.new, 'label')} of {file} stored in the log.")
    if imported.known + imported.same:
        click.echo(f"{imported.known + imported.same:,} stored already, and not stored again.")
    if imported.contested:
        click.echo(f"{imported.contested:,} in conflict with another annotator: the Review page lists them.")
    print_matches(imported.items)


def print_matches(items: Items) -> None:
    """Print how many names were matched by the end of a path, and which lines matched no item."""
    if items.by_end:
        click.echo(f"{counted(items.by_end, 'name')} matched by the end of the path.")
    if items.unmatched.number:
        click.echo(f"{items.unmatched.number:,} without an item that can be labeled:")
        for sentence in items.unmatched.listed:
            click.echo(f"  {sentence}")
        if items.unmatched.number > len(items.unmatched.listed):
            click.echo(f"  … and {items.unmatched.number - len(items.unmatched.listed):,} more")


def import_predictions(
    project: Path, file: Path, *, form: ImportFormat | None, concept: str | None, model: str
) -> None:
    """Store another model's predictions for a concept; they replace its earlier predictions for the concept.

    Raises
    ------
    InputError, StorageError
        As in `import_labels`, and if an item has two predictions.
    """
    pool = open_pool(project)
    with lock_project(project), open_labels(project, write=True) as database:
        its = one_concept(database, concept)
        number, items = take_in_predictions(database, pool, file, form=form, concept=its, model=model)
    click.echo(
        f"{counted(number, 'prediction')} of {model} for {its.name!r} stored, separately from its labels."
    )
    print_matches(items)


def take_in_predictions(
    database: Database,
    pool: Pool,
    file: Path,
    *,
    form: ImportFormat | None = None,
    concept: ConceptRecord,
    model: str,
) -> tuple[int, Items]:
    """Store the predictions in `file`; return their number, and the items. See `import_predictions`."""
    form, digest, items = form or format_of(file), digest_of(file), Items(pool)
    predicted = _predicted(read_predictions(file, form), concept, pool, items, file)
    stored = Predictions(database).store(concept.id, model, predicted, file=as_text(file.name), digest=digest)
    return stored, items


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
