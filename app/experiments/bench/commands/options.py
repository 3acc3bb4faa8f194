"""Command-line options shared by several commands of ``closecall bench``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Decorator = Callable[[Any], Any]

json_option = click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the results as JSON.",
)

pool_option = click.option(
    "--pool", "folder", required=True, type=click.Path(path_type=Path), help="Folder of the pool."
)

setting_option = click.option(
    "--setting",
    "settings",
    multiple=True,
    help="Only the hyperplanes of this setting, or of all settings whose names contain it.",
)

indexes_option = click.option(
    "--indexes",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder that keeps indexes for the next time.",
)

positive_option = click.option("--positive", help="The class that is asked for.  [default: the pool's first]")

pace_option = click.option(
    "--pace",
    type=click.FloatRange(0),
    default=0.7,
    show_default=True,
    help="Seconds that the person looks at an image.",
)

labels_before_option = click.option(
    "--labels", "n_labels", type=click.IntRange(0), default=0, help="Labels that are there before."
)


def seed_option(of: str) -> Decorator:
    """Return the option ``--seed``; `of` says in the help text what the seed determines."""
    return click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help=f"Seed of {of}.")


def count_option(name: str, default: int, text: str, *, least: int = 1, dest: str = "") -> Decorator:
    """Return an option that takes an integer of at least `least`.

    `text` is its help text. `dest` is the name of the parameter, if that differs from the option's name.
    """
    declared = [name, dest] if dest else [name]
    return click.option(*declared, type=click.IntRange(least), default=default, show_default=True, help=text)


def share_option(name: str, default: float, text: str) -> Decorator:
    """Return an option that takes a share greater than 0 and at most 1."""
    return click.option(
        name, type=click.FloatRange(0, 1, min_open=True), default=default, show_default=True, help=text
    )
