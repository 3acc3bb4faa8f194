"""One selection of a labeling session, as the log records it: what is chosen, by what, and what it took."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from app.training import (
    PART,
    REMEMBERED,
    SKIPPED_TOO,
    SUPPOSED,
    Trained,
    accuracy,
    choose,
    excluded_items,
    why_chosen,
)
from core.pool import Pool
from core.selection import QueryStrategy
from storage import ConceptRecord, SelectionRecord, Standing, new_id

if TYPE_CHECKING:
    from app.memories import Remembered
    from storage.records import Why

STAND_INS: dict[Why, str] = {"example": "example", "random-start": "random"}
"""What chooses as long as there is no hyperplane."""

ROUNDS_APART = 1_000_003
"""Sessions with neighbouring seeds share no round's seed before this many rounds."""


@dataclass(frozen=True, eq=False)
class Occasion:
    """What a selection depends on beside the labels.

    Parameters
    ----------
    session_id : str
    concept : ConceptRecord
    pool : Pool
    strategy : QueryStrategy
        Fitted to the pool.
    leased : tuple of int
        Items that other sessions have in view, ascending.
    include_skipped : bool
        Whether skipped items may be chosen again.
    session_seed : int
    round : int
        The round that begins with the selection.
    remembered : Remembered or None
        What the session remembers of an earlier hyperplane.
    """

    session_id: str
    concept: ConceptRecord
    pool: Pool
    strategy: QueryStrategy
    leased: tuple[int, ...]
    include_skipped: bool
    session_seed: int
    round: int
    remembered: Remembered | None

    def excluded(self, standing: Standing) -> NDArray[np.int64]:
        """Items that may not be chosen, ascending."""
        return excluded_items(standing, self.leased, include_skipped=self.include_skipped)


@dataclass(frozen=True, eq=False)
class Chosen:
    """A selection, not yet in the log.

    Parameters
    ----------
    record : SelectionRecord
    trained : Trained
        What it was chosen by.
    strategy : QueryStrategy
    computed_seconds : float
        Processor time that selecting took.
    """

    record: SelectionRecord
    trained: Trained
    strategy: QueryStrategy
    computed_seconds: float

    def supposing(self, supposed: Mapping[str, str]) -> Chosen:
        """The same selection, chosen ahead for another answer that teaches the same."""
        parameters = {**self.record.parameters, SUPPOSED: dict(supposed)}
        return replace(self, record=replace(self.record, id=new_id(), parameters=parameters))


def select_item(
    occasion: Occasion, trained: Trained, standing: Standing, *, supposed: Mapping[str, str] | None = None
) -> Chosen:
    """Select an item by what was `trained` on the labels of `standing`.

    `supposed` says which answer these labels suppose, see `app.training.SUPPOSED`.

    Raises
    ------
    PoolExhausted
        If there is no item left to choose.
    """
    pool, strategy, concept = occasion.pool, occasion.strategy, occasion.concept
    exclude = occasion.excluded(standing)
    seed = occasion.session_seed * ROUNDS_APART + occasion.round
    memory = occasion.remembered.memory if occasion.remembered else None
    started = time.thread_time()
    selection = choose(pool, strategy, trained, exclude=exclude, seed=seed, memory=memory)
    computed_seconds = time.thread_time() - started
    why = why_chosen(trained)
    margin, item = float(selection.margins[0]), int(selection.ids[0])
    parameters: dict[str, Any] = strategy.params() if why == "strategy" else {}
    if occasion.include_skipped:
        parameters[SKIPPED_TOO] = True
    if occasion.remembered and why == "strategy":
        parameters[REMEMBERED] = occasion.remembered.digest
    if selection.parts:
        parameters[PART] = selection.parts[0]
    if supposed:
        parameters[SUPPOSED] = dict(supposed)
    record = SelectionRecord(
        session_id=occasion.session_id,
        concept_id=concept.id,
        round=occasion.round,
        item=item,
        why="skipped-again" if item in standing.skipped else why,
        strategy=strategy.name if why == "strategy" else STAND_INS[why],
        parameters=parameters,
        seed=seed,
        pool_version=pool.version,
        items_total=selection.items,
        probability=selection.probability,
        margin=None if np.isnan(margin) else margin,
        selection_ms=1000 * selection.seconds,
        items_scored=selection.scored,
        retrain_ms=trained.retrain_ms,
        n_labels=trained.n_labels,
        hyperplane_digest=trained.hyperplane.digest if trained.hyperplane else None,
        trained_through=trained.through,
        examples_through=trained.examples_through,
        c=concept.c,
        class_weight=concept.class_weight,
        leased=occasion.leased,
        accuracy=accuracy(pool, trained.hyperplane, concept.positive_class),
    )
    return Chosen(record, trained, strategy, computed_seconds)
