"""Coverage and width of the confidence intervals that audits give, in simulated sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click
import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from closecall.app.experiments.bench.experiment import Experiment, Row
from closecall.core.audit import LEVEL
from closecall.core.experiment.auditing import MEASURES, AuditedSession, audited_sessions
from closecall.core.pool.pool import Pool

BAND = 0.99
"""Probability that the number of intervals that contain the true value lies in the printed range.

This assumes that each interval has its nominal coverage.
"""


@dataclass(frozen=True)
class Audits(Experiment[Pool]):
    """An experiment that audits simulated labeling sessions; see `core.experiment.auditing.audited_sessions`.

    Parameters
    ----------
    prevalences : tuple of float, 0 … 1
        Shares of positive items. Separate sessions are simulated for each share.
    sessions : int
        Number of sessions for each prevalence.
    items, labels, audited : int
        Number of items, number of answers that train the classifier, and number of answers for the audit, in
        each session.
    seed : int
        Seed of items, classes and audits.
    """

    prevalences: tuple[float, ...]
    sessions: int
    items: int
    labels: int
    audited: int
    seed: int

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Simulate the sessions and show progress.

        For each prevalence, yield one row for each of `core.experiment.auditing.MEASURES`.
        """
        for prevalence in self.prevalences:
            running = audited_sessions(
                pool,
                self.sessions,
                prevalence=prevalence,
                n_items=self.items,
                n_labels=self.labels,
                n_audited=self.audited,
                seed=self.seed,
            )
            label = f"{100 * prevalence:g} % yes"
            with click.progressbar(running, length=self.sessions, label=label, show_pos=True) as bar:
                sessions = list(bar)
            about = {
                "data": pool.title,
                "items": self.items,
                "prevalence": prevalence,
                "sessions": self.sessions,
                "labels": self.labels,
                "audited": self.audited,
                "level": LEVEL,
            }
            yield [about | row_of(sessions, measure) for measure in MEASURES]

    def show(self, rows: Sequence[Row]) -> None:
        """Print the rows of one prevalence."""
        first = rows[0]
        click.echo(
            f"\n{first['data']}, {first['items']:,} items, {100 * first['prevalence']:g} % of them a yes: "
            f"{first['sessions']} sessions, {first['labels']} answers train and {first['audited']} are "
            "audited."
        )
        for row in rows:
            click.echo(
                f"  {row['measure']}: {row['held']} of {row['sessions']} intervals hold the truth "
                f"({row['band_low']}–{row['band_high']} expected; in {row['settled']} sessions it is 0 or "
                "1). "
                f"Mean width {_points(row['width'])} points, {_points(row['plain_width'])} "
                f"with a simple random sample; estimates are off by {_points(row['bias'])} points on average."
            )


def row_of(sessions: Sequence[AuditedSession], measure: str) -> Row:
    """Return the results for one of `core.experiment.auditing.MEASURES`, such as "precision".

    ``held`` is the number of intervals that contain the true value, or whose true value is undefined. If the
    coverage of each interval is the nominal level, ``held`` lies between ``band_low`` and ``band_high`` with
    probability `BAND`. ``settled`` is the number of sessions in which the true value is 0 or 1. In such a
    session, the estimate equals the true value, so the interval contains it.

    ``truth`` is the mean true value. ``bias`` is the mean of estimate − true value over the sessions that
    have an estimate. ``width`` is the mean width of the intervals. All three are shares. ``plain_held`` and
    ``plain_width`` are the values of ``held`` and ``width`` if a simple random sample of the same size is
    audited instead.
    """
    truth = np.array([session.truth[measure] for session in sessions])
    found = [session.interval(measure) for session in sessions]
    plain = [session.interval(measure, plain=True) for session in sessions]
    error = np.array([interval.estimate for interval in found]) - truth
    band_low, band_high = binom.interval(BAND, len(sessions), LEVEL)
    return {
        "measure": measure,
        "truth": _mean(truth),
        "held": sum(session.holds(measure) for session in sessions),
        "band_low": int(band_low),
        "band_high": int(band_high),
        "settled": int(np.count_nonzero((truth == 0) | (truth == 1))),
        "bias": _mean(error),
        "width": _mean(np.array([interval.high - interval.low for interval in found])),
        "plain_held": sum(session.holds(measure, plain=True) for session in sessions),
        "plain_width": _mean(np.array([interval.high - interval.low for interval in plain])),
    }


def _mean(values: NDArray[np.float64]) -> float | None:
    """Return the mean of the finite values; None if there are none."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _points(share: float | None) -> str:
    return "no" if share is None else f"{100 * share:.1f}"
