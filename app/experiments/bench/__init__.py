"""Measurements: ``closecall bench``. What is printed is for people, what ``--json`` gets is for programs."""

from __future__ import annotations

import click

from closecall.app.experiments.bench.commands import COMMANDS


@click.group()
def bench() -> None:
    """Measure building a pool and selecting from it."""


for command in COMMANDS:
    bench.add_command(command)
