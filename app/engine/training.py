"""Training and selection at a log position. Labeling computes them, and ``closecall verify`` repeats them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.directions import Direction
from closecall.app.runtime import kernels
from closecall.core.learning import round as learner
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.randomness import seed_for, uniform
from closecall.core.numerics.rows import PlacedRows, Rows
from closecall.core.pool.pool import Pool
from closecall.core.selection import PoolExhausted, QueryStrategy, Selection
from closecall.core.selection.base import sorted_ids
from closecall.storage import ConceptRecord, ExampleRecord, Labels, LabelState, SelectionRecord, Standing
from closecall.storage.ascending import NONE, joined, without
from closecall.storage.records import Why
from closecall.storage.repeats import ItemGroups

SKIPPED_TOO = "skipped_too"
"""Selection parameter: whether skipped items could be chosen again."""

REMEMBERED = "remembered"
"""Selection parameter: digest of the earlier hyperplane whose scores the strategy used.

See `app.engine.strategy_memory`.
"""

SUPPOSED = "supposed"
"""Selection parameter: the answer that a look-ahead selection assumes (`app.engine.lookahead`).

It has the `answer`, the `item` that the answer is about, and the id of the `selection` that shows this item.
`trains` says whether the hyperplane was trained on this answer; it is false if the item belongs to the audit.
"""

PART = "part"
"""Selection parameter: the part of the mixture strategy that chose the item."""

BATCH = "batch"
"""Selection parameter of items selected together.

It has the number of items requested (`n`), the minimum distance between items (`diversity`), and the item's
`place`, from 0.
"""

SEARCH = "search"
"""Selection parameter of items found by name: the `text`, and the item's `place` in the result, from 0.

The result is all items whose names contain the words of the text, ordered by id.
"""

AUDIT = "audit"
"""Selection parameter: the sampling frame of the audit from which the item was drawn.

An item that is shown again after an undo keeps this parameter: its new answer belongs to the audit, too.
"""

PASSED = "passed"
"""Selection parameter: the audited items passed over so far; see `core.audit.pass_over`."""

OVERLAP = "overlap"
"""Selection parameter of items drawn for a further annotator: each item needs `persons` annotators."""

SIMILAR = "similar"
"""Selection parameter of items found by Find similar: the query, and the item's `place` from 0.

`like` describes the query (`app.sessions.similar.query`). `method` and `params` describe the search. `metric`
describes the learned metric; it is null for the angle between the original features.
"""

WORDS = "words"
"""Selection parameter of items found by words: `texts`, `excluded` texts, and the item's `place`, from 0.

The result is the items nearest to the description's `DIRECTION`, which only a page's first record has.
"""

DIRECTION = "direction"
"""Selection parameter: the description in words whose direction chose the item (`app.engine.directions`)."""

LASSO = "lasso"
"""Selection parameter of items in a lasso.

It has the number of items requested (`n`), and the item's `place`, from 0. The result is the items in
the `POLYGON` that can be answered, nearest to the hyperplane first.
"""

POLYGON = "polygon"
"""Selection parameter: the lasso that has the item (`app.engine.lasso`); only the first record has it."""

GROUPS = "groups"
"""Selection parameter: digest of the groups by which near-duplicates were left out (`excluded_items`).

See `app.engine.kept_groups`. Without this parameter, no near-duplicates were left out.
"""

GROUP_RULE = "group_rule"
"""Selection parameter: the version of the rule by which near-duplicates were left out, 1 if it is missing.

By rule 1, every skipped item could be chosen again, even if a near-duplicate had an answer by then. Items
chosen together were fewer if some of them repeated others.
"""

RULE = 2
"""The current version of this rule."""

REFILL = 4
"""Items chosen per item wanted, after near-duplicates were left out of items chosen together."""

DESCRIBED = "described"
"""Selection parameter: the name of the description whose features the selection is based on.

See `app.projects.descriptions`. Without this parameter, it is the project's first description.
"""

OF_THE_QUERY = (
    SKIPPED_TOO,
    REMEMBERED,
    SUPPOSED,
    PART,
    BATCH,
    SEARCH,
    AUDIT,
    PASSED,
    OVERLAP,
    SIMILAR,
    WORDS,
    DIRECTION,
    LASSO,
    POLYGON,
    GROUPS,
    GROUP_RULE,
    DESCRIBED,
)
"""Selection parameters that do not belong to the strategy."""

PLACED = (BATCH, SEARCH, SIMILAR, WORDS, LASSO)
"""Selection parameters of items shown together with others; each has the item's `place`, from 0."""


