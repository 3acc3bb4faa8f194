"""A concept's audit: items drawn with known probability, beside those that are selected to learn from.

What they teach is in `core.audit`. Who is drawn from which frame is in the log with each such selection, so
that `verify` can draw again; so are the audited items that selections came to, and passed over.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.training import AUDIT, PASSED, train_concept
from closecall.core.audit import Audited, Frame, Strata, estimate, inclusion
from closecall.core.evaluation.stopping import is_checkpoint
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.randomness import seed_for
from closecall.core.pool.pool import Pool
from closecall.core.selection import PoolExhausted
from closecall.storage import AnswerRecord, ConceptRecord, Concepts, LabelState, SelectionRecord

if TYPE_CHECKING:
    from closecall.app.engine.concept_state import ConceptState
    from closecall.app.engine.training import Trained

SHARES = (0.0, 0.05, 0.1, 0.2, 0.3)
"""Shares of the rounds that the page offers to give to the audit."""

DEFAULT_SHARE = 0.1
"""What an audit begins with, where somebody asks for one."""


@dataclass(frozen=True, eq=False)
class Framed:
    """A frame, and what it was made by.

    Parameters
    ----------
    frame : Frame
    trained : Trained
        The classifier whose scores give the strata.
    n_labels : int
        Labels of that classifier, examples not counted.
    seed : int
        Of the frame.
    """

    frame: Frame
    trained: Trained
    n_labels: int
    seed: int

    def params(self) -> dict[str, Any]:
        """What a selection's record says of it."""
        trained = self.trained
        return {
            "through": trained.through,
            "examples_through": trained.examples_through,
            "digest": trained.hyperplane.digest if trained.hyperplane else None,
            "seed": self.seed,
            **self.frame.strata.params(),
        }


Place = tuple[int, int]
"""Where a frame was made: its places in the logs of answers and of examples."""


@dataclass(frozen=True, eq=False)
class FrameThen:
    """What a frame was made of: the classifier, and the items that were answered, ascending."""

    hyperplane: Hyperplane | None
    answered: NDArray[np.int64]


def place_of_frame(record: SelectionRecord) -> Place:
    """Of the frame that the audit's selection was drawn from."""
    return record.parameters[AUDIT]["through"], record.parameters[AUDIT]["examples_through"]


def has_frame(record: SelectionRecord) -> bool:
    """Whether a selection says all that is needed to draw it for the audit again."""
    said: dict[str, Any] = record.parameters.get(AUDIT, {})
    return said.keys() >= {"through", "examples_through", "digest", "seed"}


def frames_then(
    pool: Pool,
    concepts: Concepts,
    concept: ConceptRecord,
    answers: Iterable[AnswerRecord],
    drawn: Iterable[SelectionRecord],
) -> dict[Place, FrameThen]:
    """The frames of an audit, from the log: all that were `drawn` from.

    Parameters
    ----------
    pool : Pool
        The newest snapshot will do: items keep their features.
    concepts : Concepts
        Has the examples.
    concept : ConceptRecord
        Whose audit it is.
    answers : iterable of AnswerRecord
        Those of the concept, in the log's order.
    drawn : iterable of SelectionRecord
        The audit's selections.
    """
    records = {place_of_frame(record): record for record in drawn}
    state, coming, frames = LabelState(concept.id, pool.has_row), iter(answers), {}
    following = next(coming, None)
    for place, record in sorted(records.items(), key=lambda known: known[0]):
        through, examples_through = place
        while following is not None and following.seq <= through:
            state.apply(following)
            following = next(coming, None)
        examples = concepts.examples(concept.id, examples_through)
        as_then = replace(concept, c=record.c, class_weight=record.class_weight)
        trained = train_concept(pool, state.labels(), examples, as_then, examples_through=examples_through)
        frames[place] = FrameThen(trained.hyperplane, state.answered_items())
    return frames


def frame_seed(concept_id: int, through: int) -> int:
    """Each frame of each audit has a seed of its own: it is made at one position of the log."""
    return seed_for(f"audit of concept {concept_id}", through)


