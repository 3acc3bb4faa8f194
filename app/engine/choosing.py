"""The choice of the next items at a log position, which ``closecall verify`` can repeat.

`app.engine.selection` leases the items, and records them for the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.selection_parameters import OVERLAP, RULE
from closecall.app.engine.training import Trained
from closecall.core.learning import round as learner
from closecall.core.numerics.randomness import seed_for, uniform
from closecall.core.pool.pool import Pool
from closecall.core.selection import PoolExhausted, QueryStrategy, Selection
from closecall.core.selection.nearest import nearest_first, within_reach
from closecall.core.selection.requests import sorted_ids
from closecall.storage import Standing
from closecall.storage.ascending import NONE, joined, without
from closecall.storage.records import Why
from closecall.storage.repeats import ItemGroups

REFILL = 4
"""Number of further items requested for each of the wanted items, if near-duplicates must be replaced."""


def why_chosen(trained: Trained, strategy: QueryStrategy) -> Why:
    """Return the reason for the next selection, as the log records it; see `choose`."""
    if trained.hyperplane is not None or not strategy.needs_hyperplane:
        return "strategy"
    if trained.direction is not None:
        return "description"
    return "example" if trained.likes.shape[0] else "random-start"


def choose(
    pool: Pool,
    strategy: QueryStrategy,
    trained: Trained,
    *,
    exclude: NDArray[np.int64],
    seed: int,
    memory: object = None,
    n: int = 1,
    diversity: float = 0.0,
    groups: ItemGroups | None = None,
    rule: int = RULE,
) -> Selection:
    """Choose `n` items by the strategy.

    If the strategy needs a hyperplane and there is none, choose the items by similarity to `trained.likes`
    or, if `likes` is empty, at random.

    `memory` is the strategy's memory of an earlier hyperplane, see `core.selection.QueryStrategy.remember`.
    `diversity` is the minimum distance between the items, see `core.selection.diversity`. If several items
    are near-duplicates of each other (`groups`), choose only the first, and replace the rest by further
    items. With version 1 of the `rule` (`app.engine.selection_parameters.GROUP_RULE`), don't replace them.

    Raises
    ------
    PoolExhausted
        If every item of the pool is excluded.
    """

    def select(n: int, known: NDArray[np.int64]) -> Selection:
        return learner.select_next(
            pool,
            strategy,
            trained.hyperplane,
            n,
            examples=trained.likes,
            exclude=joined(exclude, known),
            seed=seed,
            memory=memory,
            diversity=diversity,
            labels=trained.labels,
        )

    return without_repeats(select, n, groups, rule=rule)


def select_smallest(
    items: NDArray[np.int64],
    keys: NDArray[np.float64],
    n: int,
    groups: ItemGroups | None,
    *,
    rule: int,
    n_items: int,
) -> Selection:
    """Select the `n` items with the smallest keys; ties go to the lower id.

    Parameters
    ----------
    items : array of shape (n_left,), int64, ascending
        The items to select from.
    keys : array of shape (n_left,), float64
        One finite number per item, returned as the selection's `margins`.
    n : int
        Maximum number of items to select.
    groups : ItemGroups or None
        The groups of near-duplicates, if any. None of the selected items is a near-duplicate of another.
    rule : int
        The version of `app.engine.selection_parameters.GROUP_RULE`.
    n_items : int
        Number of items of the pool, returned as the selection's `items`.

    Raises
    ------
    PoolExhausted
        If there are no items to select from.
    """

    def select(n: int, known: NDArray[np.int64]) -> Selection:
        places = np.flatnonzero(np.isin(items, known, assume_unique=True, invert=True))
        if not len(places):
            raise PoolExhausted("every item to select from is excluded")
        reach = places[within_reach(keys[places], n, 0.0)]
        ids, smallest = nearest_first(items[reach], keys[reach], n)
        return Selection(ids, smallest, 0.0, scored=0, items=n_items)

    return without_repeats(select, n, groups, rule=rule)


def without_repeats(
    select: Callable[[int, NDArray[np.int64]], Selection],
    n: int,
    groups: ItemGroups | None,
    *,
    rule: int,
) -> Selection:
    """Select `n` items, or as many as are left, without near-duplicates among them.

    Version 1 of the `rule` (`app.engine.selection_parameters.GROUP_RULE`) doesn't replace near-duplicates, so
    it may select fewer items.

    Parameters
    ----------
    select : callable
        ``select(n, known)`` selects `n` items that are not in `known`, or as many as are left. If no item is
        left, it raises `PoolExhausted`.
    n : int
        Maximum number of items.
    groups : ItemGroups or None
        The groups of near-duplicates, if any.
    rule : int
        The version of the rule.

    Raises
    ------
    PoolExhausted
        If no item is left.
    """
    selection = select(n, NONE)
    if groups is None:
        return selection
    selection = _without_repeats(selection, groups)
    while rule > 1 and len(selection.ids) < n:
        known = joined(np.sort(selection.ids), groups.members_of(selection.ids.tolist()))
        try:
            more = select(REFILL * n, known)
        except PoolExhausted:
            break
        selection = _first(n, selection, _without_repeats(more, groups))
    return selection


def _without_repeats(selection: Selection, groups: ItemGroups) -> Selection:
    """Return the selection without items that are near-duplicates of an earlier item."""
    first: list[int] = []
    repeats: set[int] = set()
    for place, item in enumerate(selection.ids.tolist()):
        if item not in repeats:
            first.append(place)
            repeats.update(groups.members(item).tolist())
    if len(first) == len(selection.ids):
        return selection
    return replace(
        selection,
        ids=selection.ids[first],
        margins=selection.margins[first],
        parts=tuple(selection.parts[place] for place in first) if selection.parts else (),
        probability=None,
    )


def _first(n: int, one: Selection, other: Selection) -> Selection:
    """Join two selections, one after the other, and return the first `n` items."""
    return replace(
        one,
        ids=np.concatenate([one.ids, other.ids])[:n],
        margins=np.concatenate([one.margins, other.margins])[:n],
        parts=(*one.parts, *other.parts)[:n],
        seconds=one.seconds + other.seconds,
        scored=one.scored + other.scored,
        probability=None,
        missing=max(one.missing, other.missing),
    )


def draw_wanted(
    standing: Standing, leased: Sequence[int], *, seed: int, n: int = 1
) -> tuple[NDArray[np.int64], float] | None:
    """Draw at most `n` of the items that need a further annotator.

    Items leased to other sessions are not drawn. All other items in `standing.wanted` are equally likely.
    Return the drawn items, and the probability that a given item is drawn. Return None if there are no items
    to draw from.
    """
    wanted = without(standing.wanted, sorted_ids(leased))
    if not len(wanted):
        return None
    n = min(n, len(wanted))
    drawn: list[int] = []
    moved: dict[int, int] = {}  # by index: the item that the shuffle has moved there
    for place, draw in enumerate(uniform(seed_for(OVERLAP, seed), np.arange(n), 1)[:, 0]):
        other = place + int((len(wanted) - place) * draw)  # a step of a Fisher–Yates shuffle (1938)
        drawn.append(moved.get(other, int(wanted[other])))
        moved[other] = moved.get(place, int(wanted[place]))
    return np.array(drawn, dtype=np.int64), n / len(wanted)
