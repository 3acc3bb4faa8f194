"""Parse presses of class keys. Each press gives one answer per concept.

The ids of the answers are derived from the id of the press.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from closecall.app.sessions.answers import (
    Press,
    Refused,
    following,
    in_its_audit,
    item_in,
    own_id,
    read_answer,
    read_each,
    refers_to_something,
    require_answered,
    require_first,
)
from closecall.app.sessions.group import undos_alike
from closecall.storage import AnswerRecord, Refusal

if TYPE_CHECKING:
    from closecall.app.sessions.item_view import ItemView
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.storage.records import AnswerWord


CLASSES = "classes"
"""Key under which a press lists the ids of the concepts on the card. Other answers lack this key."""


def is_press(answer: Mapping[str, Any]) -> bool:
    """Return whether the browser's answer is a press of a class key."""
    return CLASSES in answer


def answer_id(press: str, concept_id: int, *, own: int) -> str:
    """Return the id of the answer that a press gives for a concept.

    For the session's `own` concept, this is the id of the press. For other concepts, it is derived from the
    id of the press.
    """
    return press if concept_id == own else str(uuid.uuid5(uuid.UUID(press), f"concept {concept_id}"))


def classes_of(undone: str, session: LabelingSession) -> list[int]:
    """Return the ids of the concepts that a stored press gave an answer to; [] if it was not of a class key.

    `undone` is the id of the press's answer for the session's own concept.
    """
    project, own = session.project, session.concept.record.id
    concepts = [concept.id for concept in project.concepts(archived=True)]
    if len(concepts) < 2 or project.log.answer(undone) is None:
        return []
    found = [one for one in concepts if project.log.answer(answer_id(undone, one, own=own)) is not None]
    return found if len(found) > 1 else []


def read_presses(
    answers: Sequence[Mapping[str, Any]], *, view: ItemView
) -> tuple[list[Press], list[Refusal]]:
    """Parse the answers in the browser's queue; return the presses, and the refusals of invalid answers."""
    presses: list[Press] = []
    batch: dict[str, AnswerRecord] = {}

    def read(answer: Mapping[str, Any]) -> None:
        presses.append(_Reading(answer, view, batch).press())
        batch.update((record.id, record) for record in presses[-1].records)

    refused = read_each(answers, read)
    return presses, refused


@dataclass(frozen=True)
class _Reading:
    """The parser of one answer from the browser.

    Parameters
    ----------
    answer : mapping
        The answer.
    view : ItemView
        The view that showed the item.
    batch : mapping
        The earlier answers in the same queue, by id.
    """

    answer: Mapping[str, Any]
    view: ItemView
    batch: Mapping[str, AnswerRecord]

    def press(self) -> Press:
        """Check the answer for all concepts together, and return it as a press."""
        name, item = own_id(self.answer), item_in(self.answer)
        words = self._words()
        undone, corrected = (self._referred(word, item) for word in ("undoes", "corrects"))
        if undone:
            words = dict.fromkeys(undone, self.answer["answer"])
        chooser = self._chooser(words, item)
        if not refers_to_something(self.answer):
            require_answered(item, self.view.session)
        records: list[AnswerRecord] = []
        for concept, word in words.items():
            its_own = {
                "id": self._id(name, concept),
                "answer": word,
                "selection": self.answer.get("selection") if concept == chooser else None,
                "undoes": undone.get(concept),
                "corrects": corrected.get(concept),
            }
            member = self.view.member(concept)
            record = in_its_audit(
                read_answer({**self.answer, **its_own}, member), member, self._so_far(concept)
            )
            require_first(record, member, self._so_far(concept))
            records.append(record)
        log = self.view.project.log
        along = [undo for record in records if record.id == name for undo in undos_alike(record, log, ())]
        return Press(name, tuple(records), following(self.answer), tuple(along))

    def _words(self) -> dict[int, AnswerWord]:
        """Return the answer for each concept.

        If a class was chosen, its concept gets a yes, and all other concepts get a no. Otherwise, all
        concepts get the same answer.
        """
        concepts, word, chosen = self.answer[CLASSES], self.answer["answer"], self.answer.get("concept")
        known = {concept.id for concept in self.view.project.concepts(archived=True)}
        own = self.view.session.concept.record.id
        if not isinstance(concepts, list) or own not in concepts or not known.issuperset(concepts):
            raise ValueError(f"classes must be concepts, {own} among them, got {concepts!r:.80}")
        if word == "yes" and chosen not in concepts:
            raise ValueError(f"concept must be one of {concepts}, got {chosen!r:.80}")
        words: dict[int, AnswerWord] = dict.fromkeys(concepts, "no" if word == "yes" else word)
        if word == "yes" and chosen is not None:  # `chosen` is in `concepts`, as checked above
            words[chosen] = "yes"
        return words

    def _referred(self, word: str, item: int) -> dict[int, str]:
        """Return, by concept, the ids of the answers that this press undoes or corrects.

        `word` is "undoes" or "corrects". All of these answers belong to one earlier press.
        """
        earlier = self.answer.get(word)
        if earlier is None:
            return {}
        log, concepts = self.view.project.log, self.view.project.concepts(archived=True)
        ids = {concept.id: self._id(str(uuid.UUID(earlier)), concept.id) for concept in concepts}
        stored = {concept: self.batch.get(name) or log.answer(name) for concept, name in ids.items()}
        found = {concept: record for concept, record in stored.items() if record is not None}
        if not found:
            raise Refused("unknown-answer", f"The answer {earlier} is not stored")
        if any(record.item != item for record in found.values()):
            raise Refused("wrong-item", f"The answer {earlier} is not about item {item}")
        if any(record.purpose == "decision" for record in found.values()):
            raise Refused("not-undoable", f"Item {item} was decided: change the decision on Review")
        return {concept: record.id for concept, record in found.items()}

    def _chooser(self, concepts: Iterable[int], item: int) -> int | None:
        """Return the concept whose selection the press answers, or None if the press names no selection."""
        name, log = self.answer.get("selection"), self.view.project.log
        if name is None:
            return None
        record = log.selection(str(name)) or log.foreseen(str(name))
        if record is None:
            raise Refused("unknown-selection", f"There is no selection {name!r:.80}")
        if record.concept_id not in concepts or self.view.member(record.concept_id).id != record.session_id:
            raise Refused("not-yours", f"Selection {name} was shown in another session")
        if record.item != item:
            raise Refused("wrong-item", f"Selection {name} showed item {record.item}, not {item}")
        return record.concept_id

    def _id(self, press: str, concept: int) -> str:
        return answer_id(press, concept, own=self.view.session.concept.record.id)

    def _so_far(self, concept: int) -> list[AnswerRecord]:
        return [record for record in self.batch.values() if record.concept_id == concept]
