"""The values that the API returns. Fields that this version does not know are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self


class _FromJson:
    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the value that the server sent."""
        known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        return cls(**{name: value for name, value in data.items() if name in known})


@dataclass(frozen=True)
class Concept(_FromJson):
    """A yes/no question.

    Parameters
    ----------
    id : int
    name, question : str
    guideline : str
        Explains the question to annotators.
    positive_class : str or None
        The class of the source whose items mean yes, if there is one.
    counts : mapping of str to int
        Numbers of items with the status "yes", "no", "tied", "unsure" and "skip", of training labels
        ("labels"), and of items that are left to label ("left").
    """

    id: int
    name: str
    question: str
    guideline: str = ""
    positive_class: str | None = None
    counts: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Answer(_FromJson):
    """An entry of the log.

    Parameters
    ----------
    seq : int
        Place in the log. It increases, and has gaps.
    id : str
    concept : int
        Id of the question.
    session, annotator : str
    item : int
    answer : str
        "yes", "no", "unsure", "skip" or "undo".
    undoes, corrects : str or None
        Id of the answer that this answer takes back (`undoes`) or replaces (`corrects`).
    purpose : str or None
        The use of the answer: "train", "audit", "decision" (an adjudication) or "import".
    server_time, browser_time : int or None
        Milliseconds since 1970 UTC.
    selection : str or None
        Id of the selection that showed the item.
    time_taken_ms : int or None
    """

    seq: int
    id: str
    concept: int
    session: str
    annotator: str
    item: int
    answer: str
    undoes: str | None = None
    corrects: str | None = None
    purpose: str | None = None
    server_time: int | None = None
    browser_time: int | None = None
    selection: str | None = None
    time_taken_ms: int | None = None


@dataclass(frozen=True)
class Label(_FromJson):
    """The current label of an item: "yes" or "no"."""

    item: int
    label: str


@dataclass(frozen=True)
class Prediction(_FromJson):
    """The prediction of a model for an item: a score, "yes" or "no", or both."""

    item: int
    score: float | None = None
    label: str | None = None


@dataclass(frozen=True)
class Found(_FromJson):
    """An item that was found by its name."""

    id: int
    name: str
