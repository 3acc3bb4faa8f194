"""The measures by which a comparison judges query strategies.

Times of selections are processor times, because other programs would lengthen wall-clock times. Processor
times add up over threads. `core.simulation.race` limits BLAS to one thread, and our strategies start none.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from closecall.app.experiments.compare.results import Floats, RaceResults
from closecall.app.experiments.compare.statistics import Interval, interval


class Measures:
    """The measures by which strategies are compared.

    A measure gives each strategy one number per race. Arrays of shape (n_units,) have one entry per race.

    Parameters
    ----------
    results : RaceResults
    label_seconds : float
        Seconds that the annotator needs for a label.

    Attributes
    ----------
    whole : list of str
        Names of the strategies that reached the last round in all races.
    """

    def __init__(self, results: RaceResults, label_seconds: float) -> None:
        self.results = results
        self.label_seconds = label_seconds
        self.whole = [
            name for name in results.names if np.isfinite(results.of(results.mean_gain, name)).all()
        ]

    def gain(self, name: str) -> Floats:
        """Return the increase in AUROC since round 0, in points, averaged over rounds; shape (n_units,)."""
        return self.results.of(self.results.mean_gain, name)

    def last_gain(self, name: str) -> Floats:
        """Return the increase in AUROC from round 0 to the last round, in points; shape (n_units,)."""
        return np.asarray(self.results.of(self.results.gain, name)[:, -1])

    def log_seconds(self, name: str) -> Floats:
        """Return the natural logarithm of the median processor time in seconds; shape (n_units,)."""
        return np.asarray(np.log(np.median(self.results.of(self.results.select_cpu_seconds, name), axis=1)))

    def log_margin(self, name: str) -> Floats:
        """Return the natural logarithm of the median |wᵀx + b| of the selected items; shape (n_units,)."""
        medians = np.median(self.results.of(self.results.margin, name), axis=1)
        return np.asarray(np.log(np.maximum(medians, np.finfo(np.float64).tiny)))

    def log_rank(self, name: str) -> Floats:
        """Return the natural logarithm of the median of rank + 1; shape (n_units,).

        The rank is the number of unlabeled items nearer to the hyperplane than the selected item.
        """
        return np.asarray(np.log1p(np.nanmedian(self.results.of(self.results.rank, name), axis=1)))

    def gain_in_time(self, name: str) -> Floats:
        """Return the increase in AUROC since round 0, in points, averaged over time; shape (n_units,).

        In a race, the average is over the same time span for all strategies. The span ends when the quickest
        strategy has all its labels. The time is that of `spent`.
        """
        gain = self.results.of(self.results.gain, name)
        return np.array(
            [
                mean_over_time(spent, own, limit)
                for spent, own, limit in zip(self.spent(name), gain, self._limits(), strict=True)
            ]
        )

    def spent(self, name: str) -> Floats:
        """Return, for each round, the total seconds of selection and labeling until its end.

        Selection counts with its processor time. The shape is (n_units, iterations + 1); round 0 ends at 0 s.
        """
        seconds = self.results.of(self.results.select_cpu_seconds, name) + self.label_seconds
        return np.pad(np.cumsum(seconds, axis=1), ((0, 0), (1, 0)))

    def difference(self, of: Callable[[str], Floats], first: str, second: str) -> Interval:
        """Return the mean difference between two strategies in a measure, with its interval.

        Parameters
        ----------
        of : callable
            A measure: a method of this class that returns one number per race for a strategy.
        first, second : str
            Names of the strategies. In each race, the number of `second` is subtracted from that of `first`.
        """
        return interval(of(first) - of(second), self.results.classes)

    def mean(self, of: Callable[[str], Floats], name: str) -> Interval:
        """Return the mean and its interval of one strategy's measure; see `difference` for `of`."""
        return interval(of(name), self.results.classes)

    def _limits(self) -> Floats:
        return np.asarray(np.min([self.spent(name)[:, -1] for name in self.whole], axis=0))


def mean_over_time(spent: Floats, values: Floats, limit: float) -> float:
    """Return the mean of a step function over the time from 0 to `limit`.

    Parameters
    ----------
    spent : array of shape (n,), ascending from 0
        Time at which the function takes each value.
    values : array of shape (n,)
        Values of the function. The function keeps each value until the time of the next value.
    limit : float
        End of the time span; positive.
    """
    begins = np.minimum(spent, limit)
    lasts = np.diff(np.append(begins, limit))
    return float(values @ lasts / limit)
