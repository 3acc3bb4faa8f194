"""Append answers to the log in one transaction. Each answer is checked, and stored once if it is valid."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, insert, select

from closecall.storage import rows
from closecall.storage.models import MAX_ID, MIN_ID, Answer, Concept, Foreseen, Selection, Session
from closecall.storage.records import ANSWERS, PURPOSES, AnswerRecord, AppendResult, Refusal, RefusalKind

_ID = re.compile(rf"[0-9A-Za-z_.:-]{{{MIN_ID},{MAX_ID}}}")
_CHUNK = 500  # values in one IN (...), well below each engine's limit
_MAX_INT = 2**63 - 1


class _Refused(Exception):  # noqa: N818 (no error, but the refusal of one answer)
    def __init__(self, kind: RefusalKind, reason: str) -> None:
        super().__init__(reason)
        self.kind: RefusalKind = kind
        self.reason = reason


def is_id(text: str) -> bool:
    """Return whether the text may be the id of an answer, a session or a selection."""
    return _ID.fullmatch(text) is not None


@dataclass
class _Known:
    """Rows in the database to which a batch of answers refers."""

    concepts: set[int]
    annotators: dict[str, str]  # by session id
    selections: dict[str, tuple[str, int]]  # session and item, by selection id
    answers: dict[str, AnswerRecord]
    undone: set[str] = field(default_factory=set)


def append(
    connection: Connection,
    answers: Sequence[AnswerRecord],
    server_time: int,
    shown: Sequence[str] = (),
    along: Mapping[str, str] | None = None,
) -> AppendResult:
    """Store a batch of answers, in order, in the open transaction; see `LabelLog.append_answers`."""
    along = along or {}
    accepted: list[AnswerRecord] = []
    there: list[AnswerRecord] = []
    refused: list[Refusal] = []
    new: set[str] = set()
    well_formed: list[AnswerRecord] = []
    for given in answers:
        try:
            _check_form(given)
            well_formed.append(given)
        except _Refused as verdict:
            refused.append(Refusal(str(given.id), verdict.kind, verdict.reason))
    _record_shown(connection, {*shown, *(a.selection_id for a in well_formed if a.selection_id)})
    known, batch = _look_up(connection, well_formed), {given.id: given for given in reversed(well_formed)}
    for given in well_formed:
        try:
            if given.id in along:
                _check_leader(along[given.id], batch, known)
            stored = _stored(given, known)
        except _Refused as verdict:
            refused.append(Refusal(given.id, verdict.kind, verdict.reason))
            continue
        if stored is None:
            accepted.append(_sober(given))
            new.add(given.id)
            known.answers[given.id] = given
            if given.undoes is not None:
                known.undone.add(given.undoes)
        elif given.id not in new:
            there.append(stored)
    if accepted:
        places = _insert(connection, [rows.answer_values(record, server_time) for record in accepted])
        accepted = [replace(record, seq=places[record.id], server_time=server_time) for record in accepted]
    return AppendResult(tuple(accepted), tuple(there), tuple(refused))


def _insert(connection: Connection, values: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Insert answers, and return the `seq` of each answer by its id."""
    if len(values) == 1:
        key = connection.execute(_INSERT, values[0]).inserted_primary_key
        assert key is not None
        return {values[0]["id"]: key[0]}
    connection.execute(_INSERT, values)
    return {row.id: row.seq for row in _rows(connection, _PLACES, (each["id"] for each in values))}


def _record_shown(connection: Connection, ids: set[str]) -> None:
    """Move the selections `ids`, which have been shown, from the table `Foreseen` to the log of selections.

    Ids that are not in `Foreseen` are ignored.
    """
    found = sorted(_rows(connection, _FORESEEN, ids))
    if found:
        connection.execute(_INSERT_SHOWN, [row.selection for row in found])
        connection.execute(_FORGET, {"values": [row.seq for row in found]})


