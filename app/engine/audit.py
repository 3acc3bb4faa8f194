"""The audit of a concept: items drawn with known probability, to measure the classifier's quality.

`core.audit` estimates this quality from the annotators' answers about the drawn items. Each item is drawn
from a sampling frame: the pool, divided into strata by the classifier's scores (`core.audit.Frame`). The log
records the frame of each drawn item, so that ``closecall verify`` can repeat the draw. If a query strategy
selects an audited item, the item is passed over: the annotator gets the next item instead
(`core.audit.pass_over`). The log records this, too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.labels_then import LabelsThen
from closecall.app.engine.selection_parameters import AUDIT, PASSED, description_of
from closecall.app.engine.training import train_concept
from closecall.app.runtime.cores import a_core
from closecall.core.audit import RULE, Audited, Frame, Strata, estimate, inclusion_by_stratum
from closecall.core.evaluation.stopping import is_checkpoint
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.randomness import seed_for
from closecall.core.pool.pool import Pool
from closecall.core.selection import PoolExhausted
from closecall.storage import AnswerRecord, ConceptRecord, Concepts, SelectionRecord

if TYPE_CHECKING:
    from closecall.app.engine.concept_state import ConceptState
    from closecall.app.engine.training import Trained

SHARES = (0.0, 0.05, 0.1, 0.2, 0.3)
"""Values that the Progress page offers for the share of rounds that draw an item for the audit."""


@dataclass(frozen=True, eq=False)
class Framed:
    """The sampling frame of an audit, and the data that it was made from.

    Parameters
    ----------
    frame : Frame
        The pool's items, divided into strata.
    trained : Trained
        The classifier whose scores define the strata.
    n_labels : int
        Number of labels that the classifier was trained on, without the concept's example images.
    seed : int
        Seed of the frame, which determines the random order of its items.
    """

    frame: Frame
    trained: Trained
    n_labels: int
    seed: int

    def params(self) -> dict[str, Any]:
        """Return the parameters of the frame for the log; see `app.engine.selection_parameters.AUDIT`."""
        trained = self.trained
        return {
            "through": trained.through,
            "examples_through": trained.examples_through,
            "digest": trained.hyperplane.digest if trained.hyperplane else None,
            "seed": self.seed,
            "rule": RULE,
            **self.frame.strata.params(),
        }


Place = tuple[int, int, str]
"""Origin of a sampling frame: number of the last answer, number of the last example image, and description.

The description is the name of a set of features (`app.projects.descriptions`).
"""


@dataclass(frozen=True, eq=False)
class FrameThen:
    """The data that an earlier sampling frame of the audit was made from.

    Parameters
    ----------
    hyperplane : Hyperplane or None
        The classifier.
    answered : array of shape (n_answered,), int64
        Items answered before the frame was made, ascending.
    """

    hyperplane: Hyperplane | None
    answered: NDArray[np.int64]


def place_of_frame(record: SelectionRecord) -> Place:
    """Return the origin of the sampling frame that the selected item was drawn from."""
    frame = record.parameters[AUDIT]
    return frame["through"], frame["examples_through"], description_of(record)


def has_frame(record: SelectionRecord) -> bool:
    """Return whether the selection's record has all parameters that are needed to repeat the draw."""
    parameters: dict[str, Any] = record.parameters.get(AUDIT, {})
    return parameters.keys() >= {"through", "examples_through", "digest", "seed"}


def frames_then(
    pool: Pool,
    concepts: Concepts,
    concept: ConceptRecord,
    answers: Iterable[AnswerRecord],
    drawn: Iterable[SelectionRecord],
) -> dict[Place, FrameThen]:
    """Return the data that each sampling frame of the drawn items was made from, rebuilt from the log.

    Parameters
    ----------
    pool : Pool
        Any snapshot that has the drawn items, such as the newest; an item's features never change.
    concepts : Concepts
        The store that has the concept's example images, with the same kind of features as in `pool`.
    concept : ConceptRecord
        The audited concept.
    answers : iterable of AnswerRecord
        The concept's answers, in log order.
    drawn : iterable of SelectionRecord
        The audit's selections that were based on the features in `pool`.
    """
    records = {place_of_frame(record): record for record in drawn}
    labels, frames = LabelsThen(concept.id, answers, pool), {}
    for place, record in sorted(records.items(), key=lambda known: known[0]):
        through, examples_through, _ = place
        state = labels.at(through, min(record.items_total, len(pool)))
        examples = concepts.examples(concept.id, examples_through)
        as_then = replace(concept, c=record.c, class_weight=record.class_weight)
        trained = train_concept(pool, state.labels(), examples, as_then, examples_through=examples_through)
        frames[place] = FrameThen(trained.hyperplane, state.answered_items())
    return frames


def _stratum_of(ids: NDArray[np.int64], strata: Strata, pool: Pool) -> NDArray[np.int64]:
    """Return the stratum of each item, of shape (n,); −1 for items without features in `pool`."""
    stratum = np.full(len(ids), -1, dtype=np.int64)
    known = pool.have_rows(ids)
    stratum[known] = strata.of(ids[known], pool.rows_of(ids[known]))
    return stratum


def frame_seed(concept_id: int, through: int, description: str = "") -> int:
    """Return the seed of the sampling frame made at the log position `through`.

    The seed depends on the log position, on the concept, and on the name of the items' features
    (`description`).
    """
    under = f" under {description}" if description else ""
    return seed_for(f"audit of concept {concept_id}{under}", through)


