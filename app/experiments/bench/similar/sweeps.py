"""Recall of kernelized LSH (KLSH) by each of its parameters: figures 1 to 3 of [1]_.

An additional figure, "t", is about the number t of sampled landmarks. `core.experiment.sweeps` lists all
figures.

References
----------
.. [1] K. Jiang, Q. Que, B. Kulis: Revisiting Kernelized Locality-Sensitive Hashing for Improved Large-Scale
   Image Retrieval, CVPR 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import click
import numpy as np
from numpy.typing import NDArray

from closecall.app.display.phrases import counted
from closecall.app.experiments.bench.experiment import Row
from closecall.app.experiments.bench.report import heading, show_table, spread
from closecall.app.experiments.bench.similar.curves import Curve, curves_of, seen_from, write_points
from closecall.app.experiments.bench.similar.drawn import POINTS, Drawn, create_folder
from closecall.app.experiments.bench.similar.figure import RecallFigure
from closecall.app.experiments.bench.similar.survey import numbers_retrieved
from closecall.app.experiments.bench.similar.sweep_figures import TITLES, draw_sweeps
from closecall.app.experiments.compare.similar.figures import SHOWN
from closecall.app.experiments.compare.similar.names import lane_label
from closecall.app.experiments.compare.similar.results import Lane
from closecall.core.errors import InputError
from closecall.core.experiment.families import Draw
from closecall.core.experiment.kernelized import RANKS, SCALES, Form, retrieve_together
from closecall.core.experiment.queries import Items
from closecall.core.experiment.sweeps import SAMPLED, sweeps
from closecall.core.hashing.klsh import KernelHasher, NystromLSH
from closecall.core.mercer.kernel import OF_HISTOGRAMS, Transformed, kernel_from
from closecall.core.pool.pool import Pool

_LINES: dict[str, Callable[[Form], str]] = {
    "1": lambda form: f"r = {form.rank}",
    "2a": lambda form: f"r = {form.rank}",
    "2b": lambda form: lane_label(_lane(form)),
    "2c": lambda form: "κ itself" if form.scale is None else f"s = {form.scale:g}",
    "3": lambda form: f"s = {form.scale:g}",
    "t": lambda form: f"t = {form.n_sampled}",
}
"""For each figure, a function that returns the name of the line for a form of KLSH."""


@dataclass(frozen=True)
class Sweeps(Drawn, RecallFigure):
    """Measurement of recall@R by rank, scale and number of sampled landmarks, and of eigenvalues by scale.

    Parameters
    ----------
    draws, queries, bits, kernels, share, landmarks
        See `KernelizedFigure`; parameters are chosen by recall@R at `share`.
    ranks : tuple of int
        Values of the rank r. If empty, the values in `core.experiment.kernelized.RANKS` below `landmarks`.
    scales : tuple of float
        Values of the scale s; `core.experiment.kernelized.SCALES` if empty.
    sampled : tuple of int
        Values of the number t of sampled landmarks. If empty, the values in `core.experiment.sweeps.SAMPLED`
        below `landmarks`.
    figures
        See `Drawn`.
    """

    name: ClassVar[str] = "sweeps"

    ranks: tuple[int, ...]
    scales: tuple[float, ...]
    sampled: tuple[int, ...]

    def __post_init__(self) -> None:
        """See `Figure.__post_init__`.

        Raises
        ------
        InputError
            If a kernel is unknown, if a rank, scale or number of sampled landmarks is out of range, or if
            `Drawn.__post_init__` raises it.
        """
        super().__post_init__()
        for option, values in (("--rank", self.ranks), ("--sampled", self.sampled)):
            for value in values:
                if not 1 <= value < self.landmarks:
                    raise InputError(
                        f"{option} must be from 1 to {self.landmarks - 1}, one less than the number of "
                        f"landmarks, got {value}"
                    )
        for kernel in self.kernels or OF_HISTOGRAMS:
            for scale in self.scales or SCALES:
                Transformed(kernel_from(kernel), scale)

    @property
    def values(self) -> dict[str, list[Any]]:
        """Values of each parameter, ascending, as arguments of `core.experiment.sweeps.sweeps`."""
        m = self.landmarks
        return {
            "ranks": sorted(set(self.ranks or (rank for rank in RANKS if rank < m))),
            "scales": sorted(set(self.scales or SCALES)),
            "sampled": sorted(set(self.sampled or (t for t in SAMPLED if t < m))),
        }

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Create the folder of the figures, and measure; see `RecallFigure.measure`.

        Raises
        ------
        InputError
            If the folder cannot be created, or if `RecallFigure.measure` raises it.
        """
        create_folder(self.figures)
        return super().measure(pool)

    def measure_draw(
        self, pool: Pool, draw: Draw, queries: Items, neighbours: NDArray[np.int64]
    ) -> list[Row]:
        """Return a row for each line of each figure, all measured in one pass over the pool.

        A row has ``paper_figure``, ``line`` (the name of the line), ``family``, ``form``, ``rank``,
        ``scale``, ``n_sampled`` and these columns:

        - ``centred``: whether angles are from the mean; None in figure 2c, where it makes no difference;
        - ``x``: places on the x-axis, which are numbers R of retrieved items; in figure 2c, numbers of
          components;
        - ``recall``: recall@R at each R; None in figure 2c;
        - ``y``: values on the y-axis, which are recall@R, or recall@R minus the recall@R of the figure's
          baseline in the same draw; in figure 2c, eigenvalues divided by the largest;
        - ``eigenvalues``: in figure 2c, the eigenvalues of the centred kernel matrix of the landmarks,
          divided by the number of landmarks; None in other figures;
        - ``recall_when_chosen``: recall@R on the queries that serve to choose parameters, with the R in the
          column ``R``; None in figure 2c;
        - ``chosen``: whether this form has the best ``recall_when_chosen`` of its figure.
        """
        trials = draw.trials(n_functions=self.n_bits)
        found = {centred: sweeps(trials, **self.values, centred=centred) for centred in (False, True)}
        forms = list(dict.fromkeys(form for some in found.values() for sweep in some for form in sweep.every))
        hashers = [trials.fitted[form] for form in forms]
        retrieved = retrieve_together(hashers, pool.blocks(), queries.X, neighbours)
        x = self._retrieved(len(pool))
        recalls = {
            form: one.nearest_found(x).mean(axis=0) for form, one in zip(forms, retrieved, strict=True)
        }
        rows = [
            {
                **_described(sweep.figure, form),
                "centred": centred,
                "chosen": form == sweep.chosen,
                "recall_when_chosen": trials.recalls[form],
                "x": x,
                "y": (recalls[form] - (recalls[sweep.base] if sweep.base else 0)).tolist(),
                "recall": recalls[form].tolist(),
                "eigenvalues": None,
            }
            for centred, some in found.items()
            for sweep in some
            for form in sweep.forms
        ]
        by_scale = next(sweep for sweep in found[False] if sweep.figure == "3")
        return rows + [_decay(form, trials.fitted[form]) for form in by_scale.every]

    def _retrieved(self, n: int) -> list[float]:
        """Return the values of R at which recall is measured in a pool of `n` items, ascending."""
        R = self.share * n
        return sorted({R, *(k for k in numbers_retrieved(1, n) if k <= max(SHOWN * n, 10 * R))})

    def draw(self, rows: Sequence[Row], folder: Path) -> str:
        """See `Drawn.draw`."""
        curves = curves_of(rows)
        draw_sweeps(curves, rows[0]["R"], folder)
        write_points(curves, folder / POINTS)
        return (
            "A line is the wider the more draws chose its parameter; 95 % intervals are beside the dotted R."
        )

    def show_tables(self, rows: Sequence[Row]) -> None:
        """See `Figure.show_tables`; prints a table for each figure, with a row for each of its lines."""
        click.echo(heading(rows[0], "recall of the nearest item by each parameter."))
        curves = curves_of(rows)
        for figure, (title, across, _) in TITLES.items():
            own = [curve for curve in curves if curve.figure == figure]
            R = rows[0]["R"] if across == "R" else None
            columns = [x for x in own[0].x if x == R or _is_round(x)]
            lines = [
                [curve.kernel, seen_from(curve), curve.name, *(_cell(curve, x) for x in columns)]
                for curve in own
            ]
            click.echo(f"\nFigure {figure}: {title}, by {across}.\n")
            show_table(["kernel", "seen from", "line", *(f"{x:,g}" for x in columns)], lines, n_left=3)

    def legend(self, rows: Sequence[Row]) -> str:
        """See `Figure.legend`."""
        return (
            f"In percent or points: recall@R, the share of {self.queries:,} held-out queries whose nearest "
            f"item by the kernel is among the R items whose {self.n_bits} bits differ least; mean and "
            f"standard deviation over {counted(self.draws, 'draw')} of {self.landmarks:,} landmarks and "
            "of the vectors. "
            "A gain is the difference within a draw. Rank, scale and t are chosen on as many other queries "
            f"by recall at R = {rows[0]['R']:,g} ({100 * self.share:g} % of the pool); figures 3 and t have "
            "the rank chosen in figure 1."
        )


