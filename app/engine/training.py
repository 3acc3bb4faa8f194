"""From a log position to a hyperplane and from there to an item: what labeling does and `verify` repeats."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import BoundedSemaphore

import numpy as np
from numpy.typing import NDArray

from closecall.app.runtime import kernels
from closecall.core.learning import round as learner
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.randomness import seed_for, uniform
from closecall.core.numerics.rows import Rows
from closecall.core.pool.pool import Pool
from closecall.core.selection import QueryStrategy, Selection
from closecall.core.selection.base import sorted_ids
from closecall.storage import ConceptRecord, ExampleRecord, Labels, LabelState, SelectionRecord, Standing
from closecall.storage.ascending import joined, without
from closecall.storage.records import Why

SKIPPED_TOO = "skipped_too"
"""Says, among a selection's parameters, that skipped items could be chosen again."""

REMEMBERED = "remembered"
"""Names, among a selection's parameters, the digest of the hyperplane that the session remembered."""

SUPPOSED = "supposed"
"""Says, among a selection's parameters, which `answer` it was chosen ahead for.

It is about the `item` of the `selection` that was in view, and `trains`, or was for an audit. The hyperplane
was trained on the labels as they stood then, and on that answer.
"""

PART = "part"
"""Names, among a selection's parameters, the part of a mixture that chose the item."""

BATCH = "batch"
"""Says, among a selection's parameters, that it is one of several that were selected at once.

How many were wanted (`n`), how far apart (`diversity`), and which of them it is (`place`, from 0).
"""

SEARCH = "search"
"""Says, among a selection's parameters, what `text` its item was found by, and at which `place` (from 0).

The place is among all items whose names contain the words of the text, in the order of their ids.
"""

AUDIT = "audit"
"""Describes, among a selection's parameters, the frame of an audit that the item was drawn from.

Those who are shown it again after an undo answer for the audit, too.
"""

PASSED = "passed"
"""Names, among a selection's parameters, the audited items that selections came to and passed over so far."""

OVERLAP = "overlap"
"""Says, among a selection's parameters, that its item was drawn for a further person, alike from all such.

Each item is for so many `persons`.
"""

SIMILAR = "similar"
"""Says, among a selection's parameters, what its item was found to be like, and at which `place` (from 0).

`like` is the word of what was looked for (`app.sessions.similar.query`), `method` and `params` are what found
it, and `metric` says what was learned, null for the angle between the features as they are.
"""

OF_THE_QUERY = (SKIPPED_TOO, REMEMBERED, SUPPOSED, PART, BATCH, SEARCH, AUDIT, PASSED, OVERLAP, SIMILAR)
"""Parameters of a selection that are none of its strategy's."""


_CORES = BoundedSemaphore(os.cpu_count() or 1)


@dataclass(frozen=True, eq=False)
class Trained:
    """A concept as the labels up to a log position teach it.

    Parameters
    ----------
    hyperplane : Hyperplane or None
        None until there is a yes and a no.
    retrain_ms : float or None
        What training took, in milliseconds.
    n_labels : int
        Labels it was trained on, examples included.
    through : int
        The last answer's place in the log.
    likes : array of shape (n_positive_examples, n_features), or csr_array
        Features of the images that were given as examples of a yes.
    examples_through : int
        The place up to which the log of examples was read.
    """

    hyperplane: Hyperplane | None
    retrain_ms: float | None
    n_labels: int
    through: int
    likes: Rows
    examples_through: int


def train_concept(
    pool: Pool,
    labels: Labels,
    examples: Sequence[ExampleRecord],
    concept: ConceptRecord,
    *,
    examples_through: int,
) -> Trained:
    """Train the SVM of a concept. Examples count as labels, with negative ids of their own.

    No more trainings run at once than there are cores: each copies the labels' rows.
    """
    if not (pool.is_sparse or kernels.is_ready("training")):
        both = {*labels.yes.tolist(), *(example.is_positive for example in examples)} == {False, True}
        if both:  # else there is nothing to train
            kernels.wait_for("training")
    with _CORES:
        known = known_labels(pool, labels, examples)
        trained = learner.learn(known, C=concept.c, class_weight=concept.class_weight)
    return Trained(
        hyperplane=trained.hyperplane,
        retrain_ms=None if trained.seconds is None else 1000 * trained.seconds,
        n_labels=len(known),
        through=labels.through,
        likes=known.X[known.y & (known.ids < 0)],
        examples_through=examples_through,
    )


def known_labels(pool: Pool, labels: Labels, examples: Sequence[ExampleRecord]) -> learner.Labels:
    """What a concept's SVM is trained on: the labels in their order, then the examples."""
    return learner.Labels.of(pool, labels.items, labels.yes) + _of_examples(examples, pool.n_features)


def _of_examples(examples: Sequence[ExampleRecord], n_features: int) -> learner.Labels:
    usable = [(e.id, e.feature, e.is_positive) for e in examples if e.feature is not None]
    return learner.Labels(
        np.array([-1 - number for number, _, _ in usable], dtype=np.int64),
        np.array([feature for _, feature, _ in usable], dtype=np.float32).reshape(-1, n_features),
        np.array([is_positive for _, _, is_positive in usable], dtype=np.bool_),
    )


