"""The last hyperplanes of a question, and the items that each query strategy picks for them.

The hyperplanes are trained again from the log. For each hyperplane, one thread runs the strategies one after
the other, so that all are timed under the same conditions. A scan of the pool then ranks the picked items.
Processor time is measured if the clock for it is fine enough, otherwise wall-clock time. Wall-clock times are
less fair: labeling continues during the measurement, and delays long scans more often than short look-ups.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.selection_parameters import Sought, sought
from closecall.app.engine.training import train_concept
from closecall.core.evaluation.rank import BruteForce
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.pool import Pool
from closecall.core.selection import QueryStrategy
from closecall.core.selection.requests import LabeledItems
from closecall.storage import LabelState, Standing

if TYPE_CHECKING:
    from closecall.app.engine.concept import LiveConcept

log = logging.getLogger(__name__)

LAST = 50
"""Maximum number of hyperplanes to compare on."""

LOOKED = 2 * LAST
"""Maximum number of last answers; a hyperplane is trained after each of them.

This is larger than `LAST`, because some answers do not change the hyperplane.
"""

LEAST_TIMES = 9
"""Minimum number of timed selections per strategy; with fewer hyperplanes, each is used several times."""

_FINE = 1e-5  # resolution in seconds; a coarser clock can't time a look-up
_clock = time.thread_time if time.get_clock_info("thread_time").resolution <= _FINE else time.perf_counter


@dataclass(frozen=True, eq=False)
class Plane:
    """A hyperplane trained on the answers up to one position of the log.

    Parameters
    ----------
    hyperplane : Hyperplane
    answered : array of int64, ascending
        Items that have an answer and therefore can't be picked.
    labels : LabeledItems
        The labels that the hyperplane was trained on, including the question's example images.
    through : int
        The log position. It is also the seed for strategies that pick at random.
    """

    hyperplane: Hyperplane
    answered: NDArray[np.int64]
    labels: LabeledItems
    through: int


def last_planes(concept: LiveConcept, pool: Pool) -> list[Plane]:
    """Return the concept's last distinct hyperplanes, newest first, at most `LAST`."""
    record = concept.record
    examples = concept.store.examples(record.id)
    answers = list(concept.log.answers_after(record.id))
    state = LabelState(record.id, pool.has_row).fold(answers[:-LOOKED])
    stood: list[tuple[int, Standing]] = []
    for answer in answers[-LOOKED:]:
        state.apply(answer)
        stood.append((answer.server_time, state.standing()))
    now = (time.time() * 1000, state.standing())
    planes: dict[str, Plane] = {}
    for when, standing in [now, *reversed(stood)]:
        before = [example for example in examples if example.created <= when]
        through = before[-1].id if before else 0
        trained = train_concept(pool, standing.labels, before, record, examples_through=through)
        if trained.hyperplane is not None and len(planes) < LAST:
            found = Plane(trained.hyperplane, standing.answered, trained.labels, trained.through)
            planes.setdefault(trained.hyperplane.digest, found)
    return list(planes.values())


@dataclass(eq=False)
class Answers:
    """The selections of one strategy for each hyperplane, newest hyperplane first.

    Parameters
    ----------
    strategy : QueryStrategy
        Fitted to the pool.
    items, margins, ranks, scored : list
        For each hyperplane: the picked item, its |wᵀx + b|, its rank, and the number of items scored. The
        rank is the number of nearer items; or that of items with a larger wᵀx + b, if such items were sought.
    sought : list of str
        For each hyperplane, what the selection looked for.
    seconds : list of float
        Time of each selection, in seconds. If there are few hyperplanes, the strategy selects several times
        for each.
    failure : str or None
        Why the strategy can't select, in one sentence.
    """

    strategy: QueryStrategy
    items: list[int] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    scored: list[int] = field(default_factory=list)
    sought: list[Sought] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    failure: str | None = None


class Measurement:
    """A measurement of strategies on hyperplanes, one hyperplane per step.

    Parameters
    ----------
    pool : Pool
    planes : sequence of Plane
        The hyperplanes, newest first.
    strategies : dict of str to QueryStrategy
        Strategies by name, fitted to the pool.
    """

    def __init__(self, pool: Pool, planes: Sequence[Plane], strategies: dict[str, QueryStrategy]) -> None:
        self.pool = pool
        self.planes = planes
        self.answers = {word: Answers(strategy) for word, strategy in strategies.items()}
        self._steps = 0
        passes = -(-LEAST_TIMES // len(planes)) if planes else 0
        self._most = max(1, passes) * len(planes)

    @property
    def is_done(self) -> bool:
        """Return whether there is nothing left to measure."""
        return self._steps >= self._most

    @property
    def n_done(self) -> int:
        """Return the number of hyperplanes on which the strategies have been measured."""
        return min(self._steps, len(self.planes))

    def step(self) -> None:
        """Let every strategy select for the next hyperplane. The strategies' order changes with each step."""
        is_new, plane = self._steps < len(self.planes), self.planes[self._steps % len(self.planes)]
        going = [answers for answers in self.answers.values() if answers.failure is None]
        first = self._steps % max(1, len(going))
        found = [(answers, self._ask(answers, plane)) for answers in going[first:] + going[:first]]
        if is_new:
            exact = cache(partial(BruteForce, self.pool, plane.hyperplane, exclude=plane.answered))
            for answers, item in found:
                if item is not None:
                    answers.items.append(item)
                    key = np.negative if answers.sought[-1] == "likeliest" else np.abs
                    answers.ranks.append(exact(key=key).rank(item))
        self._steps += 1

    def _ask(self, answers: Answers, plane: Plane) -> int | None:
        """Return the item that the strategy picks for the hyperplane, or None if the strategy fails."""
        started = _clock()
        try:
            selection = answers.strategy.select(
                plane.hyperplane, exclude=plane.answered, seed=plane.through, labels=plane.labels
            )
        except Exception as error:
            log.exception("%s can't answer", answers.strategy.name)
            answers.failure = f"It can't answer here: {error or type(error).__name__}"
            return None
        answers.seconds.append(_clock() - started)
        if len(answers.margins) < len(self.planes):
            answers.margins.append(float(selection.margins[0]))
            answers.scored.append(selection.scored)
            part = selection.parts[0] if selection.parts else ""
            answers.sought.append(sought(answers.strategy.name, part))
        return int(selection.ids[0])
