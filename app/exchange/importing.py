"""Labels and predictions into a project: nothing of a file, or all of it that is about the pool's items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

from app.exchange.matching import Items, require_matches
from app.exchange.meaning import Meaning
from app.exchange.opened import concept_named, one_concept, open_labels, open_pool
from app.project_file import lock_project
from core.errors import InputError
from core.pool import Pool
from core.sources.listing import as_text
from storage import AnswerRecord, Archive, ConceptRecord, Concepts, Database, LabelLog, SessionRecord
from storage.imports import (
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
from storage.predictions import Predicted, Predictions
from storage.records import AnswerWord
from storage.rows import now_ms
from storage.tabular import shown


@dataclass
class Imported:
    """What became of a file's labels.

    Parameters
    ----------
    lines : int
        Labels that the file holds.
    new, known, same : int
        Answers that were stored, that were there from the same file, and that their annotators had given
        already.
    contested : int
        New answers that another annotator contradicts.
    items : Items
        What matched, and what didn't.
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
    """Read the labels in `file` into the project's log, and say what became of them.

    Raises
    ------
    InputError, StorageError
        If the file is malformed, contradicts itself, or is about other items; nothing was stored then.
    """
    pool = open_pool(project)
    with lock_project(project), open_labels(project, write=True) as database:
        only = concept_named(database, concept)
        _tell(take_in(database, pool, file, form=form, concept=only, annotator=annotator), file)


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
    said = _said(read_labels(file, form), meaning, file, annotator, digest, imported)
    require_matches(imported.items, len(said), file)
    if not imported.lines:
        raise InputError(f"{file} holds no labels")
    _store(database, _news(database, said, imported), file, digest, imported)
    return imported


class _Subject(NamedTuple):
    """What a file can say one thing of: an item, by an annotator; or what is decided about it, by anybody."""

    concept: int
    item: int
    annotator: str | None


def _said(
    claims: Iterable[Claim],
    meaning: Meaning,
    file: Path,
    annotator: str,
    digest: str,
    imported: Imported,
) -> dict[_Subject, AnswerRecord]:
    """What the file says of each subject, once."""
    said: dict[_Subject, AnswerRecord] = {}
    places: dict[_Subject, str] = {}
    now = now_ms()
    for claim in claims:
        imported.lines += 1
        meant = meaning.of(claim, file)
        item = imported.items.find(claim)
        if item is None:
            continue
        by = claim.annotator or (annotator if claim.number == 1 else f"{annotator} {claim.number}")
        by = checked_annotator(by, f"{file}, {claim.place}")
        for concept, word in meant:
            key = _Subject(concept.id, item, None if claim.purpose == "decision" else by)
            answer = AnswerRecord(
                id="",
                concept_id=concept.id,
                session_id=session_id(digest, concept.id, by),
                annotator=by,
                item=item,
                answer=word,
                browser_time=now,
                purpose=claim.purpose,
            )
            before = said.get(key)
            if before is not None and before.answer != word and not claim.replaces:
                raise InputError(
                    f"{file}, {claim.place}: it says {word} of item {item}, where {places[key]} says "
                    f"{before.answer}: {shown(by)} can say one thing of an item"
                )
            said[key], places[key] = answer, claim.place
    return said


def _news(database: Database, said: dict[_Subject, AnswerRecord], imported: Imported) -> list[AnswerRecord]:
    """Those that are not what their annotator says already; of audited items none may train."""
    log, news = LabelLog(database), []
    states = {concept_id: log.state(concept_id) for concept_id in {key.concept for key in said}}
    for answer in said.values():
        state = states[answer.concept_id]
        if answer.purpose == "decision":
            if state.decision(answer.item) == answer.answer:
                imported.same += 1
            else:
                news.append(answer)
            continue
        votes = state.votes(answer.item)
        if votes.get(answer.annotator) == answer.answer:
            imported.same += 1
            continue
        others = {word for name, word in votes.items() if name != answer.annotator}
        imported.contested += answer.answer in ("yes", "no") and bool(
            others & ({"yes", "no"} - {answer.answer})
        )
        news.append(replace(answer, purpose="audit") if state.is_audited(answer.item) else answer)
    return news


def _store(database: Database, news: list[AnswerRecord], file: Path, digest: str, imported: Imported) -> None:
    sessions = {
        answer.session_id: SessionRecord(
            id=answer.session_id,
            concept_id=answer.concept_id,
            annotator=answer.annotator,
            seed=0,
            strategy=IMPORT,
            parameters={IMPORT: {"file": as_text(file.name), "digest": digest}},
        )
        for answer in news
    }
    named = (replace(answer, id=answer_id(digest, answer)) for answer in news)
    imported.new, imported.known = store(database, sessions.values(), named, now_ms())


def _tell(imported: Imported, file: Path) -> None:
    click.echo(f"{imported.new:,} labels of {file} are in the log.")
    if imported.known + imported.same:
        click.echo(f"{imported.known + imported.same:,} were there already, and are not stored again.")
    if imported.contested:
        click.echo(f"{imported.contested:,} contradict another annotator: the Review page lists them.")
    tell_matches(imported.items)


def tell_matches(items: Items) -> None:
    """Say what was matched by less than its whole name, and what by nothing."""
    if items.by_end:
        click.echo(f"{items.by_end:,} names were matched by the end of their path.")
    if items.unmatched.number:
        click.echo(f"{items.unmatched.number:,} are about no item that can be labeled:")
        for sentence in items.unmatched.told:
            click.echo(f"  {sentence}")
        if items.unmatched.number > len(items.unmatched.told):
            click.echo(f"  … and {items.unmatched.number - len(items.unmatched.told):,} more")


def import_predictions(
    project: Path, file: Path, *, form: ImportFormat | None, concept: str | None, model: str
) -> None:
    """Read another model's predictions from `file`, in place of those that it had.

    Raises
    ------
    InputError, StorageError
        As `import_labels`.
    """
    form, digest, pool = form or format_of(file), digest_of(file), open_pool(project)
    with lock_project(project), open_labels(project, write=True) as database:
        its = one_concept(database, concept)
        items = Items(pool)
        predicted = _predicted(read_predictions(file, form), its, pool, items, file)
        number = Predictions(database).store(its.id, model, predicted, file=as_text(file.name), digest=digest)
    click.echo(f"{number:,} predictions of {model} for {its.name!r} are beside its labels.")
    tell_matches(items)


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
            raise InputError(f"{file}, {claim.place}: item {item} has a prediction already, further up")
        is_there[item] = True
        number += 1
        yield Predicted(item, claim.score, word)
    require_matches(items, number, file)
    if not number:
        raise InputError(f"{file} holds no predictions")


def tell_predictions(project: Path) -> None:
    """List the models that have predictions in the project."""
    open_pool(project)
    with open_labels(project) as database:
        records = Predictions(database).all()
    if not records:
        click.echo("There are no predictions: marginalia import PROJECT FILE --predictions MODEL adds some.")
    for its in records:
        agreement = f", {its.agree:,} of {its.labeled:,} labels agree" if its.labeled else ""
        click.echo(f"{its.model}: {its.items:,} items for {its.concept!r}, from {its.file}{agreement}")
