"""The command ``closecall bench audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.commands.options import (
    count_option,
    json_option,
    pool_option,
    seed_option,
)


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
@count_option("--sessions", 200, "Sessions to simulate.")
@count_option("--items", 20_000, "Items of each session.", least=100)
@count_option("--labels", 200, "Answers that train.", least=6)
@count_option("--audited", 200, "Answers for the audit.")
@seed_option("items, classes and audits")
@json_option
def bench_audit(folder: Path, json_file: Path | None, **words: Any) -> None:
    """Audit simulated sessions while they learn, and count the intervals that contain the true value.

    Each session has its own items and its own positive class; a simulated annotator answers.
    """
    from closecall.app.experiments.bench.audit import Audits
    from closecall.app.experiments.bench.experiment import run

    run(Audits(**words), [folder], json_file)
