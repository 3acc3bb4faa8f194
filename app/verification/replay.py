"""Read the selections in a log, each with the labels and the model that it was based on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.directions import Direction
from closecall.app.engine.exclusion import excluded_then, standing_then
from closecall.app.engine.kept_groups import KeptGroups
from closecall.app.engine.labels_then import LabelsThen, rows_then
from closecall.app.engine.selection_parameters import DIRECTION, GROUPS, PLACED, REMEMBERED, is_of_many
from closecall.app.engine.training import Trained, train_concept
from closecall.app.verification.report import Findings
from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.pool import Pool
from closecall.core.selection import LabeledItems
from closecall.storage import (
    AnswerRecord,
    ConceptRecord,
    Concepts,
    Labels,
    SelectionRecord,
    Standing,
)
from closecall.storage.records import WHYS

REPLAYED = tuple(why for why in WHYS if why != "undo")
"""Values of `SelectionRecord.why` whose selections are repeated: all except "undo", which selects nothing."""

GROUPED = tuple(why for why in REPLAYED if why not in ("audit", "overlap", "search", "similar", "words"))
"""Values of `SelectionRecord.why` whose selections may leave out near-duplicates of answered items."""


class Standings:
    """The labels that selections were based on, computed from the log when they are needed.

    Only the labels of the last selection are kept. Those of all selections would take memory in proportion to
    the square of the number of answers. Selections in the order of the log are fastest.

    Parameters
    ----------
    concept_id : int
    answers : sequence of AnswerRecord
        The concept's answers, in log order.
    annotators : mapping of str to str
        The annotator of each session.
    kept : KeptGroups
        The groups of near-duplicates that selections refer to.
    pool : Pool
        The newest snapshot of the pool.
    """

    def __init__(
        self,
        concept_id: int,
        answers: Sequence[AnswerRecord],
        annotators: Mapping[str, str],
        kept: KeptGroups,
        pool: Pool,
    ) -> None:
        self._labels = LabelsThen(concept_id, answers, pool)
        self._annotators = annotators
        self._kept = kept
        self.pool = pool
        self._last: tuple[SelectionRecord, Standing, NDArray[np.int64]] | None = None

    def of(self, record: SelectionRecord) -> tuple[Standing, NDArray[np.int64]]:
        """Return the labels that a selection was based on, and the items that could not be selected.

        Raises
        ------
        InputError
            If the groups of near-duplicates can't be read.
        """
        if self._last is None or self._last[0] is not record:
            state = self._labels.at(record.trained_through, rows_then(self.pool, record))
            if record.why in GROUPED:
                state.regroup(self._kept.named(record.parameters.get(GROUPS)))
            standing = standing_then(state, record, self._annotators[record.session_id])
            self._last = record, standing, excluded_then(standing, record)
        return self._last[1:]


@dataclass(frozen=True, eq=False)
class Replay:
    """Selections made together, and the data that they were computed from.

    Parameters
    ----------
    records : tuple of SelectionRecord
        The selections, in the order in which they were chosen.
    logged_first : SelectionRecord
        The selection that was logged first; it has the parameters that all selections share.
    model : Trained
        The model trained on the labels that the selections were based on. Its `labels` are only those of the
        concept's example images, and it has no dual variables.
    standings : Standings
        Has the other labels.
    remembered : Hyperplane or None
        The earlier hyperplane that made the selections faster, if any; see `QueryStrategy.remember`.
    """

    records: tuple[SelectionRecord, ...]
    logged_first: SelectionRecord
    model: Trained
    standings: Standings
    remembered: Hyperplane | None

    @property
    def record(self) -> SelectionRecord:
        """Return the selection that was chosen first."""
        return self.records[0]

    @property
    def hyperplane(self) -> Hyperplane | None:
        """Return the model's hyperplane."""
        return self.model.hyperplane

    @property
    def standing(self) -> Standing:
        """Return the labels that the selections were based on."""
        return self.standings.of(self.logged_first)[0]

    @property
    def exclude(self) -> NDArray[np.int64]:
        """Return the items that could not be selected, ascending."""
        return self.standings.of(self.logged_first)[1]

    @property
    def trained(self) -> Trained:
        """Return the model with all labels that it was trained on, without dual variables."""
        labels, shown = self.standing.labels, self.model.labels
        ids, y = np.concatenate([labels.items, shown.ids]), np.concatenate([labels.yes, shown.y])
        return replace(self.model, labels=LabeledItems(ids, y))


