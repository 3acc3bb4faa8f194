"""The values that cross the seam: what the service gives to the log and gets back from it.

All times are integers, milliseconds since 1970-01-01 UTC, as a browser's `Date.now()` gives them. Order is
told by `seq`, the position in a log, never by a clock: clocks are set back.
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
    """A random identifier (UUID version 4) as text."""
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConceptRecord:
    """A yes/no question being learned. `positive_class` names the truth's class where truth is known."""

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
    """An image that a person gave as an example. `feature` has shape (n_features,), float32, read-only."""

    id: int
    concept_id: int
    image: bytes
    feature: NDArray[np.float32] | None
    is_positive: bool
    created: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """One annotator at one concept; `id` stands in the address of the page."""

    id: str
    concept_id: int
    annotator: str
    seed: int
    strategy: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    created: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionRecord:
    """Why an item was shown: written before the item is sent to a browser, never changed.

    `trained_through` and `examples_through` are the last `seq` of the answers and the last id of the examples
    that the hyperplane was trained on; with `c`, `class_weight`, `seed`, `leased`, `pool_version` and
    `items_total` (the rows that the index covered) a selection can be computed again. `margin` is |wᵀx + b|,
    None where no hyperplane existed. Of several selected at once the first has what was `leased`; the others
    have nothing there. `seq` and `created` are set by the log.
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
    """One answer as the browser gave it; `id` was born there. `seq` and `server_time` are set by the log.

    An undo names in `undoes` the answer that it takes back, and repeats that answer's item. A correction
    names in `corrects` the answer that it replaces. Answers with purpose "audit" never train; one with
    purpose "decision" settles what annotators disagree on, and is no vote; those with purpose "import" came
    from a file, of another program perhaps, and train like others.
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
        """Whether id and content agree; times do not count, so what is sent again is the same."""
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
            self.purpose,
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that was not stored, and why; `reason` is one sentence for the person."""

    id: str
    kind: RefusalKind
    reason: str


@dataclass(frozen=True, slots=True)
class AppendResult:
    """What became of a batch of answers. Everything accepted or known is on the disk.

    `accepted` are new and carry their `seq`, `known` were there already (as stored), `refused` are not.
    """

    accepted: tuple[AnswerRecord, ...]
    known: tuple[AnswerRecord, ...]
    refused: tuple[Refusal, ...]

    @property
    def acknowledged(self) -> tuple[str, ...]:
        """The ids that the browser may drop from its queue because they are stored."""
        return tuple(a.id for a in self.accepted + self.known)


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """The labels that train: `items` int64 ascending and `yes` bool, both of shape (n_labels,), read-only.

    `through` is the log position that they are true of.
    """

    items: NDArray[np.int64]
    yes: NDArray[np.bool_]
    through: int

    def __len__(self) -> int:
        return len(self.items)

    def teach_the_same_as(self, other: Labels) -> bool:
        """Whether they are the same labels, whatever position of the log they are of."""
        return all(
            mine is theirs or np.array_equal(mine, theirs)
            for mine, theirs in ((self.yes, other.yes), (self.items, other.items))
        )


@dataclass(frozen=True, slots=True)
class Counts:
    """Items of a concept by their status; `labels` is how many train (yes or no, without the audit's)."""

    yes: int = 0
    no: int = 0
    tied: int = 0
    unsure: int = 0
    skip: int = 0
    labels: int = 0

    @property
    def answered(self) -> int:
        """Items with any answer in force."""
        return self.yes + self.no + self.tied + self.unsure + self.skip


@dataclass(frozen=True, slots=True)
class LogRow:
    """One line of the flattened log: an answer, why its item was shown, and whether it was taken back."""

    concept: str
    answer: AnswerRecord
    selection: SelectionRecord | None
    undone_by: str | None