def _lane(form: Form) -> Lane:
    """Return the family of a form, and the form's name as in `core.hashing.forms`."""
    if form.family is NystromLSH:
        return Lane(form.family.name, "full rank" if form.rank is None else "low rank")
    low_rank = "low rank" if form.scale is None else "low rank, transformed"
    return Lane(form.family.name, "original" if form.rank is None else low_rank)


def _described(figure: str, form: Form) -> Row:
    """Return the columns that name a row's figure and line."""
    return {
        "paper_figure": figure,
        "line": _LINES[figure](form),
        "family": form.family.name,
        "form": _lane(form).form,
        "rank": form.rank,
        "scale": form.scale,
        "n_sampled": form.n_sampled,
    }


def _decay(form: Form, fitted: KernelHasher) -> Row:
    """Return the row with the eigenvalues of a form's kernel, for the results of figure 2c.

    Eigenvalues do not depend on the rank, so the row's field for the rank is empty.
    """
    eigenvalues = fitted.eigenvalues() / fitted.n_landmarks
    return {
        **_described("2c", replace(form, rank=None)),
        "centred": None,
        "chosen": False,
        "recall_when_chosen": None,
        "x": list(range(1, len(eigenvalues) + 1)),
        "y": (eigenvalues / eigenvalues[0]).tolist(),
        "recall": None,
        "eigenvalues": eigenvalues.tolist(),
    }


def _is_round(x: float) -> bool:
    """Return whether x is 1, 10, 100 and so on. Tables have a column for each of these numbers."""
    return x >= 1 and bool(np.log10(x).is_integer())


def _cell(curve: Curve, x: float) -> str:
    return spread(curve.values[:, curve.x.index(x)]) if x in curve.x else "–"