def replays_of(
    concepts: Concepts,
    concept: ConceptRecord,
    by_id: Mapping[str, SelectionRecord],
    standings: Standings,
    findings: Findings,
) -> Iterator[Replay]:
    """Read the log once, and yield the concept's selections with the data that they were computed from.

    The digest of each hyperplane is compared with the digest in the log; disagreements are added to
    `findings`.

    Parameters
    ----------
    concepts : Concepts
        The store that has the concept's example images.
    concept : ConceptRecord
        The concept of the selections.
    by_id : mapping of str to SelectionRecord
        The concept's selections by id.
    standings : Standings
        The concept's labels at any position of the log.
    findings : Findings
        Receives the number of compared digests and the disagreements.
    """
    known: dict[str | None, Hyperplane | None] = {None: None}
    computed = [selection for selection in by_id.values() if selection.why in REPLAYED]
    computed.sort(key=lambda selection: (selection.trained_through, selection.seq))
    for _, group in groupby(computed, key=_occasion_of):
        together = list(group)
        records, record = tuple(sorted(together, key=_place_of)), together[0]
        try:
            standing, _ = standings.of(record)
        except InputError as error:
            findings.problems.append(f"Round {record.round} can't be repeated: {error}")
            continue
        examples = concepts.examples(concept.id, record.examples_through)
        as_then = replace(concept, c=record.c, class_weight=record.class_weight)
        trained = train_concept(
            standings.pool, standing.labels, examples, as_then, examples_through=record.examples_through
        )
        digest = trained.hyperplane.digest if trained.hyperplane else None
        findings.digests += 1
        if digest != record.hyperplane_digest:
            findings.problems.append(
                f"Round {record.round}: the labels give hyperplane {digest}, "
                f"the log has {record.hyperplane_digest}"
            )
        known[digest] = trained.hyperplane
        trained = trained.towards(_direction_of(record, findings))
        remembered = record.parameters.get(REMEMBERED)
        if remembered not in known:
            findings.problems.append(
                f"Round {record.round}: hyperplane {remembered} was remembered, which no labels gave before"
            )
        yield Replay(records, record, _without(standing.labels, trained), standings, known.get(remembered))


def _without(labels: Labels, trained: Trained) -> Trained:
    """Return the model without these labels, which precede the other labels, and without dual variables."""
    n, (ids, y) = len(labels), trained.labels
    return replace(trained, labels=LabeledItems(ids[n:].copy(), y[n:].copy()), dual=None)


def _direction_of(record: SelectionRecord, findings: Findings) -> Direction | None:
    """Return the direction of the selection's description in words, if the log has one."""
    if DIRECTION not in record.parameters:
        return None
    try:
        return Direction.of(record.parameters[DIRECTION])
    except InputError as error:
        findings.problems.append(f"Round {record.round}: {error}")
        return None


def _occasion_of(record: SelectionRecord) -> tuple[str, int | str, int]:
    """Return a key that only selections made together share.

    The session and the number of the round are not enough: before November 2026, two batches of a session
    could have the same number.
    """
    return record.session_id, record.round if is_of_many(record) else record.id, record.trained_through


def _place_of(record: SelectionRecord) -> int:
    """Return the selection's index, from 0, among the selections made together."""
    batch = next(filter(None, (record.parameters.get(name) for name in PLACED)), None)
    return int(batch["place"]) if batch else 0
