"""The values passed between the service and the log.

All times are integers, milliseconds since 1970-01-01 UTC, as from a browser's `Date.now()`. Order is given by
`seq`, the position in a log, never by a clock: clocks can be set back.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

AnswerWord = Literal["yes", "no", "unsure", "skip", "undo"]
Why = Literal[
    "strategy", "random-start", "example", "undo", "audit", "skipped-again", "search", "overlap", "similar"
]
Purpose = Literal["train", "audit", "decision", "import"]
Status = Literal["yes", "no", "tied", "unsure", "skip"]
ClassWeight = Literal["balanced"]
RefusalKind = Literal[
    "malformed",
    "conflict",
    "unknown-concept",
    "unknown-session",
    "unknown-selection",
    "unknown-answer",
    "unknown-item",
    "wrong-item",
    "not-asked",
    "not-yours",
    "already-undone",
    "not-undoable",
]

ANSWERS: tuple[AnswerWord, ...] = get_args(AnswerWord)
WHYS: tuple[Why, ...] = get_args(Why)
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
STATUSES: tuple[Status, ...] = get_args(Status)


def new_id() -> str:
    """Return a random identifier (UUID version 4) as text."""
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConceptRecord:
    """A yes/no question and its SVM's parameters; `positive_class` is the true class that means yes."""

    id: int
    name: str
    question: str
    guideline: str = ""
    positive_class: str | None = None
    c: float = 1.0
    class_weight: ClassWeight | None = None
    created: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExampleRecord:
    """An example of a yes or a no, as a PNG. `feature` has shape (n_features,), float32, read-only."""

    id: int
    concept_id: int
    image: bytes
    feature: NDArray[np.float32] | None
    is_positive: bool
    created: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """One annotator's session with one concept; `id` is part of the page's URL."""

    id: str
    concept_id: int
    annotator: str
    seed: int
    strategy: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    created: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionRecord:
    """The reason why an item was shown: written before the item is sent to a browser, never changed.

    `trained_through` and `examples_through` are the last `seq` of the answers and the last id of the examples
    that trained the hyperplane. With `c`, `class_weight`, `seed`, `leased`, `pool_version` and `items_total`
    (the rows in the index), a selection can be computed again. `margin` is |wᵀx + b|, or None without a
    hyperplane. `probability` is that of a random draw, or None. `selection_ms` and `retrain_ms` are in
    milliseconds. `accuracy` is the share of held-out items on their true side, 0 … 1, or None if truth is
    unknown. If several items are selected together, only the first records `leased`. The log sets `seq` and
    `created`.
    """

    session_id: str
    concept_id: int
    round: int
    item: int
    why: Why
    strategy: str
    seed: int
    pool_version: int
    items_total: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    probability: float | None = None
    margin: float | None = None
    selection_ms: float = 0.0
    items_scored: int = 0
    retrain_ms: float | None = None
    n_labels: int = 0
    hyperplane_digest: str | None = None
    trained_through: int = 0
    examples_through: int = 0
    c: float = 1.0
    class_weight: ClassWeight | None = None
    leased: tuple[int, ...] = ()
    accuracy: float | None = None
    id: str = field(default_factory=new_id)
    seq: int = 0
    created: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """An answer as the browser sent it, with the browser's `id`. The log sets `seq` and `server_time`.

    An undo names the undone answer in `undoes`, and repeats its item. A correction names the answer that it
    replaces in `corrects`. Answers with purpose "audit" never train, those with purpose "decision" are
    adjudications and not votes, and those with purpose "import" came from a file and train like others.
    """

    id: str
    concept_id: int
    session_id: str
    annotator: str
    item: int
    answer: AnswerWord
    browser_time: int
    time_taken_ms: int | None = None
    selection_id: str | None = None
    undoes: str | None = None
    corrects: str | None = None
    purpose: Purpose = "train"
    seq: int = 0
    server_time: int = 0

    def says_the_same_as(self, other: AnswerRecord) -> bool:
        """Return whether id and content are the same.

        A retry has other times, and another purpose if its item has joined or left an audit meanwhile. Only
        a decision is never the same as a vote.
        """
        return self._content() == other._content()

    def _content(self) -> tuple[object, ...]:
        return (
            self.id,
            self.concept_id,
            self.session_id,
            self.annotator,
            self.item,
            self.answer,
            self.selection_id,
            self.undoes,
            self.corrects,
            self.purpose == "decision",
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that was not stored; `reason` is one sentence for the annotator."""

    id: str
    kind: RefusalKind
    reason: str


@dataclass(frozen=True, slots=True)
class AppendResult:
    """The outcome of storing a batch of answers. Accepted and known answers are on disk.

    `accepted` answers are new and have their `seq`; `known` ones were stored before, as returned here;
    `refused` ones are not stored.
    """

    accepted: tuple[AnswerRecord, ...]
    known: tuple[AnswerRecord, ...]
    refused: tuple[Refusal, ...]

    @property
    def acknowledged(self) -> tuple[str, ...]:
        """Return the ids of stored answers, which the browser may drop from its queue."""
        return tuple(a.id for a in self.accepted + self.known)


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """The training labels: `items` (int64, ascending) and `yes` (bool), of shape (n_labels,), read-only.

    `through` is their position in the log.
    """

    items: NDArray[np.int64]
    yes: NDArray[np.bool_]
    through: int

    def __len__(self) -> int:
        return len(self.items)

    def teach_the_same_as(self, other: Labels) -> bool:
        """Return whether the labels are the same; `through` may differ."""
        return all(
            mine is theirs or np.array_equal(mine, theirs)
            for mine, theirs in ((self.yes, other.yes), (self.items, other.items))
        )


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of a concept's items by status; `labels` is the number of training labels."""

    yes: int = 0
    no: int = 0
    tied: int = 0
    unsure: int = 0
    skip: int = 0
    labels: int = 0

    @property
    def answered(self) -> int:
        """Return the number of items with any answer in force."""
        return self.yes + self.no + self.tied + self.unsure + self.skip


@dataclass(frozen=True, slots=True)
class LogRow:
    """One line of the flattened log: an answer, why its item was shown, and whether it was undone."""

    concept: str
    answer: AnswerRecord
    selection: SelectionRecord | None
    undone_by: str | None