_CORES = threading.BoundedSemaphore(os.cpu_count() or 1)
_OWN = threading.local()


@contextmanager
def a_core() -> Iterator[None]:
    """Wait for a free core, and hold it until the ``with`` block ends. Nested blocks of a thread share it.

    This limits trainings to one per core. More would each take longer, and need memory at the same time.
    """
    if getattr(_OWN, "core", False):
        yield
        return
    with _CORES:
        _OWN.core = True
        try:
            yield
        finally:
            _OWN.core = False


@dataclass(frozen=True, eq=False)
class Trained:
    """The model of a concept at a log position.

    Parameters
    ----------
    hyperplane : Hyperplane or None
        None until there is a yes and a no.
    retrain_ms : float or None
        Duration of the training, in milliseconds.
    n_labels : int
        Number of labels that the model was trained on, including the concept's example images.
    through : int
        Log position of the last answer.
    likes : array of shape (n_likes, n_features), or csr_array
        Features of the positive example images, followed by the direction if there is one, float32.
    examples_through : int
        Position up to which the log of example images was read.
    direction : Direction or None
        The direction of a description in words, if labeling starts with items that match it.
    """

    hyperplane: Hyperplane | None
    retrain_ms: float | None
    n_labels: int
    through: int
    likes: Rows
    examples_through: int
    direction: Direction | None = None

    def towards(self, direction: Direction | None) -> Trained:
        """Return a copy with the direction added to `likes`, so that labeling starts with similar items.

        Return the model itself if it has a hyperplane, or if the direction has another number of features.
        """
        if direction is None or self.hyperplane is not None or len(direction.vector) != self.likes.shape[1]:
            return self
        likes = np.concatenate([self.likes, direction.vector[None]])
        return replace(self, likes=likes, direction=direction)


def train_concept(
    pool: Pool,
    labels: Labels,
    examples: Sequence[ExampleRecord],
    concept: ConceptRecord,
    *,
    examples_through: int,
) -> Trained:
    """Train the SVM of a concept on labels and example images.

    The example image with id n counts as a label with id −1 − n. Training waits for the compiled solver and
    for a free core. `examples_through` is the position up to which the log of example images was read.
    """
    wait_until_trainable(pool, lambda: labels, examples)
    shown = _of_examples(examples, pool.n_features)
    with a_core():
        ids, y = np.concatenate([labels.items, shown.ids]), np.concatenate([labels.yes, shown.y])
        X = known_labels(pool, labels, examples).X if pool.is_sparse else _placed(pool, labels.items, shown.X)
        trained = learner.learn_rows(X, y, ids, C=concept.c, class_weight=concept.class_weight)
    return Trained(
        hyperplane=trained.hyperplane,
        retrain_ms=None if trained.seconds is None else 1000 * trained.seconds,
        n_labels=len(ids),
        through=labels.through,
        likes=shown.X[shown.y],
        examples_through=examples_through,
    )


def wait_until_trainable(pool: Pool, labels: Callable[[], Labels], examples: Sequence[ExampleRecord]) -> None:
    """Wait until the solver is compiled, if these labels and example images can be trained on.

    `labels` returns the labels. It is called only if the solver is needed and not compiled yet.
    """
    if pool.is_sparse or kernels.is_ready("training"):
        return
    if is_trainable(labels(), examples):
        kernels.wait_for("training")


def is_trainable(labels: Labels, examples: Sequence[ExampleRecord]) -> bool:
    """Return whether there is a yes and a no among the labels and example images."""
    usable = (example.is_positive for example in examples if example.feature is not None)
    return {*labels.yes.tolist(), *usable} == {False, True}


def _placed(pool: Pool, items: NDArray[np.int64], of_examples: Rows) -> PlacedRows:
    """Return the feature rows of the items, followed by the feature rows of the example images."""
    return pool.placed_rows_of(items) + PlacedRows.of(of_examples)


