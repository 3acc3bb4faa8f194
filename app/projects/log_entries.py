"""Entries of the log of answers as JSON, for programs and webhooks."""

from __future__ import annotations

from typing import Any

from closecall.storage import AnswerRecord


def answer_fields(answer: AnswerRecord) -> dict[str, Any]:
    """Return the fields of an answer in the log. Times are in milliseconds since 1970-01-01 UTC."""
    return {
        "seq": answer.seq,
        "id": answer.id,
        "concept": answer.concept_id,
        "session": answer.session_id,
        "annotator": answer.annotator,
        "item": answer.item,
        "answer": answer.answer,
        "undoes": answer.undoes,
        "corrects": answer.corrects,
        "purpose": answer.purpose,
        "selection": answer.selection_id,
        "browser_time": answer.browser_time,
        "server_time": answer.server_time,
        "time_taken_ms": answer.time_taken_ms,
    }
