"""The lines of the figures about kernelized LSH: rows of all draws, with means and intervals."""

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
"""Columns of the file of points."""


@dataclass(frozen=True, eq=False)
class Curve:
    """A line of a figure.

    Parameters
    ----------
    figure : str
        Number of the figure in the paper, or "t".
    kernel, line : str
        Word of the kernel, and name of the line.
    centred : bool or None
        Whether angles are measured from the mean, not from the origin; None if it makes no difference.
    lane : Lane
        Family and form.
    n_chosen : int
        Number of draws in which the other queries choose this line's parameter.
    x : list of float
        Places at which all draws have a value, ascending.
    values : array of shape (n_draws, n_x), float64
        Shares from −1 to 1.
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
        """The name of the line, with the number of draws that chose its parameter."""
        n = len(self.values)
        if not self.n_chosen:
            return self.line
        return f"{self.line}, chosen" if self.n_chosen == n else f"{self.line}, chosen {self.n_chosen} of {n}"

    @cached_property
    def interval(self) -> tuple[Floats, Floats, Floats]:
        """Mean over draws, and the ends of its 95 % interval, which are NaN if there is only one draw."""
        return mean_and_ends(self.values)


def curves_of(rows: Sequence[Row]) -> list[Curve]:
    """Group rows of `Sweeps.measure` by line, in the order of the first draw."""
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
    """Return the point from which a curve's angles are measured: "origin", "mean", or "–" for either."""
    return "–" if curve.centred is None else "mean" if curve.centred else "origin"


def write_points(curves: Sequence[Curve], path: Path) -> None:
    """Write a row for each point of each curve, as CSV with `COLUMNS`."""
    rows = []
    for curve in curves:
        head = curve.figure, curve.kernel, seen_from(curve), curve.line, curve.n_chosen, len(curve.values)
        rows += [(*head, *point) for point in zip(curve.x, *curve.interval, strict=True)]
    write_csv(path, COLUMNS, rows)


def mean_and_ends(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the mean of values of shape (n_draws, n_x) over draws, and the ends of its 95 % interval.

    The ends are NaN if there is only one draw.
    """
    mean, half = mean_and_halfwidth(values, np.zeros(len(values)))
    return mean, mean - half, mean + half