def excluded_items(
    standing: Standing, leased: Sequence[int], *, include_skipped: bool, passed: Iterable[int] = ()
) -> NDArray[np.int64]:
    """Items that may not be selected, ascending: the answered ones, and those that others have in view.

    Audited items are among them only once a selection has `passed` over them, and from then on for good, even
    if they were skipped; see `core.audit.pass_over`.
    """
    answered = standing.answered
    if include_skipped:
        answered = without(answered, standing.skipped)
    passed_over = sorted_ids(passed)
    answered = without(answered, without(standing.audited, passed_over))
    return joined(joined(answered, np.intersect1d(standing.audited, passed_over)), sorted_ids(leased))


def excluded_from_draw(standing: Standing, leased: Sequence[int]) -> NDArray[np.int64]:
    """Items that may not be drawn for the audit, ascending: all answered ones, and those in others' view."""
    return joined(standing.answered, sorted_ids(leased))


def excluded_from_search(
    standing: Standing, leased: Sequence[int], *, include_skipped: bool
) -> NDArray[np.int64]:
    """Items that can't be answered where they are searched for, ascending: all answered or leased ones."""
    return excluded_items(standing, leased, include_skipped=include_skipped, passed=standing.audited)


def draw_wanted(
    standing: Standing, leased: Sequence[int], *, seed: int, n: int = 1
) -> tuple[NDArray[np.int64], float] | None:
    """Items that a further person is to answer, `n` or as many as there are, and how probable each was.

    All that others don't have are equally likely; None where there is none.
    """
    wanted = without(standing.wanted, sorted_ids(leased))
    if not len(wanted):
        return None
    n = min(n, len(wanted))
    wanted, draws = wanted.copy(), uniform(seed_for(OVERLAP, seed), np.arange(n), 1)[:, 0]
    for place, draw in enumerate(draws):  # the first places of a shuffle (Fisher and Yates, 1938)
        other = place + int((len(wanted) - place) * draw)
        wanted[[place, other]] = wanted[[other, place]]
    return wanted[:n], n / len(wanted)


def is_of_many(record: SelectionRecord) -> bool:
    """Whether its item was shown with others; what an undo brings back is shown alone."""
    return record.why != "undo" and not {BATCH, SEARCH, SIMILAR}.isdisjoint(record.parameters)


def standing_then(state: LabelState, record: SelectionRecord, annotator: str) -> Standing:
    """The labels that a selection was made by: those of then, and the answer that it was made ahead for.

    Parameters
    ----------
    state : LabelState
        As of the selection's `trained_through`.
    record : SelectionRecord
        The selection.
    annotator : str
        Of its session.
    """
    supposed, persons = record.parameters.get(SUPPOSED), record.parameters.get(OVERLAP, {}).get("persons", 1)
    if supposed is None:
        return state.standing(annotator, persons)
    return state.supposing(
        supposed["item"], annotator, supposed["answer"], trains=supposed["trains"], persons=persons
    )


def excluded_then(standing: Standing, record: SelectionRecord) -> NDArray[np.int64]:
    """Items that could not be selected when `record` was, ascending; `standing` as of then."""
    if record.why == "audit":
        return excluded_from_draw(standing, record.leased)
    if record.why in ("search", "similar"):
        include_skipped = bool(record.parameters.get(SKIPPED_TOO))
        return excluded_from_search(standing, record.leased, include_skipped=include_skipped)
    return excluded_items(
        standing,
        record.leased,
        include_skipped=bool(record.parameters.get(SKIPPED_TOO)),
        passed=record.parameters.get(PASSED, ()),
    )


def accuracy(pool: Pool, hyperplane: Hyperplane | None, positive_class: str | None) -> float | None:
    """The share of held-out items on their true side, 0 … 1; None where truth is unknown."""
    if hyperplane is None or positive_class not in pool.classes:
        return None
    held_out, positive = pool.held_out, pool.classes.index(positive_class)
    return learner.accuracy(hyperplane, held_out.X, held_out.truth, positive)


def accuracy_of_always_no(pool: Pool, positive_class: str | None) -> float | None:
    """What whoever answers no to everything reaches on the held-out items; None where truth is unknown."""
    if positive_class not in pool.classes or not (pool.held_out.truth >= 0).any():
        return None
    known = pool.held_out.truth[pool.held_out.truth >= 0]
    return float(np.mean(~learner.is_positive(known, pool.classes.index(positive_class))))


def why_chosen(trained: Trained, strategy: QueryStrategy) -> Why:
    """What the next item is chosen by, as the log says it; see `choose`."""
    if trained.hyperplane is not None:
        return "strategy"
    return "example" if trained.likes.shape[0] and strategy.needs_hyperplane else "random-start"


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
) -> Selection:
    """The next item: nearest to the hyperplane; before there is one, like the examples, else at random.

    A strategy that needs no hyperplane is never stood in for.

    `memory` is what the strategy remembers of an earlier hyperplane. Of several items, `n`, `diversity` says
    how far apart they must be.

    Raises
    ------
    PoolExhausted
        If every item of the pool is excluded.
    """
    return learner.select_next(
        pool,
        strategy,
        trained.hyperplane,
        n,
        examples=trained.likes,
        exclude=exclude,
        seed=seed,
        memory=memory,
        diversity=diversity,
    )