def _stored(given: AnswerRecord, known: _Known) -> AnswerRecord | None:
    """Return the stored answer with the id of `given`, or None if there is none.

    Refuse `given` if it contradicts the stored answer, or if it is new but can't be stored.
    """
    stored = known.answers.get(given.id)
    if stored is None:
        _check_references(given, known)
    elif not stored.says_the_same_as(given):
        raise _Refused("conflict", f"answer {given.id} is stored already, and says something else")
    return stored


def _check_leader(leader: str, batch: Mapping[str, AnswerRecord], known: _Known) -> None:
    """Raise `_Refused` if the answer `leader`, on which another answer depends, is refused."""
    if leader not in batch:
        raise _Refused("unknown-answer", f"answer {leader}, which must be stored with this one, is refused")
    _stored(batch[leader], known)


def _sober(given: AnswerRecord) -> AnswerRecord:
    """Return the answer without a negative duration, which is due to a clock that was set back."""
    if given.time_taken_ms is not None and given.time_taken_ms < 0:
        return replace(given, time_taken_ms=None)
    return given


def _look_up(connection: Connection, answers: Sequence[AnswerRecord]) -> _Known:
    referred = {i for a in answers for i in (a.id, a.undoes, a.corrects)}
    undoes = {a.undoes for a in answers}

    def look_up(query: Select[Any], values: Iterable[object]) -> Iterator[Any]:
        return _rows(connection, query, set(values))

    stored = map(rows.answer, look_up(_ANSWERS, referred))
    sessions = look_up(_SESSIONS, (a.session_id for a in answers))
    selections = look_up(_SELECTIONS, (a.selection_id for a in answers))
    return _Known(
        concepts={r.id for r in look_up(_CONCEPTS, (a.concept_id for a in answers))},
        annotators={r.id: r.annotator for r in sessions},
        selections={r.id: (r.session_id, r.item) for r in selections},
        answers={record.id: record for record in stored},
        undone={r.undoes for r in look_up(_UNDONE, undoes)},
    )


def _rows(connection: Connection, query: Select[Any], values: Iterable[object]) -> Iterator[Any]:
    """Run a query of `_among` for these values, except None, and yield its rows."""
    rest = iter([value for value in values if value is not None])
    while chunk := list(islice(rest, _CHUNK)):
        yield from connection.execute(query, {"values": chunk})


def _among(wanted: Sequence[Any], key: Any) -> Select[Any]:
    """Return a query for the columns `wanted` of the rows whose `key` is in the parameter `values`."""
    return select(*wanted).where(key.in_(bindparam("values", expanding=True)))


# SQLAlchemy takes longer to build a statement than to execute it.
_INSERT = insert(Answer)
_INSERT_SHOWN = insert(Selection)
_FORESEEN = _among((Foreseen.seq, Foreseen.selection), Foreseen.id)
_FORGET = delete(Foreseen).where(Foreseen.seq.in_(bindparam("values", expanding=True)))
_PLACES = _among((Answer.seq, Answer.id), Answer.id)
_ANSWERS = _among(rows.columns(Answer), Answer.id)
_SESSIONS = _among((Session.id, Session.annotator), Session.id)
_SELECTIONS = _among((Selection.id, Selection.session_id, Selection.item), Selection.id)
_CONCEPTS = _among((Concept.id,), Concept.id)
_UNDONE = _among((Answer.undoes,), Answer.undoes)


