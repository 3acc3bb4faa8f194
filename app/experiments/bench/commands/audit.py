"""The command ``closecall bench audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.commands.options import json_option, pool_option


@click.command("audit")
@pool_option
@click.option(
    "--prevalence",
    "prevalences",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    multiple=True,
    default=[0.1, 0.005],
    show_default=True,
    help="Share of the items that are a yes; repeat it for several.",
)
@click.option(
    "--sessions", type=click.IntRange(1), default=200, show_default=True, help="Sessions to simulate."
)
@click.option(
    "--items", type=click.IntRange(100), default=20_000, show_default=True, help="Items of each session."
)
@click.option("--labels", type=click.IntRange(6), default=200, show_default=True, help="Answers that train.")
@click.option(
    "--audited", type=click.IntRange(1), default=200, show_default=True, help="Answers for the audit."
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Draws items, classes and audits."
)
@json_option
def bench_audit(
    folder: Path,
    prevalences: tuple[float, ...],
    sessions: int,
    items: int,
    labels: int,
    audited: int,
    seed: int,
    json_file: Path | None,
) -> None:
    """Audit simulated sessions while they learn, and count the intervals that hold the truth.

    Each session is about items and a class of its own; the annotator is simulated.
    """
    from closecall.app.experiments.bench.audit import Plan, measure_audits, show_audits
    from closecall.app.experiments.bench.report import write_json
    from closecall.core.pool.pool import Pool

    rows: list[dict[str, Any]] = []

    def done(found: list[dict[str, Any]]) -> None:
        rows.extend(found)
        show_audits(found)
        write_json(json_file, rows)

    plan = Plan(
        prevalences=prevalences,
        n_sessions=sessions,
        n_items=items,
        n_labels=labels,
        n_audited=audited,
        seed=seed,
    )
    measure_audits(Pool.open(folder), plan, done)
