"""Base class of the measurements whose figures ``--figures`` draws under their numbers in a paper."""

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
        if self.figures is not None:
            load("matplotlib", "reports")

    def create_folder(self) -> None:
        """Create the folder of figures, before anything is measured.

        Raises
        ------
        InputError
            If it cannot be created.
        """
        if self.figures is not None:
            with disk_trouble(self.figures):
                self.figures.mkdir(parents=True, exist_ok=True)

    def conclude(self, rows: Sequence[Row]) -> None:
        """See `Experiment.conclude`: print the tables, and write the figures and their points."""
        super().conclude(rows)
        if self.figures is not None:
            explained = self.draw(rows, self.figures)
            click.echo(f"\nThe figures and {POINTS} are in {self.figures}. {explained}")

    @abstractmethod
    def draw(self, rows: Sequence[Row], folder: Path) -> str:
        """Write the figures and their `POINTS` into a folder, and return what a reader has to know."""