class Audit:
    """The audit of a concept, shared by all sessions of the concept. Thread-safe.

    Parameters
    ----------
    concept : ConceptState
    executor : Executor
        Makes the next sampling frame while the previous one is still in use.
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
        self._found: set[int] = set()  # audited items that were answered where a search had found them
        self._found_through = 0

    def frame(self, pool: Pool) -> Framed | None:
        """Return the current sampling frame; None if there is no hyperplane or every item has an answer.

        The first call scans the pool. Later frames are made in the background, each time enough labels have
        been added (`core.evaluation.stopping.is_checkpoint`).
        """
        self._concept.wait_until_trainable(pool)
        with a_core(), self._making:  # core before lock: a selection that waits for the lock holds a core
            if self._newest is None:
                self._newest = self._make(pool)
            elif not self._is_coming and self._is_due(self._newest):
                self._is_coming = True
                self._executor.submit(self._renew, pool)
            return self._newest

    def judge(self, pool: Pool) -> Audited | None:
        """Estimate the quality of the current classifier from the audit's answers; this scans the pool.

        If a query strategy selected an audited item, too, and the item was then labeled for training or
        passed over, the item doesn't count as drawn at random.

        Returns
        -------
        Audited or None
            None if there is no hyperplane, or no answer for the audit yet.
        """
        with self._concept.lock:
            state = self._concept.catch_up()
            standing, labels = state.standing(), state.audit_labels()
        hyperplane = self._concept.train(pool, standing).hyperplane
        if hyperplane is None or not len(labels):
            return None
        drawn = self._drawn()
        known = np.isin(labels.items, list(drawn))
        ids, yes = labels.items[known], labels.yes[known]
        records = [drawn[item] for item in ids.tolist()]
        strata = self._strata(pool, records)
        number = {place: n for n, place in enumerate(strata)}
        chance = inclusion_by_stratum(
            list(strata.values()),
            [number[place_of_frame(record)] for record in records],
            ids,
            [_stratum_of(ids, one, self._pool(place, pool)) for place, one in strata.items()],
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
        """Return, for each audited item, the selection that drew the item for the audit.

        If several draws of an item were answered, return the first draw. A query strategy may have selected
        the item for other annotators; such selections have no known probability, and are ignored. Draws whose
        features can no longer be read are ignored, too.
        """
        drawn: dict[int, SelectionRecord] = {}
        records = list(self._concept.log.audited(self._concept.record.id))
        readable = {name for name in set(map(description_of, records)) if self._concept.can_read(name)}
        for record in records:
            if has_frame(record) and description_of(record) in readable:
                drawn.setdefault(record.item, record)
        return drawn

    def _pool(self, place: Place, pool: Pool) -> Pool:
        """Return the pool with the features that a frame is based on; `pool` has the current features."""
        *_, description = place
        return pool if description == self._concept.description else self._concept.pool_under(description)

    def _strata(self, pool: Pool, records: Sequence[SelectionRecord]) -> dict[Place, Strata]:
        """Return the strata of each sampling frame that the records' items were drawn from, in log order."""
        missing = [record for record in records if place_of_frame(record) not in self._frames]
        concept = self._concept
        for description in {description_of(record) for record in missing}:
            own = [record for record in missing if description_of(record) == description]
            then, store = self._pool(place_of_frame(own[0]), pool), concept.store.under(description)
            answers = concept.log.answers_after(concept.record.id)
            self._frames |= frames_then(then, store, concept.record, answers, own)
        described = {place_of_frame(record): record.parameters[AUDIT] for record in records}
        return {
            place: Strata(
                self._frames[place].hyperplane,
                *(described[place][name] for name in ("cuts", "sizes", "last")),
            )
            for place in sorted(described)
        }

    def passed(self) -> tuple[int, ...]:
        """Return the audited items that were passed over, ascending; later selections exclude them.

        An item is passed over if a query strategy selects it although it is audited. It is also passed over
        if an annotator answers it again where a search or a lasso has found it.
        """
        standing = self._concept.standing()
        with self._passing:
            if self._passed is None:
                self._passed = self._read_passed()
            if len(standing.audited) and standing.labels.through > self._found_through:
                span = self._found_through, standing.labels.through
                self._found |= self._concept.log.audited_and_found(self._concept.record.id, *span)
                self._found_through = standing.labels.through
            return tuple(sorted(self._passed | self._found))

    def pass_over(self, items: Iterable[int]) -> None:
        """Record the audited items that the current selection passed over."""
        self.passed()
        with self._passing:
            self._passed = (self._passed or frozenset()).union(items)

    def forget_passed(self) -> None:
        """Forget the cached result of `passed`. Call this if other servers may have recorded more items."""
        with self._passing:
            self._passed = None

    def _is_due(self, before: Framed) -> bool:
        return is_checkpoint(before.n_labels, len(self._concept.standing().labels))

    def _renew(self, pool: Pool) -> None:
        made = None
        try:
            made = self._make(pool)
        finally:
            with self._making:
                self._newest = made or self._newest
                self._is_coming = False

    def _make(self, pool: Pool) -> Framed | None:
        standing, trained = self._concept.trained(pool)
        if trained.hyperplane is None:
            return None
        seed = frame_seed(self._concept.record.id, trained.through, self._concept.description)
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
