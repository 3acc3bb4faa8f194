"""Simulated sessions that measure how much AUROC the advice to stop costs, and how many labels it saves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from closecall.core.errors import InputError
from closecall.core.evaluation.stability import stop_set
from closecall.core.evaluation.stopping import AHEAD, ENOUGH, Checkpoint, advise, changes_ahead, is_checkpoint
from closecall.core.experiment.sampled import Annotator, SampledConcept
from closecall.core.learning.round import is_positive
from closecall.core.pool.pool import Pool
from closecall.core.simulation.drawing import ItemsByClass

TEST_ITEMS = 10_000
"""Maximum number of items that AUROC is measured on."""


@dataclass(frozen=True)
class AdvisedSession:
    """A simulated session that ignores the advice to stop and continues to the end.

    Parameters
    ----------
    positive : int
        The positive class.
    n_labels : tuple of int
        Number of labels at each checkpoint, and at the end.
    auroc : tuple of float
        AUROC, from 0 to 1, at each entry of `n_labels`, on items outside the session.
    stop : int or None
        Index in `n_labels` of the first checkpoint with the advice to stop; None if no checkpoint has it.
    reason : str
        Reason for the advice to stop. If `stop` is None, reason for the last advice to continue.
    bounds, changes : tuple of float
        The bounds of `core.evaluation.stopping.changes_ahead` at the checkpoints, and the shares of
        predictions that did change with as many labels.
    """

    positive: int
    n_labels: tuple[int, ...]
    auroc: tuple[float, ...]
    stop: int | None
    reason: str
    bounds: tuple[float, ...] = ()
    changes: tuple[float, ...] = ()

    @property
    def lost(self) -> float:
        """AUROC at the end minus AUROC at the advised stop."""
        return self.auroc[-1] - self.auroc[-1 if self.stop is None else self.stop]

    @property
    def saved(self) -> int:
        """Number of labels after the advised stop."""
        return self.n_labels[-1] - self.n_labels[-1 if self.stop is None else self.stop]


def advised_sessions(
    pool: Pool,
    n_sessions: int,
    *,
    n_items: int = 20_000,
    n_labels: int = 3000,
    batch: int = 5,
    least: float = 0.01,
    enough: float = ENOUGH,
    seed: int = 0,
) -> Iterator[AdvisedSession]:
    """Simulate labeling sessions, each with one positive class and its own random items.

    The positive class changes from session to session. AUROC is measured on the held-out items. If the
    held-out items lack positives or negatives, AUROC is measured on items of the pool that are not in the
    session.

    Parameters
    ----------
    pool : Pool
        Pool whose classes are known.
    n_sessions : int
        Number of sessions.
    n_items : int
        Number of items per session.
    n_labels : int
        Number of answers after which a session ends.
    batch : int
        Number of answers between two trainings.
    least : float
        Minimum share of the pool for a class to be used as the positive class.
    enough : float
        See `core.evaluation.stopping.advise`.
    seed : int
        Seed of all random choices; not negative.

    Raises
    ------
    InputError
        If there are more answers than items, or too few items or classes.
    """
    if n_labels > n_items:
        raise InputError(f"{n_labels} answers need as many items, got {n_items}")
    if batch < 1:
        raise InputError(f"batch must be at least 1, got {batch}")
    items = ItemsByClass(pool, max(int(least * len(pool)), 1))
    if n_items > len(items):
        raise InputError(f"n_items must be at most {len(items)} in the pool {pool.path}, got {n_items}")
    for number, positive in enumerate(items.positives(np.random.default_rng(seed), n_sessions)):
        rng = np.random.default_rng([seed, number])
        concept = SampledConcept.draw(pool, items, positive, n_items, rng)
        test = _test_items(pool, concept, positive, rng)
        yield _advised(concept, positive, *test, n_labels=n_labels, batch=batch, enough=enough, rng=rng)


def _test_items(
    pool: Pool, concept: SampledConcept, positive: int, rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return the features of items outside the session, and whether each is positive."""
    held_out = pool.held_out
    known = np.flatnonzero(held_out.truth >= 0)
    truth = is_positive(held_out.truth[known], positive)
    if truth.any() and not truth.all():
        some = np.sort(rng.choice(len(known), min(len(known), TEST_ITEMS), replace=False))
        return held_out.X[known[some]], truth[some]
    others = np.setdiff1d(pool.ids[pool.truth(pool.ids) >= 0], concept.items)
    ids = np.sort(rng.choice(others, min(len(others), TEST_ITEMS), replace=False))
    truth = is_positive(pool.truth(ids), positive)
    if not truth.any() or truth.all():
        raise InputError(f"the pool {pool.path} has too few items to measure AUROC: ask for fewer items")
    return pool.rows_of(ids), truth


def _advised(
    concept: SampledConcept,
    positive: int,
    X: NDArray[np.float32],
    truth: NDArray[np.bool_],
    *,
    n_labels: int,
    batch: int,
    enough: float,
    rng: np.random.Generator,
) -> AdvisedSession:
    annotator = Annotator(concept, rng)
    stop_items = stop_set(concept.pool, seed=int(rng.integers(2**63)))
    checkpoints: list[Checkpoint] = []
    at: list[int] = []
    auroc: list[float] = []
    stop, reason = None, ""
    waiting: list[tuple[Checkpoint, float]] = []
    bounds: list[float] = []
    changes: list[float] = []
    while True:
        n = len(annotator.rows)
        if waiting and n >= waiting[0][0].n_labels + AHEAD:
            then, bound = waiting.pop(0)
            bounds.append(bound)
            changes.append(float(np.mean(then.yes != (annotator.hyperplane.scores(stop_items) > 0))))
        if n >= n_labels or not at or is_checkpoint(at[-1], n):
            at.append(n)
            auroc.append(float(roc_auc_score(truth, annotator.hyperplane.scores(X))))
            scores = annotator.hyperplane.scores(stop_items)
            checkpoints.append(Checkpoint.of(scores, annotator.n_yes, n - annotator.n_yes))
            if (bound_now := changes_ahead(checkpoints)) is not None:
                waiting.append((checkpoints[-1], bound_now))
            if stop is None and n < n_labels:
                advice = advise(checkpoints, enough=enough)
                reason = advice.reason
                stop = len(at) - 1 if advice.stop else None
        if n >= n_labels:
            return AdvisedSession(
                positive, tuple(at), tuple(auroc), stop, reason, tuple(bounds), tuple(changes)
            )
        annotator.go_on(min(batch, n_labels - n))