def known_labels(pool: Pool, labels: Labels, examples: Sequence[ExampleRecord]) -> learner.Labels:
    """Return the labels that the SVM is trained on: first those of the pool, then the example images."""
    return learner.Labels.of(pool, labels.items, labels.yes) + _of_examples(examples, pool.n_features)


def _of_examples(examples: Sequence[ExampleRecord], n_features: int) -> learner.Labels:
    usable = [(e.id, e.feature, e.is_positive) for e in examples if e.feature is not None]
    return learner.Labels(
        np.array([-1 - number for number, _, _ in usable], dtype=np.int64),
        np.array([feature for _, feature, _ in usable], dtype=np.float32).reshape(-1, n_features),
        np.array([is_positive for _, _, is_positive in usable], dtype=np.bool_),
    )


def excluded_items(
    standing: Standing,
    leased: Sequence[int],
    *,
    include_skipped: bool,
    passed: Iterable[int] = (),
    rule: int = RULE,
) -> NDArray[np.int64]:
    """Return the items that may not be selected, ascending.

    These are the answered items, the items leased to other sessions, and the near-duplicates of both. With
    `include_skipped`, skipped items may be selected, unless a near-duplicate has an answer other than a skip.
    `rule` is the version of `GROUP_RULE`.

    An answer for the audit excludes neither its item nor the item's near-duplicates. An audited item
    that a selection has passed over is in `passed`, and is excluded even if it was skipped
    (`core.audit.pass_over`).
    """
    taken = _taken(standing, leased, include_skipped=include_skipped, passed=passed)
    if standing.groups is None:
        return taken
    repeats = standing.repeats
    if include_skipped:
        again = without(standing.skipped, standing.audited)
        if rule > 1:
            again = np.intersect1d(again, repeats[~standing.repeats_answered], assume_unique=True)
        repeats = without(repeats, again)
    return joined(joined(repeats, standing.groups.members_of(leased)), taken)


def _taken(
    standing: Standing, leased: Sequence[int], *, include_skipped: bool, passed: Iterable[int]
) -> NDArray[np.int64]:
    """Return the items that are answered or leased to others, as `excluded_items` describes, ascending."""
    answered = standing.answered
    if include_skipped:
        answered = without(answered, standing.skipped)
    passed_over = sorted_ids(passed)
    answered = without(answered, without(standing.audited, passed_over))
    return joined(joined(answered, np.intersect1d(standing.audited, passed_over)), sorted_ids(leased))


def excluded_from_draw(standing: Standing, leased: Sequence[int]) -> NDArray[np.int64]:
    """Return the items that can't be drawn for the audit, ascending: those answered, or leased to others."""
    return joined(standing.answered, sorted_ids(leased))


def excluded_from_search(
    standing: Standing, leased: Sequence[int], *, include_skipped: bool
) -> NDArray[np.int64]:
    """Return the items that can't be answered even if a search finds them, ascending.

    They have an answer, or are leased to other sessions.
    """
    return _taken(standing, leased, include_skipped=include_skipped, passed=standing.audited)


def excluded_from_lasso(
    standing: Standing, leased: Sequence[int], *, include_skipped: bool, rule: int
) -> NDArray[np.int64]:
    """Return the items in a lasso that are not shown, ascending.

    They are the items of `excluded_from_search`, and repeats; see `excluded_items`.
    """
    passed = standing.audited
    return excluded_items(standing, leased, include_skipped=include_skipped, passed=passed, rule=rule)


def draw_wanted(
    standing: Standing, leased: Sequence[int], *, seed: int, n: int = 1
) -> tuple[NDArray[np.int64], float] | None:
    """Draw `n` items that need a further annotator, or as many as there are.

    All items in `standing.wanted` that are not leased to other sessions are equally likely. Return the drawn
    items and the probability that a given item is drawn, or None if there are no items to draw from.
    """
    wanted = without(standing.wanted, sorted_ids(leased))
    if not len(wanted):
        return None
    n = min(n, len(wanted))
    wanted, draws = wanted.copy(), uniform(seed_for(OVERLAP, seed), np.arange(n), 1)[:, 0]
    for place, draw in enumerate(draws):  # the first steps of a Fisher–Yates shuffle (1938)
        other = place + int((len(wanted) - place) * draw)
        wanted[[place, other]] = wanted[[other, place]]
    return wanted[:n], n / len(wanted)


