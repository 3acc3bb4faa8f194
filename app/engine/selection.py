"""Select items for a labeling session, and make the records for the log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.choosing import choose, draw_wanted, why_chosen
from closecall.app.engine.exclusion import excluded_from_draw
from closecall.app.engine.occasion import Occasion
from closecall.app.engine.selection_parameters import (
    AUDIT,
    BATCH,
    DESCRIBED,
    DIRECTION,
    GROUP_RULE,
    GROUPS,
    HURRIED,
    INCOMPLETE,
    OVERLAP,
    PART,
    PASSED,
    REMEMBERED,
    RULE,
    SKIPPED_TOO,
    SUPPOSED,
)
from closecall.app.engine.training import Trained, accuracy
from closecall.core.audit import pass_over
from closecall.core.selection import PoolExhausted, QueryStrategy, Selection
from closecall.core.selection.requests import sorted_ids
from closecall.storage import SelectionRecord, Standing, new_id
from closecall.storage.ascending import joined, without

if TYPE_CHECKING:
    from closecall.app.engine.audit import Framed
    from closecall.storage.records import Why
    from closecall.storage.repeats import ItemGroups

STAND_INS: dict[Why, str] = {
    "example": "example",
    "description": "description",
    "random-start": "random",
}
"""Names of the selection methods used before there is a hyperplane, by the reason that the log records."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """A selection that is not yet in the log.

    Parameters
    ----------
    records : tuple of SelectionRecord
        One record for each item. There are several if items were selected together.
    trained : Trained
        The model that the choice is based on.
    strategy : QueryStrategy
    computed_seconds : float
        Processor time of the selection, in seconds.
    """

    records: tuple[SelectionRecord, ...]
    trained: Trained
    strategy: QueryStrategy
    computed_seconds: float

    @property
    def record(self) -> SelectionRecord:
        """Return the record of the first item."""
        return self.records[0]

    def supposing(self, supposed: Mapping[str, Any]) -> Chosen:
        """Return a copy for another assumed answer, `supposed`, which leads to the same items."""
        records = (
            replace(record, id=new_id(), parameters={**record.parameters, SUPPOSED: dict(supposed)})
            for record in self.records
        )
        return replace(self, records=tuple(records))


def select_items(
    occasion: Occasion,
    trained: Trained,
    standing: Standing,
    *,
    n: int = 1,
    diversity: float = 0.0,
    supposed: Mapping[str, Any] | None = None,
) -> Chosen:
    """Select and lease `n` items, or as many as are left.

    Leasing is atomic, so no two sessions get the same item. Only if fewer than `n` other items are left, the
    selection may include items that are leased to the person's own other sessions.

    `trained` is the model of the labels in `standing`. `diversity` is the minimum distance between the items,
    see `core.selection.diversity`. In a look-ahead, `supposed` describes the answer that `standing` assumes,
    see `app.engine.selection_parameters.SUPPOSED`.

    If all items of the index are excluded, but the pool has further items, the index is extended first.

    Raises
    ------
    PoolExhausted
        If there is no item left to choose.
    """
    framed = occasion.frame() if n == 1 and trained.hyperplane is not None else None
    measured = accuracy(occasion.pool, trained.hyperplane, occasion.concept.positive_class)

    def attempt(occasion: Occasion) -> Chosen:
        found = _draw(occasion, framed, trained, standing) if framed is not None else None
        if found is None:
            found = _draw_wanted(occasion, trained, standing, n)
        if found is None:
            found = _select(occasion, trained, standing, n=n, diversity=diversity)
        if supposed:
            found = replace(found, parameters=found.parameters | {SUPPOSED: dict(supposed)})
        selection = found.selection
        own = [_of_place(place, selection, n, diversity) for place in range(len(selection.ids))]
        return _chosen(occasion, trained, found, own, measured, skipped=standing.skipped)

    def select(occasion: Occasion) -> Chosen:
        try:
            return leasing(occasion, attempt, standing.groups)
        except PoolExhausted:
            if occasion.strategy.n_items == len(occasion.pool):
                raise
            strategy = occasion.strategy.extended(occasion.pool)
            return leasing(replace(occasion, strategy=strategy, remembered=None), attempt, standing.groups)

    try:
        chosen = select(occasion)
    except PoolExhausted:
        shared = occasion.sharing_own()
        if shared is occasion:
            raise
        return select(shared)
    if len(chosen.records) < n:
        shared = occasion.sharing_own()
        return chosen if shared is occasion else select(shared)
    return chosen


def leasing(
    occasion: Occasion, attempt: Callable[[Occasion], Chosen], groups: ItemGroups | None = None
) -> Chosen:
    """Lease the items that `attempt` chooses; choose again if another session has leased one of them.

    Also choose again if another session has leased a near-duplicate of an item. Items that the audit draws
    are an exception: they are chosen without regard to the `groups`.
    """
    while True:
        chosen = attempt(occasion)
        items = [record.item for record in chosen.records]
        lost = occasion.others.take(items, apart=kept_apart(chosen.records, groups))
        if not lost:
            return chosen
        occasion = replace(occasion, others=occasion.others.again(lost))


def kept_apart(records: Sequence[SelectionRecord], groups: ItemGroups | None) -> list[int]:
    """Return the near-duplicates of the selected items; other sessions must not have leased any of them.

    For items that were selected without regard to near-duplicates, such as items drawn for the audit, no
    near-duplicates are returned.
    """
    items = [record.item for record in records if GROUPS in record.parameters]
    return groups.members_of(items).tolist() if groups is not None and items else []


def take_found(
    occasion: Occasion,
    trained: Trained,
    ids: NDArray[np.int64],
    own: Sequence[Mapping[str, Any]],
    *,
    why: Why,
    seconds: float,
    scored: int = 0,
    items: int | None = None,
    groups: ItemGroups | None = None,
) -> Chosen:
    """Return selections of the items `ids`, which a search has found, without leasing the items.

    `own` has the log parameters of each item. The search took `seconds` seconds. It covered `items` items, by
    default the whole pool, and scored `scored` of them. If the search left out near-duplicates, `groups` has
    the groups of near-duplicates.
    """
    pool, plane = occasion.pool, trained.hyperplane
    margins = np.full(len(ids), np.nan)
    if plane is not None and len(ids):
        margins = np.abs(plane.scores(pool.rows_of(ids)))
    selection = Selection(ids, margins, seconds, scored=scored, items=len(pool) if items is None else items)
    parameters: dict[str, Any] = {PASSED: list(occasion.passed)}
    if occasion.include_skipped:
        parameters[SKIPPED_TOO] = True
    if groups is not None:
        parameters |= {GROUPS: groups.digest, GROUP_RULE: RULE}
    measured = accuracy(pool, plane, occasion.concept.positive_class)
    return _chosen(occasion, trained, _Found(selection, why, why, parameters, 0.0), own, measured)


def _chosen(
    occasion: Occasion,
    trained: Trained,
    found: _Found,
    own: Sequence[Mapping[str, Any]],
    measured: float | None,
    *,
    skipped: NDArray[np.int64] | None = None,
) -> Chosen:
    """Return the items found, with their records for the log.

    `own` has the parameters that differ by item. `measured` is the hyperplane's accuracy on the held-out
    items. The items leased to other sessions are the same for all records, so only the first record lists
    them.
    """
    concept, selection = occasion.concept, found.selection
    described = {DESCRIBED: occasion.description} if occasion.description else {}
    common = SelectionRecord(
        session_id=occasion.session_id,
        concept_id=concept.id,
        round=occasion.round,
        item=0,
        why=found.why,
        strategy=found.chooser,
        parameters=found.parameters,
        seed=occasion.seed,
        pool_version=occasion.pool.version,
        items_total=selection.items,
        probability=selection.probability,
        selection_ms=1000 * selection.seconds,
        items_scored=selection.scored,
        retrain_ms=trained.retrain_ms,
        n_labels=trained.n_labels,
        hyperplane_digest=trained.hyperplane.digest if trained.hyperplane else None,
        trained_through=trained.through,
        examples_through=trained.examples_through,
        c=concept.c,
        class_weight=concept.class_weight,
        accuracy=measured,
    )
    records = [
        replace(
            common,
            id=new_id(),
            item=item,
            why="skipped-again" if skipped is not None and item in skipped else found.why,
            margin=None if np.isnan(margin) else margin,
            parameters={**found.parameters, **apart, **described},
            leased=() if place else occasion.leased,
        )
        for place, (item, margin, apart) in enumerate(
            zip(selection.ids.tolist(), selection.margins.tolist(), own, strict=True)
        )
    ]
    return Chosen(tuple(records), trained, occasion.strategy, found.computed_seconds)


@dataclass(frozen=True, eq=False)
class _Found:
    """Items to select, with the reason, the method and its parameters, and the processor time in seconds."""

    selection: Selection
    why: Why
    chooser: str
    parameters: dict[str, Any]
    computed_seconds: float


def _select(occasion: Occasion, trained: Trained, standing: Standing, *, n: int, diversity: float) -> _Found:
    """Select by the strategy, and pass over audited items.

    If the strategy needs a hyperplane and there is none, one of `STAND_INS` replaces the strategy.
    """
    strategy = occasion.strategy.thrifty() if occasion.is_hurried else occasion.strategy
    is_thrifty = strategy is not occasion.strategy
    remembered = None if is_thrifty else occasion.remembered
    memory = remembered.memory if remembered else None
    exclude = occasion.excluded(standing)
    seconds = 0.0

    def select(passed: NDArray[np.int64]) -> Selection:
        nonlocal seconds
        selection = choose(
            occasion.pool,
            strategy,
            trained,
            exclude=joined(exclude, passed),
            seed=occasion.seed,
            memory=memory,
            n=n,
            diversity=diversity,
            groups=standing.groups,
            rule=RULE,
        )
        seconds += selection.seconds
        return selection

    started = time.thread_time()
    waiting = without(standing.audited, sorted_ids(occasion.passed))
    selection, passed = pass_over(select, waiting)
    computed_seconds = time.thread_time() - started
    why = why_chosen(trained, strategy)
    parameters: dict[str, Any] = strategy.params() if why == "strategy" else {}
    if is_thrifty and why == "strategy":
        parameters[HURRIED] = True
    if selection.missing:
        parameters[INCOMPLETE] = selection.missing
    if occasion.include_skipped:
        parameters[SKIPPED_TOO] = True
    if remembered and why == "strategy":
        parameters[REMEMBERED] = remembered.digest
    if trained.direction is not None and why == "description":
        parameters[DIRECTION] = trained.direction.params()
    if standing.groups is not None:
        parameters |= {GROUPS: standing.groups.digest, GROUP_RULE: RULE}
    if occasion.passed or len(passed):
        parameters[PASSED] = sorted({*occasion.passed, *passed.tolist()})
    chooser = strategy.name if why == "strategy" else STAND_INS[why]
    return _Found(replace(selection, seconds=seconds), why, chooser, parameters, computed_seconds)


def _draw(occasion: Occasion, framed: Framed, trained: Trained, standing: Standing) -> _Found | None:
    """Draw an item for the audit; return None if every item of the frame is excluded."""
    started = time.thread_time()
    try:
        exclude = excluded_from_draw(standing, occasion.leased)
        drawn = framed.frame.draw(exclude=exclude, seed=occasion.seed)
    except PoolExhausted:
        return None
    assert trained.hyperplane is not None
    margins = np.abs(trained.hyperplane.scores(occasion.pool.rows_of(drawn.ids)))
    return _Found(
        replace(drawn, margins=margins),
        "audit",
        AUDIT,
        {AUDIT: framed.params()},
        time.thread_time() - started,
    )


def _draw_wanted(occasion: Occasion, trained: Trained, standing: Standing, n: int) -> _Found | None:
    """Draw items that need a further annotator; return None if this round has no such items."""
    started = time.perf_counter()
    drawn = draw_wanted(standing, occasion.leased, seed=occasion.seed, n=n)
    if drawn is None:
        return None
    (ids, probability), pool = drawn, occasion.pool
    plane, margins = trained.hyperplane, np.full(len(ids), np.nan)
    if plane is not None:
        margins = np.abs(plane.scores(pool.rows_of(ids)))
    seconds = time.perf_counter() - started
    selection = Selection(ids, margins, seconds, scored=0, items=len(pool), probability=probability)
    return _Found(selection, "overlap", OVERLAP, {OVERLAP: {"persons": occasion.persons}}, 0.0)


def _of_place(place: int, selection: Selection, n: int, diversity: float) -> dict[str, Any]:
    """Return the parameters that apply only to the item at index `place` of the selection."""
    own: dict[str, Any] = {PART: selection.parts[place]} if selection.parts else {}
    return own | {BATCH: {"n": n, "diversity": diversity, "place": place}} if n > 1 else own
