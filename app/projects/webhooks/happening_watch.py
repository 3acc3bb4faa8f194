"""Record happenings for webhooks: the pool is complete, or labeling may stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from closecall.app.engine.concept import LiveConcept
from closecall.app.runtime.background import Troubles, Watch
from closecall.core.pool.pool import Pool
from closecall.storage import Happenings

LOOK_SECONDS = 2.0
"""Seconds between two checks."""


class HappeningWatch:
    """A thread that records each happening once, even if the process is killed and started again.

    Parameters
    ----------
    happenings : Happenings
        Stores the happenings.
    description : str
        Name of the description that gives the pool's features.
    pool : callable
        Returns the newest snapshot of the pool, or None while the pool has no items.
    concepts : callable
        Returns the concepts whose advice to stop is recorded.
    recorded : callable
        Called after a happening has been recorded.
    troubles : Troubles
        Gets errors.
    seconds : float
        Seconds between two checks.
    """

    def __init__(
        self,
        happenings: Happenings,
        description: str,
        pool: Callable[[], Pool | None],
        concepts: Callable[[], Iterable[LiveConcept]],
        recorded: Callable[[], None],
        troubles: Troubles,
        seconds: float = LOOK_SECONDS,
    ) -> None:
        self._happenings = happenings
        self._description = description
        self._pool = pool
        self._concepts = concepts
        self._recorded = recorded
        self._troubles = troubles
        self._known: set[str] = set()
        self._watch = Watch("happenings", self._look, seconds)

    def start(self) -> None:
        """Record whether the pool is complete, and start to watch."""
        with self._troubles.noted("Recording that the pool is complete"):
            self._look_at_pool(self._pool())
        self._watch.start()

    def close(self) -> None:
        """Stop, and wait for the thread's end."""
        self._watch.close()

    def _look(self) -> None:
        pool = self._pool()
        with self._troubles.noted("Recording that the pool is complete"):
            self._look_at_pool(pool)
        with self._troubles.noted("Recording the advice to stop"):
            for concept in self._concepts():
                self._look_at_advice(concept)

    def _look_at_pool(self, pool: Pool | None) -> None:
        if pool is None or not pool.complete or f"pool {pool.digest}" in self._known:
            return
        data = {"items": len(pool), "version": pool.version, "description": self._description}
        if self._happenings.record("pool-complete", pool.digest, data):
            self._recorded()
        self._known.add(f"pool {pool.digest}")

    def _look_at_advice(self, concept: LiveConcept) -> None:
        """If all milestones are computed and the concept's current advice is to stop, record this advice.

        After a restart, all milestones are computed again. The advice may be to stop at an earlier milestone,
        but to go on at a later milestone.
        """
        milestones = concept.milestones
        if milestones.is_computing:
            return
        since, advice = milestones.stable_since, milestones.advice
        key = f"{concept.record.id} {self._description} {since.when if since else ''}"
        if since is None or not advice.stop or key in self._known:
            return
        data = {"labels": since.checkpoint.n_labels, "reason": advice.reason}
        if self._happenings.record("advice-to-stop", key, data, concept_id=concept.record.id):
            self._recorded()
        self._known.add(key)
