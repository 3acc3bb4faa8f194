"""The measurements of ``closecall bench``, which prints tables and writes JSON with ``--json``."""

from __future__ import annotations

import click

from closecall.app.experiments.bench.commands import COMMANDS


@click.group()
def bench() -> None:
    """Measure the speed, memory and accuracy of the program, one experiment per command."""


for command in COMMANDS:
    bench.add_command(command)
