"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path

import click

json_option = click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the results as JSON.",
)

pool_option = click.option(
    "--pool", "folder", required=True, type=click.Path(path_type=Path), help="Folder of the pool."
)
