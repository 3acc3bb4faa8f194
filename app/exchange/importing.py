"""Import labels from files.

An import stores everything in the file that is about items of the pool and not in the log yet. If the file
has an error, the import stores nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from closecall.app.display.phrases import counted
from closecall.app.exchange.item_matching import Items, require_matches
from closecall.app.exchange.label_studio_users import ask_for_users
from closecall.app.exchange.offline_project import concept_named, open_labels, open_pool
from closecall.app.exchange.reading import Imported, Manner, Reading
from closecall.app.exchange.statements import Statement, Statements
from closecall.app.exchange.withdrawals import subjects, undo_of
from closecall.app.projects.config import ProjectFile, lock_project
from closecall.app.projects.roles import Roles, spelled_otherwise
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.sources.listing import as_text
from closecall.storage import AnswerRecord, Database, LabelLog, SessionRecord
from closecall.storage.imports import IMPORT, ImportFormat, answer_id, digest_of, format_of, session_id, store
from closecall.storage.in_force import answers_with, in_force
from closecall.storage.label_studio_reading import Survey, survey
from closecall.storage.rows import now_ms
from closecall.storage.tabular import batched

_BLOCK = 10_000


def import_labels(
    project: Path,
    file: Path,
    *,
    form: ImportFormat | None,
    concept: str | None,
    annotator: str,
    users: Mapping[str, str] | None = None,
    owners: Iterable[str] = (),
    withdraw_missing: bool = False,
) -> None:
    """Read the labels in `file` into the project's log and print what was imported.

    `users` maps the number or e-mail address of a user of Label Studio to an annotator. This mapping is
    stored in the project file. At a terminal, the program asks for the annotators of unknown users.
    `owners` are owners besides those in the project file. If there are none, everybody is an owner.

    Raises
    ------
    InputError, StorageError
        If the file is malformed, contradicts itself, or is about no item of the pool, if users are unknown,
        or if the project is being served. In these cases nothing is stored.
    """
    form, pool, settings = form or format_of(file), open_pool(project), ProjectFile.read(project)
    known = {**settings.label_studio_users, **(users or {})}
    surveyed = survey(file) if form == "label-studio" else Survey()
    known |= ask_for_users(surveyed, known)
    roles = Roles.of([*settings.owners, *owners])
    with lock_project(project), open_labels(project, write=True) as database:
        manner = Manner(
            concept=concept_named(database, concept),
            annotator=annotator,
            users=known,
            withdraw_missing=withdraw_missing,
            may_decide=lambda name: roles.person(name).is_owner,
        )
        imported = take_in(database, pool, file, form=form, manner=manner, surveyed=surveyed)
        if known != settings.label_studio_users:
            ProjectFile.change(project, label_studio_users=known)
        _print(imported, file)


def take_in(
    database: Database,
    pool: Pool,
    file: Path,
    *,
    form: ImportFormat | None = None,
    manner: Manner | None = None,
    surveyed: Survey | None = None,
) -> Imported:
    """Store the labels in `file` that are about the pool's items; see `import_labels`.

    `surveyed` is the result of `label_studio_reading.survey`, if it is known.
    """
    form, digest, manner = form or format_of(file), digest_of(file), manner or Manner()
    if surveyed is None:
        surveyed = survey(file) if form == "label-studio" else Survey()
    imported = Imported(Items(pool))
    reading = Reading(database, pool, file, form, manner, surveyed, imported)
    statements = reading.statements()
    require_matches(imported.items, len(statements), file)
    if not imported.lines and not reading.has_withdrawals:
        raise InputError(f"{file} contains no labels")
    if manner.mirrors:
        digest = _digest_now(database, statements, digest)
    _store(database, statements, reading.undone(), file, digest, imported)
    return imported


def _digest_now(database: Database, statements: Statements, digest: str) -> str:
    """Return a digest of the file's digest and of the newest answers in the log about the same items.

    If a request is repeated before anything else is stored, the digest is the same.
    """
    newest = list[tuple[int, int, int]]()
    settled = list(statements.at(statements.settled()))
    for concept in sorted(statements.concepts()):
        stored = in_force(database, concept, sorted({its.item for its in settled if its.concept == concept}))
        newest += [(concept, item, answers[-1].seq) for item, answers in sorted(stored.items())]
    return blake2b(f"{digest} {newest}".encode(), digest_size=16).hexdigest() if newest else digest


def _changes(
    database: Database, statements: Statements, undone: Sequence[AnswerRecord], imported: Imported
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the indices of the file's statements that change the log, and two masks of the same length.

    The first mask marks statements about audited items. The second marks statements whose answers can be
    stored with the ids that the file gives them. The statements that change nothing, and new contradictions
    between annotators about items without an adjudication, are counted in `imported`.
    """
    log, settled = LabelLog(database), statements.settled()
    states = {concept_id: log.state(concept_id) for concept_id in statements.concepts()}
    for said in undone:
        if (state := states.get(said.concept_id)) is not None:
            state.apply(replace(undo_of(said, "", 0), seq=state.seq + 1))
    is_new, is_audited, keeps_id = np.ones((3, len(settled)), dtype=np.bool_)
    unnamed = _Unnamed()
    contested: Counter[tuple[int, int]] = Counter()  # by concept and item
    decided: set[tuple[int, int]] = set()
    for block in batched(enumerate(statements.at(settled)), _BLOCK):
        ids = (its.id for _, its in block if its.id)
        stored = {said.id: said for said in answers_with(database, ids)}
        for number, its in block:
            state, before = states[its.concept], stored.get(its.id)
            votes = state.votes(its.item)
            keeps_id[number] = bool(its.id) and before is None
            is_audited[number] = its.purpose != "decision" and state.is_audited(its.item)
            if its.is_known or (before is not None and _says(before, its)):
                is_new[number] = False
            elif its.purpose == "decision":
                is_new[number] = state.decision(its.item) != its.word
            elif its.is_counted:
                is_new[number] = not unnamed.are_in(votes, its)
            else:
                is_new[number] = votes.get(its.annotator) != its.word
            if its.purpose == "decision" or state.decision(its.item) is not None:
                decided.add((its.concept, its.item))
            elif is_new[number] and its.word in ("yes", "no"):
                others = {word for name, word in votes.items() if name != its.annotator}
                if others & ({"yes", "no"} - {its.word}):
                    contested[its.concept, its.item] += 1
    imported.contested = sum(number for about, number in contested.items() if about not in decided)
    imported.same = len(settled) - int(np.count_nonzero(is_new))
    return settled[is_new], is_audited[is_new], keeps_id[is_new]


