"""Measurements whose figures ``--figures`` draws under their numbers in a paper."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from closecall.app.experiments.bench.experiment import Row
from closecall.app.experiments.bench.similar.figure import Figure
from closecall.app.runtime.extras import load
from closecall.core.files.durable import disk_trouble

POINTS = "points.csv"
"""Name of the file of all points, beside the figures."""


def check_drawing(folder: Path | None) -> None:
    """Raise InputError if figures are to be drawn into `folder` and matplotlib is not installed."""
    if folder is not None:
        load("matplotlib", "reports")


def create_folder(folder: Path | None) -> None:
    """Create the folder of the figures, if there is one; raises InputError if that is impossible."""
    if folder is not None:
        with disk_trouble(folder):
            folder.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class Drawn(Figure):
    """A figure that is also drawn.

    Parameters
    ----------
    figures : Path or None
        Folder for the figures and their points.
    """

    figures: Path | None

    def __post_init__(self) -> None:
        """See `Figure.__post_init__`.

        Raises
        ------
        InputError
            If an option is refused, or if figures cannot be drawn.
        """
        super().__post_init__()
        check_drawing(self.figures)

    def conclude(self, rows: Sequence[Row]) -> None:
        """See `Experiment.conclude`: print the tables, and write the figures and their points."""
        super().conclude(rows)
        if self.figures is not None:
            explained = self.draw(rows, self.figures)
            click.echo(f"\nThe figures and {POINTS} are in {self.figures}. {explained}")

    @abstractmethod
    def draw(self, rows: Sequence[Row], folder: Path) -> str:
        """Write the figures and their `POINTS` into a folder, and return what a reader has to know."""
