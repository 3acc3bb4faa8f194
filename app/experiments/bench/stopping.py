"""Simulated sessions that go on after the advice to stop: what it would have cost, and saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from closecall.core.experiment.stopping import AdvisedSession, advised_sessions
from closecall.core.pool.pool import Pool


@dataclass(frozen=True)
class Plan:
    """What to simulate; see `core.experiment.stopping.advised_sessions`."""

    n_sessions: int
    n_items: int
    n_labels: int
    batch: int
    enough: float
    seed: int


def measure_stopping(pool: Pool, plan: Plan) -> dict[str, Any]:
    """Simulate the sessions with a progress bar and sum up what following the advice does."""
    running = advised_sessions(
        pool,
        plan.n_sessions,
        n_items=plan.n_items,
        n_labels=plan.n_labels,
        batch=plan.batch,
        enough=plan.enough,
        seed=plan.seed,
    )
    with click.progressbar(running, length=plan.n_sessions, label=pool.title, show_pos=True) as bar:
        sessions = list(bar)
    return {
        "data": pool.title,
        "items": plan.n_items,
        "sessions": plan.n_sessions,
        "labels": plan.n_labels,
        "batch": plan.batch,
        "enough": plan.enough,
        **summary(sessions),
        "each": [_told(session, pool) for session in sessions],
    }


def summary(sessions: list[AdvisedSession]) -> dict[str, Any]:
    """The figures of all sessions together.

    ``stopped`` is in how many the advice came; in the others nothing is lost and nothing saved. ``lost_mean``
    and ``lost_max`` are points of AUROC, at the end of the session minus where the advice came;
    ``saved_median`` and ``saved_share`` are labels, and their share of all.
    """
    lost = np.array([100 * session.lost for session in sessions])
    saved = np.array([session.saved for session in sessions])
    return {
        "stopped": sum(session.stop is not None for session in sessions),
        "lost_mean": float(lost.mean()),
        "lost_max": float(lost.max()),
        "saved_median": float(np.median(saved)),
        "saved_share": float(saved.sum() / sum(session.n_labels[-1] for session in sessions)),
    }


def _told(session: AdvisedSession, pool: Pool) -> dict[str, Any]:
    return {
        "class": pool.classes[session.positive],
        "labels": list(session.n_labels),
        "auroc": list(session.auroc),
        "stop": None if session.stop is None else session.n_labels[session.stop],
        "lost": 100 * session.lost,
        "saved": session.saved,
        "reason": session.reason,
    }


def show_stopping(row: dict[str, Any]) -> None:
    """Print what `measure_stopping` found."""
    click.echo(
        f"\n{row['data']}, {row['items']:,} items, {row['sessions']} sessions of {row['labels']:,} labels: "
        f"the advice to stop came in {row['stopped']}."
    )
    for one in row["each"]:
        after = "never" if one["stop"] is None else f"after {one['stop']:,} labels"
        click.echo(
            f"  {one['class']}: {after}; AUROC {100 * one['auroc'][-1]:.1f} in the end, "
            f"{one['lost']:.2f} points lost, {one['saved']:,} labels saved."
        )
    click.echo(
        f"  On average {row['lost_mean']:.2f} points of AUROC are lost, at most {row['lost_max']:.2f}, and "
        f"{100 * row['saved_share']:.0f} % of the labels are saved."
    )
