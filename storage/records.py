"""Records that the server and the log exchange.

All times are integers: milliseconds since 1970-01-01 UTC, as a browser's `Date.now()` returns them. Records
are ordered by `seq`, their position in a log, and never by time, because clocks can be set back.
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
    "strategy",
    "random-start",
    "example",
    "undo",
    "audit",
    "skipped-again",
    "search",
    "overlap",
    "similar",
    "words",
    "description",
    "lasso",
    "predicted",
]
Purpose = Literal["train", "audit", "decision", "import"]
Status = Literal["yes", "no", "tied", "unsure", "skip"]
Scope = Literal["read", "label", "own"]
HappeningKind = Literal["pool-complete", "advice-to-stop"]
EventKind = Literal["label", "decision", "pool-complete", "advice-to-stop"]
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

FOUND: tuple[Why, ...] = ("search", "similar", "words", "lasso", "predicted")
"""Reasons of selections among which annotators choose what they answer: results of searches, and the like."""
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
STATUSES: tuple[Status, ...] = get_args(Status)
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""Scopes of a token, in ascending order: each scope includes the permissions of the scopes before it."""
HAPPENINGS: tuple[HappeningKind, ...] = get_args(HappeningKind)
EVENTS: tuple[EventKind, ...] = get_args(EventKind)


def new_id() -> str:
    """Return a random identifier (UUID version 4) as text."""
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConceptRecord:
    """Yes/no question with the parameters of its SVM. `positive_class` is the true class that means yes."""

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
    """Example image for yes or no, as a PNG. `feature` has shape (n_features,), float32, read-only."""

    id: int
    concept_id: int
    image: bytes
    feature: NDArray[np.float32] | None
    is_positive: bool
    created: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """Session of one annotator with one concept. `id` is part of the page's URL."""

    id: str
    concept_id: int
    annotator: str
    seed: int
    strategy: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    created: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionRecord:
    """Reason why an item was shown. It is stored before the item is sent to a browser, and never changed.

    `trained_through` is the `seq` of the last answer, and `examples_through` the id of the last example, with
    which the hyperplane was trained. The selection can be computed again from these two and from `c`,
    `class_weight`, `seed`, `leased`, `pool_version` and `items_total` (the number of rows in the index).

    Items that are selected together have the same `round`. `leased` are the items that could not
    be selected because other sessions showed them or might show them next; only the record of the first item
    of a round has them. `margin` is |wᵀx + b|, or None
    without a hyperplane. `probability` is the probability of a random draw, or None for other selections.
    `selection_ms` and `retrain_ms` are in milliseconds. `accuracy` is the fraction of held-out items on the
    correct side of the hyperplane, 0 … 1, or None if the truth is unknown. The log sets `seq` and `created`.
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
    """Answer as the browser sent it. The browser sets `id`, and the log sets `seq` and `server_time`.

    An undo names the undone answer in `undoes`, and has the same item. A correction names the answer that it
    replaces in `corrects`. Answers with the purpose "audit" are never used for training. Answers with the
    purpose "decision" are adjudications, which do not count as votes. Answers with the purpose "import" come
    from a file, and are used for training like answers with the purpose "train".
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
        """Return whether both answers have the same id and content.

        Times are not compared, because they differ in a retry. Purposes other than "decision" count as
        equal, because an item may have joined or left an audit before the retry.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class HappeningRecord:
    """Fact about the project, other than an answer: the pool is complete, or labeling may stop.

    `after` is the `seq` of the last answer before the fact. `concept_id` is None for a fact about all
    concepts.
    """

    seq: int
    id: str
    kind: HappeningKind
    concept_id: int | None
    after: int
    data: Mapping[str, Any]
    created: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRecord:
    """Webhook: the address `url` gets the project's events of some `kinds`.

    Deliveries are signed with `secret`. Without a `concept_id`, the webhook gets the events of all concepts.
    All events up to the positions `answers_through` and `happenings_through` of the two logs have been
    delivered. `failures` is the number of failed attempts since the last success, and `last_problem` the
    reason of the last failure, or None after a success. `last_success` is a time.
    """

    id: int
    url: str
    secret: str = field(repr=False)
    kinds: tuple[EventKind, ...]
    concept_id: int | None
    created: int
    created_by: str
    answers_through: int
    happenings_through: int
    failures: int
    last_problem: str | None
    last_success: int | None
    is_paused: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """Refusal to store an answer. `reason` is one sentence for the annotator."""

    id: str
    kind: RefusalKind
    reason: str


@dataclass(frozen=True, slots=True)
class AppendResult:
    """Result of storing a batch of answers. Accepted and known answers are on disk.

    `accepted` are new answers, with their `seq`. `known` are answers that were stored before, in their stored
    form. `refused` are the refusals of answers that were not stored.
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
    """Training labels: `items` (int64, ascending) and `yes` (bool), of shape (n_labels,), read-only.

    They follow from the answers in the log up to the position `through`.
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
    """Number of items of a concept with each status.

    `labels` is the number of training labels, and `repeats` the number of items without an answer that are
    near-duplicates of asked items (`storage.repeats`).
    """

    yes: int = 0
    no: int = 0
    tied: int = 0
    unsure: int = 0
    skip: int = 0
    labels: int = 0
    repeats: int = 0

    @property
    def answered(self) -> int:
        """Return the number of items with any answer that was not undone."""
        return self.yes + self.no + self.tied + self.unsure + self.skip

    def left(self, n_items: int) -> int:
        """Return how many of a pool's items have no answer and are no near-duplicates of asked items."""
        return n_items - self.answered - self.repeats


@dataclass(frozen=True, slots=True)
class LogRow:
    """Row of the log: an answer, the reason why its item was shown, and the id of its undo, if any."""

    concept: str
    answer: AnswerRecord
    selection: SelectionRecord | None
    undone_by: str | None
