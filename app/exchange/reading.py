"""Read the statements of a file: their items, annotators and questions, and what they withdraw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from closecall.app.exchange.item_matching import Items
from closecall.app.exchange.label_studio_users import annotators_of
from closecall.app.exchange.label_words import Meaning
from closecall.app.exchange.statements import Statement, Statements
from closecall.app.exchange.withdrawals import Withdrawals, subjects
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.storage import AnswerRecord, Archive, ConceptRecord, Concepts, Database, StorageError
from closecall.storage.append import is_id
from closecall.storage.claims import WITHDRAWN, Claim
from closecall.storage.imports import IMPORT, ImportFormat, checked_annotator, read_labels
from closecall.storage.in_force import answers_with
from closecall.storage.label_studio_reading import Survey
from closecall.storage.tabular import shown

_SOME = 10_000
"""Number of ids that are looked up to find out whether a file comes from this project."""


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
        Number of answers that are in the log already, and are not stored again.
    contested : int
        Number of new yes and no answers that contradict the answer of another annotator, about items without
        an adjudication.
    withdrawn : int
        Number of answers that were undone, because Label Studio no longer has them.
    kept : int
        Number of answers that were not undone, because their annotators have changed them since.
    missing : int
        Number of answers that were exported to Label Studio, but whose tasks are not in the file.
    undecided : int
        Number of answers that are marked as ground truth but don't count as adjudications, because the person
        who marked them is not an owner.
    alike : mapping
        New annotators whose names differ from those of earlier ones only in letter case or encoding of
        accents, each with these names.
    items : Items
        Matched and unmatched items.
    """

    items: Items
    lines: int = 0
    new: int = 0
    known: int = 0
    same: int = 0
    contested: int = 0
    withdrawn: int = 0
    kept: int = 0
    missing: int = 0
    undecided: int = 0
    alike: Mapping[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Manner:
    """The options for reading a file.

    Parameters
    ----------
    concept : ConceptRecord or None
        The concept of all labels; None if the file names the concepts, or the project has only one concept.
    annotator : str
        Annotator of the labels for which the file names no annotator.
    users : mapping
        Annotators by the number or e-mail address of a user in Label Studio.
    withdraw_missing : bool
        Whether to withdraw the answers that were exported to Label Studio, but whose tasks are not in the
        file.
    may_decide : callable
        Takes an annotator's name; returns whether answers that this person marks as ground truth are
        adjudications.
    mirrors : bool
        Whether the labels mirror the present state of another program. Equal files then store their labels
        again if the log has other answers meanwhile. Otherwise, a file is imported only once.
    """

    concept: ConceptRecord | None = None
    annotator: str = IMPORT
    users: Mapping[str, str] = field(default_factory=dict)
    withdraw_missing: bool = False
    may_decide: Callable[[str], bool] = lambda _: True
    mirrors: bool = False


class Reading:
    """The statements of a file, and the answers that it withdraws."""

    def __init__(
        self,
        database: Database,
        pool: Pool,
        file: Path,
        form: ImportFormat,
        manner: Manner,
        surveyed: Survey,
        imported: Imported,
    ) -> None:
        self._file, self._form, self._manner, self._imported = file, form, manner, imported
        self._database, self._survey = database, surveyed
        concepts, offered = Concepts(database).all(), Archive(database).offered()
        self._concepts = {concept.name: concept.id for concept in concepts}
        self._meaning = Meaning(concepts, offered, manner.concept, pool.classes, asked=self._survey.concepts)
        self._users = annotators_of(self._survey, manner.users, file)
        self._withdrawals = Withdrawals(database) if form == "label-studio" else None
        self._items: set[int] = set()
        self._some_ids: list[str] = []

    @property
    def has_withdrawals(self) -> bool:
        """Whether the file may withdraw answers. Such a file may have no labels, because all were deleted."""
        return self._withdrawals is not None and self._withdrawals.are_any

    def statements(self) -> Statements:
        """Collect the file's statements about items that can be labeled."""
        statements = Statements()
        try:
            for claim in read_labels(self._file, self._form, self._users):
                self._add(claim, statements)
        except (InputError, StorageError):
            _require_consistent(statements, self._file)  # reports a contradiction on an earlier line instead
            raise
        _require_consistent(statements, self._file)
        return statements

    def undone(self) -> list[AnswerRecord]:
        """Return the answers that the file withdraws. Count the kept and missing answers in `Imported`."""
        if self._withdrawals is None:
            return []
        undone = self._withdrawals.undone()
        names = self._survey.sent_concepts
        concepts = [number for name, number in self._concepts.items() if name in names]
        missing = self._withdrawals.missing(self._survey, concepts if self._is_own else [], self._items)
        if self._manner.withdraw_missing:
            known = {answer.id for answer in undone}
            undone += [each for each in self._withdrawals.with_earlier(missing) if each.id not in known]
        else:
            self._imported.missing = subjects(missing)
        self._imported.kept = self._withdrawals.kept
        return undone

    @property
    def _is_own(self) -> bool:
        """Whether the file may come from this project. Otherwise, its log position refers to another log."""
        return not self._some_ids or any(True for _ in answers_with(self._database, self._some_ids))

    def _add(self, claim: Claim, statements: Statements) -> None:
        if claim.word == WITHDRAWN:
            assert self._withdrawals is not None
            self._withdrawals.note(claim)
            self._items |= set() if claim.item is None else {claim.item}
            return
        self._imported.lines += 1
        meant = self._meaning.of(claim, self._file)
        item = self._imported.items.find(claim)
        if item is None:
            return
        if self._withdrawals is not None:
            self._items.add(item)
            if claim.id and len(self._some_ids) < _SOME:
                self._some_ids.append(claim.id)
        default = self._manner.annotator
        by = claim.annotator or (default if claim.number == 1 else f"{default} {claim.number}")
        by = checked_annotator(by, f"{self._file}, {claim.place}")
        if claim.origin and claim.purpose == "decision" and not self._manner.may_decide(by):
            self._imported.undecided += 1
            return
        for concept, word in meant:
            is_known = (
                bool(claim.origin)
                and self._withdrawals is not None
                and (self._withdrawals.repeats(claim, concept.id, by, word))
            )
            statement = Statement(
                concept.id,
                item,
                by,
                word,
                claim.purpose,
                is_counted=claim.is_counted,
                is_known=is_known,
                id=claim.id if claim.id and len(meant) == 1 and is_id(claim.id) else "",
                origin=claim.origin,
                time=claim.time,
                time_taken_ms=claim.time_taken_ms,
            )
            statements.add(statement, claim.place, replaces=claim.replaces)


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
