"""The lines of the figures about kernelized LSH, with means and intervals over random draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from closecall.app.experiments.bench.experiment import Row
from closecall.app.experiments.bench.report import write_csv
from closecall.app.experiments.compare.similar.results import Lane
from closecall.app.experiments.compare.statistics import mean_and_halfwidth

Floats = NDArray[np.float64]

COLUMNS = ("figure", "kernel", "seen from", "line", "chosen", "draws", "x", "mean", "low", "high")
"""Columns of the CSV file with all points."""


@dataclass(frozen=True, eq=False)
class Curve:
    """A line of a figure.

    Parameters
    ----------
    figure : str
        Number of the figure in the paper, or "t" for the additional figure about the number t of sampled
        landmarks.
    kernel, line : str
        Name of the kernel, and name of the line.
    centred : bool or None
        Whether angles are measured from the mean. If False, they are measured from the origin. None if the
        choice makes no difference.
    lane : Lane
        Hash family and its form.
    n_chosen : int
        Number of draws in which this line's parameter was the best on the queries for choosing parameters.
    x : list of float
        Places on the x-axis at which all draws have a value, ascending.
    values : array of shape (n_draws, n_x), float64
        Shares, differences of shares, or eigenvalues divided by the largest, −1 … 1.
    """

    figure: str
    kernel: str
    line: str
    centred: bool | None
    lane: Lane
    n_chosen: int
    x: list[float]
    values: Floats

    @property
    def name(self) -> str:
        """The name of the line, with "chosen 3 of 5" if 3 of 5 random draws chose its parameter."""
        n = len(self.values)
        if not self.n_chosen:
            return self.line
        return f"{self.line}, chosen" if self.n_chosen == n else f"{self.line}, chosen {self.n_chosen} of {n}"

    @cached_property
    def interval(self) -> tuple[Floats, Floats, Floats]:
        """Mean over random draws, and the ends of its 95 % interval; see `mean_and_ends`."""
        return mean_and_ends(self.values)


def curves_of(rows: Sequence[Row]) -> list[Curve]:
    """Group the rows of `Sweeps.measure` by line. Lines are in the order of their first row."""
    grouped: dict[tuple[str, str, bool | None, str], list[Row]] = {}
    for row in rows:
        key = row["paper_figure"], row["kernel"], row["centred"], row["line"]
        grouped.setdefault(key, []).append(row)
    curves = []
    for (figure, kernel, centred, line), own in grouped.items():
        x = min((row["x"] for row in own), key=len)
        values = np.array([row["y"][: len(x)] for row in own])
        n_chosen = sum(row["chosen"] for row in own)
        lane = Lane(own[0]["family"], own[0]["form"])
        curves.append(Curve(figure, kernel, line, centred, lane, n_chosen, x, values))
    return curves


def seen_from(curve: Curve) -> str:
    """Return the point that angles are measured from: "origin" or "mean"; "–" if both give the same line."""
    return "–" if curve.centred is None else "mean" if curve.centred else "origin"


def write_points(curves: Sequence[Curve], path: Path) -> None:
    """Write a CSV file with the columns `COLUMNS` and a row for each point of each curve."""
    rows = []
    for curve in curves:
        head = curve.figure, curve.kernel, seen_from(curve), curve.line, curve.n_chosen, len(curve.values)
        rows += [(*head, *point) for point in zip(curve.x, *curve.interval, strict=True)]
    write_csv(path, COLUMNS, rows)


def mean_and_ends(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the mean over random draws, and the lower and upper ends of its 95 % interval.

    `values` has shape (n_draws, n_x); each result has shape (n_x,). The ends are NaN if n_draws is 1.
    """
    mean, half = mean_and_halfwidth(values, np.zeros(len(values)))
    return mean, mean - half, mean + half
