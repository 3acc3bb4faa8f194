"""Simulated annotator on the page Find similar, who answers the items most similar to the positives."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.experiment.positives import Turn, Way
from closecall.core.learning.round import Labels
from closecall.core.pool.pool import Pool
from closecall.core.similar.answers import LEAST, AnswersMetric, learn_from_answers
from closecall.core.similar.index import ExactSearch
from closecall.core.similar.nearness import ByAngle
from closecall.core.similar.queries import PAGE, looked_for

Metric = Literal["original", "learned"]


class FindSimilar(Way):
    """Choice of the items nearest to the positives, one page at a time; the annotator answers the whole page.

    The distance of an item is its distance from the nearest positive (`core.similar.nearness`). At most 100
    positives are used (`core.similar.queries`). If `metric` is "original", the distance is the angle between
    the original features. If `metric` is "learned", a metric is trained after each page on all answers so far
    (`core.similar.answers`); until there are `LEAST` positives and `LEAST` negatives, the angle is used. If
    items with the same features are positive and negative, no metric can be trained, and the previous metric
    is kept.

    The real page differs from this simulation in two ways. Answered items stay on the page, so fewer new
    items are shown. A metric that is not ready in time is used from the next page on.

    Parameters
    ----------
    pool : Pool
    metric : "original" or "learned"
    page : int
        Number of items answered before the next search.
    gamma : float or None
        Slack parameter of the learned metric (see `core.metric.ITML`). If None, it is chosen by
        cross-validation, as on the real page.

    Raises
    ------
    InputError
        If a parameter is out of range.
    """

    learns = True

    def __init__(
        self, pool: Pool, *, metric: Metric = "original", page: int = PAGE, gamma: float | None = None
    ) -> None:
        if metric not in get_args(Metric):
            raise InputError(f"metric must be one of {', '.join(get_args(Metric))}, got {metric!r:.80}")
        if page < 1:
            raise InputError(f"page must be at least 1, got {page}")
        if gamma is not None and not gamma > 0:
            raise InputError(f"gamma must be positive, got {gamma:g}")
        self._pool = pool
        self._gamma = gamma
        self._metric = metric
        self._page = page
        self._exact = ExactSearch(ByAngle(pool))
        self._learned: dict[int, AnswersMetric] = {}

    def choose(self, turns: Sequence[Turn]) -> list[NDArray[np.int64]]:
        """See `Way.choose`."""
        return [self._next(turn) for turn in turns]

    def _next(self, turn: Turn) -> NDArray[np.int64]:
        known = _Known.of(turn.labels)
        X = self._pool.rows_of(looked_for(known.items[known.yes]))
        metric = self._newest(turn.number, known)
        search = self._exact if metric is None else metric.exact
        return search.neighbours(X, min(self._page, turn.most), exclude=turn.answered).ids

    def _newest(self, number: int, known: _Known) -> AnswersMetric | None:
        if self._metric == "original" or min(known.yes.sum(), (~known.yes).sum()) < LEAST:
            return None
        with suppress(InputError):
            self._learned[number] = learn_from_answers(self._pool, known, gamma=self._gamma)
        return self._learned.get(number)


@dataclass(frozen=True, eq=False)
class _Known:
    """Answers in ascending order of item ids; see `core.similar.answers.Answers`."""

    items: NDArray[np.int64]
    yes: NDArray[np.bool_]

    @classmethod
    def of(cls, labels: Labels) -> Self:
        order = np.argsort(labels.ids)
        return cls(labels.ids[order], labels.y[order])
