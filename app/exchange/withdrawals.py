"""Withdraw the answers whose annotations were deleted, cleared or overwritten in Label Studio.

An answer is withdrawn by an undo in the log. An annotation that was made in Label Studio counts as one
answer, so an edit by somebody else withdraws the answer of the former author. An answer that was given in
Closecall is withdrawn only if its annotation was deleted or cleared: an edit by somebody else is a second
opinion. If an annotator has changed an answer in Closecall since the export, the answer is not withdrawn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from closecall.storage import AnswerRecord, Database
from closecall.storage.claims import Claim
from closecall.storage.imports import undo_id
from closecall.storage.in_force import Origin, Stored, answers_with, by_origin, current_through, in_force
from closecall.storage.label_studio_reading import Survey, task_of


@dataclass(frozen=True)
class _Said:
    annotator: str
    word: str


class Withdrawals:
    """The annotations in a file, compared with the annotations of earlier imports and exports.

    Parameters
    ----------
    database : Database
        The labels.

    Attributes
    ----------
    kept : int
        Number of answers that were not withdrawn, because their annotators have changed them since.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[Origin, list[Stored]] = by_origin(database)
        self._said: dict[Origin, _Said] = {}
        self._tasks: set[str] = set()
        self._ids: list[str] = []
        self.kept = 0

    @property
    def are_any(self) -> bool:
        """Whether `note` was called, so that the file may withdraw answers."""
        return bool(self._tasks or self._ids)

    def note(self, claim: Claim) -> None:
        """Note a claim with the word `WITHDRAWN`."""
        if claim.id is not None:
            self._ids.append(claim.id)
        else:
            self._tasks.add(claim.origin)

    def repeats(self, claim: Claim, concept_id: int, annotator: str, word: str) -> bool:
        """Note an annotation's answer, and return whether the log has this answer of the annotation.

        An answer that was withdrawn, because the annotation had been cleared, doesn't count.
        """
        key = Origin(claim.origin, concept_id, claim.purpose == "decision")
        stored = self._known.get(key)
        if stored is None:
            return False
        self._said[key] = _Said(annotator, word)
        return stored[-1].is_in_force and stored[-1].answer.answer == word

    def undone(self) -> list[AnswerRecord]:
        """Return the answers to withdraw, each once, in the order of the log."""
        undone = {answer.id: answer for answer in self._overwritten()}
        for said in answers_with(self._database, self._ids):
            if said.undoes is None:
                self._withdraw(said, undone)
        return sorted(undone.values(), key=lambda answer: answer.seq)

    def missing(
        self, survey: Survey, concepts: Collection[int], items: Collection[int]
    ) -> list[AnswerRecord]:
        """Return the answers exported to Label Studio, or imported from it, whose tasks are not in the file.

        Parameters
        ----------
        survey : Survey
            The projects in Label Studio and the log position of the export.
        concepts : collection of int
            The concepts that were exported.
        items : collection of int
            The items of the file's tasks.
        """
        undone: dict[str, AnswerRecord] = {}
        for key, stored in self._known.items():
            task = task_of(key.annotation)
            if task not in self._tasks and task.split(":")[1] in survey.projects:
                undone |= {each.answer.id: each.answer for each in stored if each.is_in_force}
        for concept_id in concepts:
            for said in current_through(self._database, concept_id, survey.through):
                if said.item not in items and said.id not in undone:
                    undone[said.id] = said
        return sorted(undone.values(), key=lambda answer: answer.seq)

    def with_earlier(self, answers: list[AnswerRecord]) -> list[AnswerRecord]:
        """Return the answers, and the earlier answers that would come into force if these were undone."""
        undone: dict[str, AnswerRecord] = {}
        for said in answers:
            self._withdraw(said, undone)
        return sorted(undone.values(), key=lambda answer: answer.seq)

    def _overwritten(self) -> Iterator[AnswerRecord]:
        """Yield answers whose annotations are empty now, or have a different answer by another annotator."""
        for key, stored in self._known.items():
            now = self._said.get(key)
            is_repeated = now is not None and stored[-1].answer.answer == now.word
            if task_of(key.annotation) not in self._tasks or is_repeated:
                continue
            for each in stored:
                if each.is_in_force and (now is None or each.answer.annotator != now.annotator):
                    yield each.answer

    def _withdraw(self, said: AnswerRecord, undone: dict[str, AnswerRecord]) -> None:
        """Add the answer, and the answers that it replaced, to `undone`.

        If the annotator has changed the answer since, count the answer in `kept` instead.
        """
        is_decision = said.purpose == "decision"
        own = [
            other
            for other in in_force(self._database, said.concept_id, [said.item]).get(said.item, [])
            if (other.purpose == "decision") == is_decision
            and (is_decision or other.annotator == said.annotator)
            and other.id not in undone
        ]
        if all(other.id != said.id for other in own):
            return
        if own[-1].id != said.id:
            self.kept += 1
            return
        undone |= {other.id: other for other in own}


def undo_of(said: AnswerRecord, digest: str, time: int) -> AnswerRecord:
    """Return the answer that undoes `said` on behalf of the file with this digest."""
    undo = undo_id(digest, said.id)
    return replace(
        said,
        id=undo,
        answer="undo",
        undoes=said.id,
        corrects=None,
        selection_id=None,
        browser_time=time,
        time_taken_ms=None,
    )


def subjects(answers: Iterable[AnswerRecord]) -> int:
    """Return the number of answers. All answers of an annotator about an item and concept count as one."""
    return len({(said.concept_id, said.item, said.annotator) for said in answers})
