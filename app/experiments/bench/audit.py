"""Audits of simulated sessions: how often their intervals hold the truth, and how wide they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from closecall.core.audit import LEVEL
from closecall.core.experiment.auditing import MEASURES, AuditedSession, audited_sessions
from closecall.core.pool.pool import Pool

BAND = 0.99
"""How often as many coins, each held with the level's probability, lie in the band that is told."""


@dataclass(frozen=True)
class Plan:
    """What to simulate; see `core.experiment.auditing.audited_sessions`."""

    prevalences: Sequence[float]
    n_sessions: int
    n_items: int
    n_labels: int
    n_audited: int
    seed: int


def measure_audits(pool: Pool, plan: Plan, done: Callable[[list[dict[str, Any]]], None]) -> None:
    """Simulate the sessions with a progress bar; `done` gets the rows of each prevalence."""
    for prevalence in plan.prevalences:
        running = audited_sessions(
            pool,
            plan.n_sessions,
            prevalence=prevalence,
            n_items=plan.n_items,
            n_labels=plan.n_labels,
            n_audited=plan.n_audited,
            seed=plan.seed,
        )
        label = f"{100 * prevalence:g} % yes"
        with click.progressbar(running, length=plan.n_sessions, label=label, show_pos=True) as bar:
            sessions = list(bar)
        told = {
            "data": pool.title,
            "items": plan.n_items,
            "prevalence": prevalence,
            "sessions": plan.n_sessions,
            "labels": plan.n_labels,
            "audited": plan.n_audited,
            "level": LEVEL,
        }
        done([told | row_of(sessions, measure) for measure in MEASURES])


def row_of(sessions: Sequence[AuditedSession], measure: str) -> dict[str, Any]:
    """The figures of one measure.

    ``held`` is how many intervals hold the truth, and 99 % of such numbers lie from ``band_low`` to
    ``band_high`` if each does so with the level's probability. In ``settled`` sessions the truth is 0 or 1,
    and no interval can miss it that answers of one kind give. ``bias`` is the mean of estimate − truth, where
    there is an estimate; ``width`` the mean width. ``plain_held`` and ``plain_width`` are those of as many
    items drawn from all alike.
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
    """The mean of what is known; None where nothing is."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def show_audits(rows: Sequence[dict[str, Any]]) -> None:
    """Print the rows of one prevalence."""
    first = rows[0]
    click.echo(
        f"\n{first['data']}, {first['items']:,} items, {100 * first['prevalence']:g} % of them a yes: "
        f"{first['sessions']} sessions, {first['labels']} answers train and {first['audited']} are audited."
    )
    for row in rows:
        click.echo(
            f"  {row['measure']}: {row['held']} of {row['sessions']} intervals hold the truth "
            f"({row['band_low']}–{row['band_high']} expected; in {row['settled']} sessions it is 0 or 1). "
            f"Mean width {_points(row['width'])} points, {_points(row['plain_width'])} "
            f"if drawn from all alike; estimates are off by {_points(row['bias'])} points in the mean."
        )


def _points(share: float | None) -> str:
    return "no" if share is None else f"{100 * share:.1f}"
