"""Parts that the bodies and parameters of requests share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from closecall.storage.models import MAX_NAME

LARGEST = 2**63 - 1
"""Largest number that both databases can store."""

MOST_ROWS = 1_000
"""Maximum number of rows in a response."""


class Body(BaseModel):
    """A body that has only known fields of the right types; any other body is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _storable(text: str) -> str:
    """Return the text; raise ValueError if a database can't store it."""
    text.encode()  # half of a surrogate pair can't be encoded
    if "\0" in text:
        raise ValueError("a text must not contain the character with code 0")
    return text


Name = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(_storable)]
"""A name of a concept, a model or a person; empty for none."""

ConceptId = Annotated[int, Path(ge=1, le=LARGEST, description="The concept's id.")]

ItemId = Annotated[int, Path(ge=0, le=LARGEST, description="The item's id.")]

After = Annotated[int, Query(ge=-1, le=LARGEST, description="The cursor of the page before.")]

Limit = Annotated[int, Query(ge=1, le=MOST_ROWS, description="Maximum number of rows.")]
