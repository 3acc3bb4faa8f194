"""Routes that import labels, import and list predictions, and export labels or the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field, WithJsonSchema
from starlette.responses import StreamingResponse

from closecall.app.exchange.rows import add_labels, add_predictions, exported
from closecall.app.server.http.bodies import LARGEST, After, Body, ConceptId, Limit, Name
from closecall.app.server.http.concepts import record
from closecall.app.server.http.credentials import Owns, Reads, ReadsAnswers
from closecall.app.server.http.problems import Problem
from closecall.storage.predictions import Predictions

router = APIRouter(tags=["exchange"])

MOST_ADDED = 100_000
"""Maximum number of rows in a request."""

_CHUNK = 1 << 16

_ITEM = {
    "item": {"type": "integer", "minimum": 0, "maximum": LARGEST},
    "name": {"type": "string", "description": "Name or path of the item, instead of its id."},
}
_WORD = {"type": "string", "description": "yes, no, unsure, skip, or a class"}

LabelRow = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "required": ["label"],
            "properties": {**_ITEM, "label": _WORD, "annotator": {"type": "string", "maxLength": 200}},
        }
    ),
]
PredictionRow = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "properties": {**_ITEM, "label": _WORD, "score": {"type": "number"}}}),
]


class NewLabels(Body):
    """Labels to store."""

    labels: Annotated[list[LabelRow], Field(min_length=1, max_length=MOST_ADDED)]


class NewPredictions(Body):
    """Predictions of a model."""

    model: Annotated[Name, Field(min_length=1)]
    predictions: Annotated[list[PredictionRow], Field(min_length=1, max_length=MOST_ADDED)]


@router.post("/projects/{project}/concepts/{concept}/labels")
def import_labels(entry: Owns, concept: ConceptId, body: NewLabels) -> dict[str, Any]:
    """Store labels, as `closecall import` does. Labels that are in force already are not stored again."""
    return add_labels(entry.project, record(entry, concept), body.labels, entry.person.name)


@router.post("/projects/{project}/concepts/{concept}/predictions")
def import_predictions(entry: Owns, concept: ConceptId, body: NewPredictions) -> dict[str, Any]:
    """Replace a model's predictions for a concept."""
    return add_predictions(entry.project, record(entry, concept), body.predictions, body.model)


@router.get("/projects/{project}/concepts/{concept}/predictions")
def list_predictions(
    entry: Reads,
    concept: ConceptId,
    model: Annotated[str, Query(max_length=200)],
    after: After = -1,
    limit: Limit = 1000,
) -> dict[str, Any]:
    """List a model's predictions in the order of the item ids."""
    store, its = Predictions(entry.project.database), record(entry, concept)
    found = next((one for one in store.all() if one.concept_id == its.id and one.model == model), None)
    if found is None:
        raise Problem(404, f"There are no predictions of {model!r:.80} for {its.name!r}")
    rows = list(islice(store.of(found.id, after=after), limit + 1))
    page = rows[:limit]
    return {
        "predictions": [{"item": row.item, "score": row.score, "label": row.label} for row in page],
        "cursor": page[-1].item if page else after,
        "more": len(rows) > limit,
    }


@router.get(
    "/projects/{project}/export",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def export(
    entry: ReadsAnswers,
    concept: Annotated[int | None, Query(ge=1, le=LARGEST, description="By default all concepts.")] = None,
    form: Annotated[Literal["csv", "jsonl", "label-studio"], Query(alias="format")] = "csv",
    log: Annotated[bool, Query(description="Every answer instead of the current labels.")] = False,
) -> StreamingResponse:
    """Export labels, or the log, as `closecall export` does."""
    if log and form == "label-studio":
        raise Problem(422, "The log can't be exported for Label Studio: use csv or jsonl")
    its = None if concept is None else record(entry, concept)
    with ExitStack() as opened:
        file = opened.enter_context(exported(entry.project, its, form, log=log))
        closing = opened.pop_all()

    def chunks() -> Iterator[bytes]:
        with closing:
            while chunk := file.read(_CHUNK):
                yield chunk

    return StreamingResponse(chunks(), media_type="text/plain; charset=utf-8")