def _check_form(a: AnswerRecord) -> None:
    def refuse(reason: str) -> None:
        raise _Refused("malformed", reason)

    for name in ("id", "session_id", "selection_id", "undoes", "corrects"):
        value = getattr(a, name)
        if value is None and name not in ("id", "session_id"):
            continue
        if not (isinstance(value, str) and is_id(value)):
            refuse(f"{name} must be {MIN_ID} to {MAX_ID} letters, digits or -_.: signs, got {value!r:.80}")
    if not isinstance(a.annotator, str):
        refuse(f"annotator must be text, got {a.annotator!r:.80}")
    if not _is_whole(a.concept_id):
        refuse(f"concept_id must be a whole number, got {a.concept_id!r:.80}")
    if a.answer not in ANSWERS:
        refuse(f"answer must be one of {', '.join(ANSWERS)}, got {a.answer!r:.80}")
    if a.purpose not in PURPOSES:
        refuse(f"purpose must be one of {', '.join(PURPOSES)}, got {a.purpose!r:.80}")
    if not _is_whole(a.item) or a.item < 0:
        refuse(f"item must be a whole number from 0 on, got {a.item!r:.80}")
    if not _is_whole(a.browser_time):
        refuse(f"browser_time must be whole milliseconds since 1970, got {a.browser_time!r:.80}")
    if a.time_taken_ms is not None and not _is_whole(a.time_taken_ms):
        refuse(f"time_taken_ms must be whole milliseconds, got {a.time_taken_ms!r:.80}")
    if (a.answer == "undo") != (a.undoes is not None):
        refuse("an undo, and nothing else, says in undoes which answer it takes back")
    if a.answer == "undo" and a.corrects is not None:
        refuse("an undo corrects nothing; it takes back")
    if a.id in (a.undoes, a.corrects):
        refuse(f"answer {a.id} refers to itself")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MAX_INT


def _check_references(a: AnswerRecord, known: _Known) -> None:
    if a.concept_id not in known.concepts:
        raise _Refused("unknown-concept", f"there is no concept {a.concept_id!r:.80}")
    annotator = known.annotators.get(a.session_id)
    if annotator is None:
        raise _Refused("unknown-session", f"there is no session {a.session_id!r:.80}")
    if annotator != a.annotator:
        raise _Refused("not-yours", f"session {a.session_id} is {annotator}'s, not {a.annotator!r:.80}'s")
    if a.selection_id is not None:
        _check_selection(a, known)
    if a.undoes is not None:
        _check_undo(a, a.undoes, known)
    if a.corrects is not None:
        before = _referred(a, a.corrects, "corrects", known)
        if before.answer == "undo":
            raise _Refused("malformed", f"answer {a.corrects} is an undo and cannot be corrected")
        if before.annotator != a.annotator:
            raise _Refused("not-yours", f"answer {a.corrects} is {before.annotator}'s to correct, not yours")


def _check_selection(a: AnswerRecord, known: _Known) -> None:
    selected = known.selections.get(a.selection_id or "")
    if selected is None:
        raise _Refused("unknown-selection", f"there is no selection {a.selection_id!r:.80}")
    session, item = selected
    corrected = known.answers.get(a.corrects or "")
    is_the_corrected_ones = corrected is not None and corrected.selection_id == a.selection_id
    if session != a.session_id and not is_the_corrected_ones:
        raise _Refused("not-yours", f"selection {a.selection_id} was shown in another session")
    if item != a.item:
        raise _Refused("wrong-item", f"selection {a.selection_id} showed item {item}, not {a.item}")


def _check_undo(a: AnswerRecord, undoes: str, known: _Known) -> None:
    before = _referred(a, undoes, "undoes", known)
    if before.answer == "undo":
        raise _Refused("not-undoable", f"answer {undoes} is an undo itself; give the answer again instead")
    if before.session_id != a.session_id:
        raise _Refused("not-yours", f"answer {undoes} was given in another session and cannot be undone here")
    if undoes in known.undone:
        raise _Refused("already-undone", f"answer {undoes} was undone already")


def _referred(a: AnswerRecord, other: str, word: str, known: _Known) -> AnswerRecord:
    before = known.answers.get(other)
    if before is None:
        raise _Refused("unknown-answer", f"answer {a.id} {word} {other}, which is not stored")
    if before.concept_id != a.concept_id or before.item != a.item:
        raise _Refused(
            "wrong-item",
            f"answer {a.id} is about item {a.item}, but {other}, which it {word}, is about {before.item}",
        )
    return before
