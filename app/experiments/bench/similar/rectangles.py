"""Codes of uniformly distributed points in rectangles, without a pool: figures 12 to 14 of the survey [1]_.

References
----------
.. [1] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013, section 4.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click
import numpy as np
from threadpoolctl import threadpool_limits

from closecall.app.display.phrases import counted
from closecall.app.experiments.bench.experiment import Experiment, Row
from closecall.app.experiments.bench.report import heading, show_table, with_interval
from closecall.app.experiments.bench.similar.drawn import POINTS, check_drawing, create_folder
from closecall.app.experiments.bench.similar.rectangle_figures import (
    FIGURE,
    draw_rectangles,
    label_of,
    lines_of,
    shares_of,
)
from closecall.core.errors import InputError
from closecall.core.experiment.rectangles import (
    METHODS,
    N_POINTS,
    TEN_DIMENSIONS,
    WITHIN,
    Box,
    Method,
    score,
    true_neighbours,
)

ASPECTS = (1.0, 2.0, 4.0)
"""Default ratios of the long to the short edge of a rectangle."""

BITS = (4, 8, 16, 24, 32)
"""Default code lengths, in bits."""


@dataclass(frozen=True)
class Rectangles(Experiment[Box]):
    """Measurement of how well codes preserve the neighbours of uniformly distributed points.

    The points lie in rectangles and in a box with ten dimensions.

    Parameters
    ----------
    draws : int
        Number of draws of points, queries and hash functions; their seeds are 0 … draws − 1.
    queries : int
        Number of queries in a draw.
    bits : tuple of int
        Code lengths; `BITS` if empty.
    wanted : int
        Number of true neighbours per query.
    aspects : tuple of float
        Ratios of the long to the short edge of each rectangle; `ASPECTS` if empty.
    figures : Path or None
        Folder for the figures and their points.
    """

    name: ClassVar[str] = "rectangles"

    threads = 1

    draws: int
    queries: int
    bits: tuple[int, ...]
    wanted: int
    aspects: tuple[float, ...]
    figures: Path | None

    def __post_init__(self) -> None:
        """Check the options.

        Raises
        ------
        InputError
            If there are too many true neighbours, if a ratio is out of range, or if figures cannot be drawn.
        """
        if self.wanted > N_POINTS // 2:
            raise InputError(
                f"--wanted must be at most {N_POINTS // 2:,} for rectangles, half of the points, got "
                f"{self.wanted:,}"
            )
        for aspect in self.aspects:
            Box.of_aspect(aspect)
        check_drawing(self.figures)

    @property
    def rectangles(self) -> list[Box]:
        """The rectangles, from the squarest to the longest."""
        return [Box.of_aspect(aspect) for aspect in sorted(set(self.aspects or ASPECTS))]

    @property
    def boxes(self) -> list[Box]:
        """The rectangles and the box with ten dimensions, in the order of measuring."""
        return [*self.rectangles, TEN_DIMENSIONS]

    @property
    def lengths(self) -> list[int]:
        """Code lengths, ascending."""
        return sorted(set(self.bits or BITS))

    def measure(self, box: Box) -> Iterator[list[Row]]:
        """Yield, for each draw, a list with a row for each method and code length.

        A row has ``figure``, ``paper_figure``, ``data`` (the name of the box), ``edges``, ``items``, ``dim``,
        ``queries``, ``neighbours`` (the number of true neighbours per query), ``family``, ``form``, ``bits``,
        ``draw``, ``within``, ``retrieved`` and ``first``.

        ``within`` is the share of true neighbours among the points at a Hamming distance below 2 from the
        query, counted over all queries; None if there are no such points. ``retrieved`` is the mean number of
        such points per query. ``first`` is the mean share of the true neighbours that are among the first
        ``neighbours`` points by Hamming distance.

        Raises
        ------
        InputError
            If the folder of figures cannot be created.
        """
        create_folder(self.figures)
        for seed in range(self.draws):
            rng = np.random.default_rng([seed, len(box.lengths)])
            points, queries = box.uniform(N_POINTS, rng), box.uniform(self.queries, rng)
            neighbours = true_neighbours(points, queries, self.wanted)
            yield [
                {
                    "figure": self.name,
                    "paper_figure": FIGURE,
                    "data": box.name,
                    "edges": box.lengths,
                    "items": len(points),
                    "dim": len(box.lengths),
                    "queries": self.queries,
                    "neighbours": self.wanted,
                    **method._asdict(),
                    "bits": bits,
                    "draw": seed,
                    **score(learn(points, bits, self.wanted, seed), points, queries, neighbours)._asdict(),
                }
                for method, learn in METHODS.items()
                for bits in self.lengths
            ]

    def conclude(self, rows: Sequence[Row]) -> None:
        """Print the tables, and write the figures with their points; see `Experiment.conclude`."""
        for box in self.boxes:
            first = next(row for row in rows if row["data"] == box.name)
            click.echo(heading(first, "how well Hamming distances follow distances."))
            for column, title in (
                ("within", f"true neighbours among the points at Hamming distances below {WITHIN + 1}"),
                ("first", f"true neighbours among the first {self.wanted:,} points"),
                ("retrieved", f"number of points at Hamming distances below {WITHIN + 1}"),
            ):
                lines = [[label_of(method), *self._cells(rows, box, method, column)] for method in METHODS]
                click.echo(f"\n{title}\n")
                show_table(["bits", *(f"{n:,}" for n in self.lengths)], lines)
        click.echo(
            f"\nShares are in percent, of {self.queries:,} queries; true neighbours are the {self.wanted:,} "
            f"nearest of {N_POINTS:,} uniform points. Mean and half the width of its 95 % interval over "
            f"{counted(self.draws, 'draw')} of points, queries and functions."
        )
        if self.figures is not None:
            with threadpool_limits(self.threads, user_api="blas"):
                draw_rectangles(lines_of(rows), self.rectangles, self.wanted, self.figures)
            click.echo(f"\nThe figures and {POINTS} are in {self.figures}.")

    def _cells(self, rows: Sequence[Row], box: Box, method: Method, column: str) -> list[str]:
        """Return a cell for each code length."""
        cells = []
        for bits in self.lengths:
            values = shares_of(rows, box.name, method, bits, column)
            known = values[~np.isnan(values)]
            cells.append(with_interval(known if column == "retrieved" else 100 * known))
        return cells
