"""Convert between table rows and records."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Column, Table

from closecall.storage.models import Answer, Base, Concept, Happening, Selection, Session, Webhook
from closecall.storage.records import (
    AnswerRecord,
    ConceptRecord,
    HappeningRecord,
    SelectionRecord,
    SessionRecord,
    WebhookRecord,
)


def table(model: type[Base]) -> Table:
    """Return the table of a model."""
    made = model.__table__
    assert isinstance(made, Table)
    return made


def columns(model: type[Base]) -> list[Column[Any]]:
    """Return a table's columns, in the order in which `answer`, `selection`, ... expect the values."""
    return list(table(model).columns)


def now_ms() -> int:
    """Return the current time in milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000


def json_text(value: object) -> str:
    """Return JSON in a canonical form: equal values have equal texts."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


_ANSWER = [column.name for column in columns(Answer)]
_SELECTION = [column.name for column in columns(Selection)]
_SESSION = [column.name for column in columns(Session)]
_CONCEPT = [column.name for column in columns(Concept)]
_HAPPENING = [column.name for column in columns(Happening)]
_WEBHOOK = [column.name for column in columns(Webhook)]


def answer(values: Sequence[Any]) -> AnswerRecord:
    """Return an answer from its row. The fields are written out for speed, because a log may be long."""
    (seq, id_, concept_id, session_id, selection_id, item, word, undoes, corrects, *rest) = values
    (annotator, purpose, browser_time, server_time, time_taken_ms) = rest
    return AnswerRecord(
        id=id_,
        concept_id=concept_id,
        session_id=session_id,
        annotator=annotator,
        item=item,
        answer=word,
        browser_time=browser_time,
        time_taken_ms=time_taken_ms,
        selection_id=selection_id,
        undoes=undoes,
        corrects=corrects,
        purpose=purpose,
        seq=seq,
        server_time=server_time,
    )


def selection(values: Sequence[Any]) -> SelectionRecord:
    """Return a selection from its row."""
    fields = dict(zip(_SELECTION, values, strict=True))
    fields["leased"] = tuple(fields["leased"])
    return SelectionRecord(**fields)


def foreseen(values: Mapping[str, Any]) -> SelectionRecord:
    """Return a foreseen selection (`storage.models.Foreseen`) from its stored values."""
    return SelectionRecord(**{**values, "leased": tuple(values["leased"])})


def session(values: Sequence[Any]) -> SessionRecord:
    """Return a session from its row."""
    return SessionRecord(**dict(zip(_SESSION, values, strict=True)))


def concept(values: Sequence[Any]) -> ConceptRecord:
    """Return a concept from its row."""
    return ConceptRecord(**dict(zip(_CONCEPT, values, strict=True)))


def happening(values: Sequence[Any]) -> HappeningRecord:
    """Return a happening from its row."""
    fields = dict(zip(_HAPPENING, values, strict=True))
    del fields["key"]
    return HappeningRecord(**fields)


def webhook(values: Sequence[Any]) -> WebhookRecord:
    """Return a webhook from its row."""
    fields = dict(zip(_WEBHOOK, values, strict=True))
    return WebhookRecord(**{**fields, "kinds": tuple(fields["kinds"])})


def answer_values(record: AnswerRecord, server_time: int) -> dict[str, Any]:
    """Return the values to insert for an answer; the database generates the `seq`."""
    values = {name: getattr(record, name) for name in _ANSWER if name != "seq"}
    return values | {"server_time": server_time}


def selection_values(record: SelectionRecord, created: int) -> dict[str, Any]:
    """Return the values to insert for a selection, with numpy's numbers converted to Python's."""
    values = {name: getattr(record, name) for name in _SELECTION if name != "seq"}
    for name in ("round", "item", "items_scored", "items_total", "n_labels", "trained_through"):
        values[name] = int(values[name])
    for name in ("examples_through", "pool_version", "seed"):
        values[name] = int(values[name])
    for name in ("probability", "margin", "selection_ms", "retrain_ms", "c", "accuracy"):
        values[name] = None if values[name] is None else float(values[name])
    values["leased"] = [int(item) for item in record.leased]
    values["parameters"] = dict(record.parameters)
    return values | {"created": created}