def description_of(record: SelectionRecord) -> str:
    """Return the name of the description whose features a selection is based on; see `DESCRIBED`."""
    return str(record.parameters.get(DESCRIBED, ""))


def is_of_many(record: SelectionRecord) -> bool:
    """Return whether the item was shown together with others. After an undo, an item is shown alone."""
    return record.why != "undo" and not record.parameters.keys().isdisjoint(PLACED)


def standing_then(state: LabelState, record: SelectionRecord, annotator: str) -> Standing:
    """Return the labels that a selection was based on, including the answer that a look-ahead assumed.

    Parameters
    ----------
    state : LabelState
        State of the labels at the log position `record.trained_through`.
    record : SelectionRecord
        The selection.
    annotator : str
        The annotator of the selection's session.
    """
    supposed, persons = record.parameters.get(SUPPOSED), record.parameters.get(OVERLAP, {}).get("persons", 1)
    if supposed is None:
        return state.standing(annotator, persons)
    return state.supposing(
        supposed["item"], annotator, supposed["answer"], trains=supposed["trains"], persons=persons
    )


def excluded_then(standing: Standing, record: SelectionRecord) -> NDArray[np.int64]:
    """Return the items that could not be selected at the time of the selection `record`, ascending.

    `standing` has the labels at that time.
    """
    include_skipped = bool(record.parameters.get(SKIPPED_TOO))
    rule = record.parameters.get(GROUP_RULE, 1)
    if record.why == "audit":
        return excluded_from_draw(standing, record.leased)
    if record.why in ("search", "similar", "words"):
        return excluded_from_search(standing, record.leased, include_skipped=include_skipped)
    if record.why == "lasso":
        return excluded_from_lasso(standing, record.leased, include_skipped=include_skipped, rule=rule)
    return excluded_items(
        standing,
        record.leased,
        include_skipped=include_skipped,
        passed=record.parameters.get(PASSED, ()),
        rule=rule,
    )


def accuracy(pool: Pool, hyperplane: Hyperplane | None, positive_class: str | None) -> float | None:
    """Return the hyperplane's accuracy on the held-out items, 0 … 1, or None if it is unknown."""
    if hyperplane is None or positive_class not in pool.classes:
        return None
    held_out, positive = pool.held_out, pool.classes.index(positive_class)
    return learner.accuracy(hyperplane, held_out.X, held_out.truth, positive)


def accuracy_of_always_no(pool: Pool, positive_class: str | None) -> float | None:
    """Return the held-out accuracy of always answering no, 0 … 1, or None if the truth is unknown."""
    if positive_class not in pool.classes or not (pool.held_out.truth >= 0).any():
        return None
    known = pool.held_out.truth[pool.held_out.truth >= 0]
    return float(np.mean(~learner.is_positive(known, pool.classes.index(positive_class))))


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
    """Choose `n` items by the strategy or, if it lacks a hyperplane, by similarity to `likes` or at random.

    `memory` is the strategy's memory of an earlier hyperplane, see `core.selection.QueryStrategy.remember`.
    `diversity` is the minimum distance between the items, see `core.selection.diversity`. Of each
    of the `groups` of near-duplicates only the first item is chosen. If fewer than `n` items remain, further
    items are chosen from the rest of the pool, except by the first version of the `rule`, see `GROUP_RULE`.

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
        )

    return without_repeats(select, n, groups, rule=rule)


def without_repeats(
    select: Callable[[int, NDArray[np.int64]], Selection],
    n: int,
    groups: ItemGroups | None,
    *,
    rule: int,
) -> Selection:
    """Select `n` items, or as many as are left, of which none is a near-duplicate of another.

    By the first version of the `rule`, there may be fewer; see `GROUP_RULE`.

    Parameters
    ----------
    select : callable
        ``select(n, known)`` selects `n` items, or as many as are left, without those in `known`. If none are
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
    """Return the selection without items that are near-duplicates of an earlier one."""
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
    """Return the first `n` items of two selections, one after the other."""
    return replace(
        one,
        ids=np.concatenate([one.ids, other.ids])[:n],
        margins=np.concatenate([one.margins, other.margins])[:n],
        parts=(*one.parts, *other.parts)[:n],
        seconds=one.seconds + other.seconds,
        scored=one.scored + other.scored,
        probability=None,
    )