class _Unnamed:
    """Match answers without an annotator's name to votes in the log, at most one answer per vote."""

    def __init__(self) -> None:
        self._about = (-1, -1)
        self._left: Counter[str] = Counter()

    def are_in(self, votes: Mapping[str, str], its: Statement) -> bool:
        """Match the answer to an equal vote in `votes` that has no match yet.

        Return whether there is such a vote.
        """
        if self._about != (its.concept, its.item):
            self._about, self._left = (its.concept, its.item), Counter(votes.values())
        self._left[its.word] -= 1
        return self._left[its.word] >= 0


def _says(stored: AnswerRecord, its: Statement) -> bool:
    """Return whether the stored answer and the statement have the same content."""
    return (stored.concept_id, stored.item, stored.annotator, stored.answer) == (
        its.concept,
        its.item,
        its.annotator,
        its.word,
    ) and (stored.purpose == "decision") == (its.purpose == "decision")


def _store(
    database: Database,
    statements: Statements,
    undone: list[AnswerRecord],
    file: Path,
    digest: str,
    imported: Imported,
) -> None:
    """Store the new statements as answers; answers about audited items are not used for training."""
    news, is_audited, keeps_id = _changes(database, statements, undone, imported)
    speakers = dict.fromkeys((its.concept, its.annotator) for its in statements.at(news))
    known = LabelLog(database).annotators()
    imported.alike = {by: others for _, by in speakers if (others := spelled_otherwise(by, known))}
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
    undos = [undo_of(said, digest, now) for said in undone]

    def answers() -> Iterator[AnswerRecord]:
        yield from undos
        used: set[str] = set()
        for its, audited, keeps in zip(statements.at(news), is_audited, keeps_id, strict=True):
            answer = AnswerRecord(
                id="",
                concept_id=its.concept,
                session_id=ids[its.concept, its.annotator],
                annotator=its.annotator,
                item=its.item,
                answer=its.word,
                browser_time=now if its.time is None else its.time,
                time_taken_ms=its.time_taken_ms,
                purpose="audit" if audited else its.purpose,
            )
            is_kept = keeps and its.id not in used
            if is_kept:
                used.add(its.id)
            yield replace(answer, id=its.id if is_kept else answer_id(digest, answer, its.origin))

    new, imported.known = store(database, sessions, answers(), now)
    imported.new = new - len(undos)
    imported.withdrawn = subjects(undone)


def _print(imported: Imported, file: Path) -> None:
    click.echo(f"{counted(imported.new, 'label')} of {file} stored in the log.")
    if imported.known + imported.same:
        click.echo(f"{imported.known + imported.same:,} stored already, and not stored again.")
    if imported.withdrawn:
        click.echo(
            f"{counted(imported.withdrawn, 'answer')} withdrawn, which Label Studio does not have any more."
        )
    if imported.kept:
        click.echo(
            f"{counted(imported.kept, 'answer')} not withdrawn: the annotators have changed them since."
        )
    if imported.missing:
        click.echo(
            f"{counted(imported.missing, 'exported answer')} in no task of {file}. If they were deleted in "
            f"Label Studio, import it again with --withdraw-missing."
        )
    if imported.undecided:
        click.echo(
            f"{imported.undecided:,} marked as ground truth by people who are not owners: no decisions."
        )
    if imported.alike:
        pairs = (f"{by} is another person than {' and '.join(of)}" for by, of in imported.alike.items())
        click.echo(f"{'; '.join(pairs)}.")
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
