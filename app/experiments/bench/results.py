"""Results of ``closecall bench select``: the selections of all strategies, and their summary as rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from closecall.app.experiments.bench.contenders import REFERENCE, Answer
from closecall.app.experiments.bench.statistics import mean_ratio, recall_low
from closecall.app.experiments.bench.subsample import EqualTimeSubsample
from closecall.app.experiments.compare.statistics import box, interval

Row = dict[str, Any]
Floats = NDArray[np.float64]

BASELINE = "h-hash"
"""The strategy that the others are compared with, if it takes part. It was chosen before measuring."""


@dataclass(frozen=True)
class Judged:
    """A selected item, and its rank by brute force.

    Parameters
    ----------
    answer : Answer
    remember_cpu_ms : float
        Processor time, in milliseconds, of `Contender.remember` for the hyperplane of the round before.
    margin : float
        |wᵀx + b| of the selected item.
    rank : int
        Number of items nearer to the hyperplane; 0 if the selected item is the nearest.
    """

    answer: Answer
    remember_cpu_ms: float
    margin: float
    rank: int


@dataclass(frozen=True)
class SelectionResults:
    """The selections of all strategies for the hyperplanes of one setting.

    Parameters
    ----------
    setting : str
        Setting of the hyperplanes, see `core.experiment.planes.Plane`.
    subsample : EqualTimeSubsample
        Random subsamples measured with the same hyperplanes.
    sessions : list of int
        Session of each hyperplane; −1 for a single hyperplane.
    draws : list of int
        Draw of each hyperplane; see `app.experiments.bench.select.Selection`.
    judged : dict of lists of Judged
        For each strategy, one selection per hyperplane, in the order of `sessions`.
    failures : dict of str
        Reasons why strategies failed. After its failure, a strategy has no more selections in `judged`.
    """

    setting: str
    subsample: EqualTimeSubsample
    sessions: list[int] = field(default_factory=list)
    draws: list[int] = field(default_factory=list)
    judged: dict[str, list[Judged]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @classmethod
    def joined(cls, setting: str, parts: Sequence[Self]) -> Self:
        """Join the results of several settings or draws on one pool, and call them `setting`.

        Strategies that failed in one of the parts have no selections in the joined results.
        """
        failures = {word: reason for part in parts for word, reason in part.failures.items()}
        words = [word for word in parts[0].judged if word not in failures]
        return cls(
            setting,
            EqualTimeSubsample.joined([part.subsample for part in parts]),
            [session for part in parts for session in part.sessions],
            [draw for part in parts for draw in part.draws],
            {word: [judged for part in parts for judged in part.judged[word]] for word in words},
            failures,
        )

    def row(self, strategy: str, seed: int = 0) -> Row:
        """Return the results of one strategy.

        ``median_ms`` and ``p90_ms`` are the median and the 90th percentile of a selection's wall-clock time.
        ``ms_box`` and ``margin_box`` are the box plots of times and of |wᵀx + b|; see
        `app.experiments.compare.statistics.Box`.

        The ratio of a selection is its time divided by the time of the exhaustive scan for the same
        hyperplane. ``ratio_to_exhaustive`` and ``p90_ratio_to_exhaustive`` are the median and the 90th
        percentile of this ratio. ``cpu_ratio_to_exhaustive`` is the median ratio of processor times, which
        are more reliable while other programs run. ``remember_cpu_ms_per_round`` is the mean processor time
        of `Contender.remember`. ``cpu_ms_per_round`` is the mean processor time of a selection, including
        `Contender.remember`. ``cpu_share`` is the processor time of all selections, without
        `Contender.remember`, divided by their wall-clock time.

        ``recall_at_1`` is the share of hyperplanes whose nearest item was found, and ``recall_at_1_low`` its
        one-sided lower 95 % bound.

        ``rows_of_equal_time_subsample`` is the number of random rows that can be scored in ``median_ms``, and
        ``rank_of_equal_time_subsample`` the median rank of the nearest of these rows. ``ratio_to_subsample``
        compares the strategy with this subsample by rank. It is the geometric mean over hyperplanes of
        (r + 1) / (s + 1), where r is the rank of the strategy's item and s the rank of the subsample's
        nearest row. ``ratio_to_equal_rows`` is the same ratio for another subsample, whose size is the median
        number of rows that the strategy scored.

        ``rank_plus_1`` and ``time_ratio_to_exhaustive`` are the geometric means of r + 1 and of the ratio of
        times. ``rank_ratio_to_baseline`` and ``time_ratio_to_baseline`` are geometric means, too, of r + 1
        and the time, divided by those of the ``baseline`` for the same hyperplane. If `BASELINE` was not
        measured, ``baseline`` is None, and both ratios are missing.

        The columns that end in ``_low`` and ``_high`` have 95 % intervals of the geometric means. If there
        are several draws, they are Student's intervals over the means of the draws. Otherwise, they are
        bootstrap intervals over the hyperplanes, or over the sessions.

        Parameters
        ----------
        strategy : str
            Key in `judged`.
        seed : int
            Seed of the bootstrap.
        """
        judged, reference = self.judged[strategy], self.judged[REFERENCE]
        ranks, ms = self._ranks(strategy), self._ms(strategy)
        margins = np.array([one.margin for one in judged])
        ratios = ms / self._ms(REFERENCE)
        cpu_ms = np.array([one.answer.cpu_ms for one in judged])
        cpu_ratios = cpu_ms / np.array([one.answer.cpu_ms for one in reference])
        remember_cpu_ms = float(np.mean([one.remember_cpu_ms for one in judged]))
        scored = float(np.median([one.answer.scored for one in judged]))
        rows_in_time = self.subsample.rows_in(float(np.median(ms)))
        found = int(np.count_nonzero(ranks == 0))
        return {
            "strategy": strategy,
            "setting": self.setting,
            "queries": len(judged),
            "draws": len(set(self.draws)),
            "median_ms": float(np.median(ms)),
            "p90_ms": float(np.percentile(ms, 90)),
            "ms_box": asdict(box(ms)),
            "cpu_ms_per_round": float(cpu_ms.mean()) + remember_cpu_ms,
            "remember_cpu_ms_per_round": remember_cpu_ms,
            "cpu_share": float(cpu_ms.sum() / ms.sum()),
            "ratio_to_exhaustive": float(np.median(ratios)),
            "p90_ratio_to_exhaustive": float(np.percentile(ratios, 90)),
            "cpu_ratio_to_exhaustive": float(np.median(cpu_ratios)),
            "scored_median": scored,
            "margin_median": float(np.median(margins)),
            "margin_box": asdict(box(margins)),
            "rank_median": float(np.median(ranks)),
            "rank_p99": float(np.percentile(ranks, 99)),
            "recall_at_1": found / len(judged),
            "recall_at_1_low": recall_low(found, len(judged)),
            "rows_of_equal_time_subsample": rows_in_time,
            "rank_of_equal_time_subsample": self.subsample.median_rank(rows_in_time),
            **self._mean(
                "ratio_to_subsample", np.log1p(ranks) - self.subsample.log_ranks(rows_in_time), seed
            ),
            **self._mean("ratio_to_equal_rows", np.log1p(ranks) - self.subsample.log_ranks(scored), seed),
            **self._mean("rank_plus_1", np.log1p(ranks), seed),
            **self._mean("time_ratio_to_exhaustive", np.log(ratios), seed),
            **self._beside_baseline(strategy, seed),
        }

    def _beside_baseline(self, strategy: str, seed: int) -> Row:
        if BASELINE not in self.judged or BASELINE in self.failures:
            return {"baseline": None}
        ranks = np.log1p(self._ranks(strategy)) - np.log1p(self._ranks(BASELINE))
        times = np.log(self._ms(strategy) / self._ms(BASELINE))
        return {
            "baseline": BASELINE,
            **self._mean("rank_ratio_to_baseline", ranks, seed),
            **self._mean("time_ratio_to_baseline", times, seed),
        }

    def _ranks(self, strategy: str) -> Floats:
        return np.array([one.rank for one in self.judged[strategy]], dtype=np.float64)

    def _ms(self, strategy: str) -> Floats:
        return np.array([one.answer.ms for one in self.judged[strategy]])

    def _mean(self, name: str, logs: Floats, seed: int) -> Row:
        """Return a geometric mean with its interval, given natural logarithms, one per hyperplane."""
        if len(set(self.draws)) > 1:
            over = interval(logs, self.draws).exp()
            mean, low, high = over.mean, over.low, over.high
        else:
            # Rounds of a session depend on each other. Single hyperplanes don't, so each is its own cluster.
            clusters = [s if s >= 0 else -1 - place for place, s in enumerate(self.sessions)]
            mean, low, high = mean_ratio(logs, clusters, seed)
        return {name: mean, f"{name}_low": low, f"{name}_high": high}