class Audit:
    """A concept's audit in this process, which its sessions share. Any number of threads may use it.

    Parameters
    ----------
    concept : ConceptState
    executor : Executor
        Makes a new frame while the one before still serves.
    """

    def __init__(self, concept: ConceptState, executor: Executor) -> None:
        self._concept = concept
        self._executor = executor
        self._making = threading.Lock()
        self._newest: Framed | None = None
        self._frames: dict[Place, FrameThen] = {}
        self._is_coming = False
        self._passing = threading.Lock()
        self._passed: frozenset[int] | None = None

    def frame(self, pool: Pool) -> Framed | None:
        """What to draw from now; None before there is a hyperplane, or where every item is answered.

        The first one takes a scan of the pool. A quarter more labels, and the next is made.
        """
        with self._making:
            if self._newest is None:
                self._newest = self._make(pool)
            elif not self._is_coming and self._is_due(self._newest):
                self._is_coming = True
                self._executor.submit(self._renew, pool)
            return self._newest

    def judge(self, pool: Pool) -> Audited | None:
        """What the answers so far say of the concept's classifier as it is now; takes a scan of the pool.

        An item of the audit may train: someone answered it first, whom the strategy had asked. It counts as
        asked for, like one that a selection passed over.

        Returns
        -------
        Audited or None
            None before there is a hyperplane, and before the audit's first answer.
        """
        with self._concept.lock:
            state = self._concept.catch_up()
            standing, said = state.standing(), state.audit_labels()
        hyperplane = self._concept.train(pool, standing).hyperplane
        if hyperplane is None or not len(said):
            return None
        drawn = self._drawn()
        known = np.isin(said.items, list(drawn))
        ids, yes = said.items[known], said.yes[known]
        records = [drawn[item] for item in ids.tolist()]
        strata = self._strata(pool, records)
        number = {place: n for n, place in enumerate(strata)}
        chance = inclusion(
            list(strata.values()),
            [number[place_of_frame(record)] for record in records],
            ids,
            pool.rows_of(ids),
        )
        trains = np.isin(ids, standing.labels.items)
        passed = np.isin(ids, self.passed()) & ~trains
        own = ~(trains | passed)
        asked = np.union1d(standing.labels.items, ids[passed])
        return estimate(
            pool.scores(hyperplane),
            np.searchsorted(pool.ids, ids[own]),
            yes[own],
            chance[own],
            asked=np.searchsorted(pool.ids, asked),
            asked_yes=int(np.count_nonzero(standing.labels.yes) + np.count_nonzero(yes[passed])),
        )

    def _drawn(self) -> dict[int, SelectionRecord]:
        """By item, the draw that put it into the audit: the first that was answered.

        Several people may answer an audited item, each shown it by a selection of their own. Only a draw has
        a probability; what the people say together is the item's status.
        """
        drawn: dict[int, SelectionRecord] = {}
        for record in self._concept.log.audited(self._concept.record.id):
            if has_frame(record):
                drawn.setdefault(record.item, record)
        return drawn

    def _strata(self, pool: Pool, records: Sequence[SelectionRecord]) -> dict[Place, Strata]:
        """Of all frames that these were drawn from, in their order."""
        missing = [record for record in records if place_of_frame(record) not in self._frames]
        if missing:
            concept, log = self._concept.record, self._concept.log
            answers = log.answers_after(concept.id)
            self._frames |= frames_then(pool, self._concept.store, concept, answers, missing)
        described = {place_of_frame(record): record.parameters[AUDIT] for record in records}
        return {
            place: Strata(
                self._frames[place].hyperplane,
                *(described[place][name] for name in ("cuts", "sizes", "last")),
            )
            for place in sorted(described)
        }

    def passed(self) -> tuple[int, ...]:
        """Audited items that a selection came to and passed over: nothing selects them again, ascending."""
        with self._passing:
            if self._passed is None:
                self._passed = self._read_passed()
            return tuple(sorted(self._passed))

    def pass_over(self, items: Iterable[int]) -> None:
        """A selection that came to these audited items is in view now."""
        passed = self.passed()
        with self._passing:
            self._passed = frozenset(passed).union(items)

    def _is_due(self, before: Framed) -> bool:
        return is_checkpoint(before.n_labels, len(self._concept.standing().labels))

    def _renew(self, pool: Pool) -> None:
        try:
            made = self._make(pool)
        finally:
            self._is_coming = False
        if made is not None:
            with self._making:
                self._newest = made

    def _make(self, pool: Pool) -> Framed | None:
        standing = self._concept.standing()
        trained = self._concept.train(pool, standing)
        if trained.hyperplane is None:
            return None
        seed = frame_seed(self._concept.record.id, trained.through)
        try:
            frame = Frame(pool, trained.hyperplane, exclude=standing.answered, seed=seed)
        except PoolExhausted:
            return None
        return Framed(frame, trained, len(standing.labels), seed)

    def _read_passed(self) -> frozenset[int]:
        if not len(self._concept.standing().audited):
            return frozenset()
        records = self._concept.log.selections(self._concept.record.id)
        return frozenset(item for record in records for item in record.parameters.get(PASSED, ()))
