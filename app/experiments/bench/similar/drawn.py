"""Base class of measurements that can also draw the figures of a paper, with the option ``--figures``."""

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
"""Name of the CSV file with all points, in the same folder as the figures."""


def check_drawing(folder: Path | None) -> None:
    """Raise InputError if figures can't be drawn because matplotlib is not installed.

    If `folder` is None, no figures are requested, so matplotlib is not needed.
    """
    if folder is not None:
        load("matplotlib", "reports")


def create_folder(folder: Path | None) -> None:
    """Create the folder of the figures, unless it is None; raise InputError if that fails."""
    if folder is not None:
        with disk_trouble(folder):
            folder.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class Drawn(Figure):
    """A measurement that can also draw its figures.

    Parameters
    ----------
    figures : Path or None
        Folder for the drawings and the file `POINTS`; None to draw nothing.
    """

    figures: Path | None

    def __post_init__(self) -> None:
        """See `Figure.__post_init__`.

        Raises
        ------
        InputError
            If an option is not valid, or if figures cannot be drawn.
        """
        super().__post_init__()
        check_drawing(self.figures)

    def conclude(self, rows: Sequence[Row]) -> None:
        """Print the tables, and write the figures with their points; see `Experiment.conclude`."""
        super().conclude(rows)
        if self.figures is not None:
            explained = self.draw(rows, self.figures)
            click.echo(f"\nThe figures and {POINTS} are in {self.figures}. {explained}")

    @abstractmethod
    def draw(self, rows: Sequence[Row], folder: Path) -> str:
        """Write the figures and the file `POINTS` to `folder`; return a sentence that explains them."""
