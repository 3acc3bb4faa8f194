"""Measure what following the advice to stop labeling would cost and save, in simulated sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click
import numpy as np

from closecall.app.experiments.bench.experiment import Experiment, Row
from closecall.core.evaluation.stopping import AHEAD, ENOUGH
from closecall.core.experiment.stopping import AdvisedSession, advised_sessions
from closecall.core.pool.pool import Pool


@dataclass(frozen=True)
class Stopping(Experiment[Pool]):
    """An experiment with simulated sessions that continue after the advice to stop.

    See `core.experiment.stopping.advised_sessions`.

    Parameters
    ----------
    sessions : int
        Number of sessions for each pool.
    items, labels : int
        Number of items, and number of answers, in each session.
    batch : int
        Number of answers between two trainings.
    enough : float or None
        Minimum agreement of predictions between checkpoints for the advice to stop; if None, `ENOUGH`, as on
        the page.
    seed : int
        Seed of items, classes and labels.
    """

    sessions: int
    items: int
    labels: int
    batch: int
    enough: float | None
    seed: int

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Simulate the sessions while showing progress, and yield the pool's row."""
        enough = ENOUGH if self.enough is None else self.enough
        running = advised_sessions(
            pool,
            self.sessions,
            n_items=self.items,
            n_labels=self.labels,
            batch=self.batch,
            enough=enough,
            seed=self.seed,
        )
        with click.progressbar(running, length=self.sessions, label=pool.title, show_pos=True) as bar:
            sessions = list(bar)
        yield [
            {
                "data": pool.title,
                "items": self.items,
                "sessions": self.sessions,
                "labels": self.labels,
                "batch": self.batch,
                "enough": enough,
                **summary(sessions),
                "each": [_session_row(session, pool) for session in sessions],
            }
        ]

    def show(self, rows: Sequence[Row]) -> None:
        """Print the row of a pool."""
        (row,) = rows
        click.echo(
            f"\n{row['data']}, {row['items']:,} items, {row['sessions']} sessions of {row['labels']:,} "
            f"labels: the advice to stop came in {row['stopped']}."
        )
        for one in row["each"]:
            after = "never" if one["stop"] is None else f"after {one['stop']:,} labels"
            click.echo(
                f"  {one['class']}: {after}; AUROC {100 * one['auroc'][-1]:.1f} in the end, "
                f"{one['lost']:.2f} points lost, {one['saved']:,} labels saved."
            )
        click.echo(
            f"  On average {row['lost_mean']:.2f} points of AUROC are lost, at most {row['lost_max']:.2f}, "
            f"and {100 * row['saved_share']:.0f} % of the labels are saved."
        )
        if row["bounds"]:
            ratio = (
                "" if row["bound_ratio"] is None else f", and was {row['bound_ratio']:.1f} times the change"
            )
            click.echo(
                f"  The bound on the change by {AHEAD} more labels held at {row['bounds_held']} of "
                f"{row['bounds']} checks{ratio} in the median."
            )


def summary(sessions: list[AdvisedSession]) -> Row:
    """Return the results of all sessions together.

    ``stopped`` is the number of sessions in which stopping was advised. In all other sessions, loss and
    savings are 0. ``lost_mean`` and ``lost_max`` are the mean and the maximum loss: AUROC at the end of the
    session minus AUROC at the advice, in points. ``saved_median`` is the median number of saved labels, and
    ``saved_share`` the number of saved labels divided by the number of all labels.

    ``bounds`` is the number of checkpoints after which there were enough labels to judge
    `core.evaluation.stopping.changes_ahead`. At ``bounds_held`` of them, no more predictions changed.
    ``bound_ratio`` is the median of the bounds divided by the changes, where any prediction changed.
    """
    pairs = [pair for session in sessions for pair in zip(session.bounds, session.changes, strict=True)]
    ratios = [bound / change for bound, change in pairs if change > 0]
    lost = np.array([100 * session.lost for session in sessions])
    saved = np.array([session.saved for session in sessions])
    return {
        "stopped": sum(session.stop is not None for session in sessions),
        "lost_mean": float(lost.mean()),
        "lost_max": float(lost.max()),
        "saved_median": float(np.median(saved)),
        "saved_share": float(saved.sum() / sum(session.n_labels[-1] for session in sessions)),
        "bounds": len(pairs),
        "bounds_held": sum(change <= bound for bound, change in pairs),
        "bound_ratio": float(np.median(ratios)) if ratios else None,
    }


def _session_row(session: AdvisedSession, pool: Pool) -> Row:
    return {
        "class": pool.classes[session.positive],
        "labels": list(session.n_labels),
        "auroc": list(session.auroc),
        "stop": None if session.stop is None else session.n_labels[session.stop],
        "lost": 100 * session.lost,
        "saved": session.saved,
        "reason": session.reason,
    }
