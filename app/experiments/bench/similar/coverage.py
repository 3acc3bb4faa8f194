"""Comparison of kernelized LSH (KLSH) with an exact search by kernel values: figure 16 of the survey [1]_.

**Primary baseline.** All lines are compared with the exact search in the same draw. This baseline, called
the scan by the kernel (`BASELINE`), was fixed before the figure was drawn.

**Draws.** Each draw has its own landmarks, random vectors and queries. Intervals over draws therefore show
how much the results depend on these choices. The rank of KLSH and the scale of its transformed kernel
(`core.hashing.forms`) are chosen on held-out items that are not used as queries.

References
----------
.. [1] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013, section 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import click
import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.experiments.bench.experiment import Row
from closecall.app.experiments.bench.report import each, heading
from closecall.app.experiments.bench.similar.drawn import POINTS, Drawn, create_folder
from closecall.app.experiments.bench.similar.figure import KernelizedFigure
from closecall.app.experiments.bench.similar.paired import Line, Panel, show_panels, write_points
from closecall.app.experiments.bench.similar.paired_figures import draw_panels
from closecall.app.experiments.compare.drawing import SECOND
from closecall.app.experiments.compare.similar.looks import look_at
from closecall.app.experiments.compare.similar.names import lane_label, yardstick_label
from closecall.app.experiments.compare.similar.plan import usual_kernels
from closecall.app.experiments.compare.similar.results import Lane
from closecall.core.experiment.coverage import CoverageSweep, has_classes
from closecall.core.experiment.metric_sweeps import EPSILONS
from closecall.core.experiment.queries import queries_of_draws
from closecall.core.hashing.klsh import KernelizedLSH
from closecall.core.mercer.kernel import kernel_from
from closecall.core.pool.pool import Pool

FIGURE = "16"

BASELINE = "scan by the kernel"

_BELOW = f"Below: differences to the primary baseline ({BASELINE}), with 95 % intervals"

_DASHED = 3.7, 1.6


@dataclass(frozen=True)
class Coverage(Drawn, KernelizedFigure):
    """Measurement of the coverage of KLSH, and of its k-nn accuracy for several values of ε.

    Coverage is the share of KLSH's first items that are also among the first items of the exact search. ε is
    the approximation factor, which determines the number of sorted orders that KLSH searches through.

    Parameters
    ----------
    draws, queries, bits, share, landmarks
        See `KernelizedFigure`; rank and scale are chosen by recall@R at `share`.
    kernels : tuple of str
        Names of kernels; only the first is measured.
    figures
        See `Drawn`.
    nearest : int
        Number of neighbours that vote.
    epsilons : tuple of float
        Values of ε; `core.experiment.metric_sweeps.EPSILONS` if empty. Coverage is drawn for the first value.
    """

    name: ClassVar[str] = "coverage"

    nearest: int
    epsilons: tuple[float, ...]

    def __post_init__(self) -> None:
        """See `Drawn.__post_init__`.

        Raises
        ------
        InputError
            If there is no such kernel, if ε is not positive and finite, or if `Drawn.__post_init__` raises
            it.
        """
        super().__post_init__()
        for kernel in self.kernels:
            kernel_from(kernel)
        _ = self.sweep

    @property
    def sweep(self) -> CoverageSweep:
        """The values of ε and the numbers of first items to measure."""
        return CoverageSweep(self.epsilons or EPSILONS)

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Yield, for each draw, the rows of `core.experiment.coverage.CoverageSweep.measured`.

        Each row also has ``kernel``, ``k`` (the number of neighbours that vote), ``kept`` (the ε for which
        coverage is drawn), ``R`` (rank and scale are chosen by recall@R) and ``seconds_of_draw``.

        Raises
        ------
        InputError
            If too few items are held out, if the pool has classes and too few held-out items are of known
            class, or if `CoverageSweep.measured` raises it.
        """
        create_folder(self.figures)
        kernel, sweep = kernel_from((self.kernels or usual_kernels(pool))[0]), self.sweep
        queries, choosing = queries_of_draws(
            pool, self.queries, self.queries, self.draws, known=has_classes(pool)
        )
        words = {"kernel": kernel.word, "k": self.nearest, "kept": sweep.epsilons[0]}
        about = {**self.about(pool), **words, "R": self.share * len(pool)}
        for seed, asked in enumerate(queries):
            start = perf_counter()
            draw = self.draw_of(pool, choosing, kernel, seed)
            found = list(sweep.measured(pool, draw, asked, k=self.nearest, n_functions=self.n_bits))
            seconds = perf_counter() - start
            yield [{**about, **row, "seconds_of_draw": seconds} for row in found]

    def panels(self, rows: Sequence[Row]) -> list[Panel]:
        """Return the panels of the figure from the rows of all draws.

        If the pool has no classes, there is no panel for accuracy.
        """
        kept, hashed = rows[0]["kept"], [row for row in rows if row["search"] == "orders"]
        seeds, epsilons = (sorted({row[name] for row in hashed}) for name in ("seed", "epsilon"))
        hashing = list(dict.fromkeys(row["form"] for row in hashed))
        every = (None, *hashing)
        found = {(row["form"], row["epsilon"], row["seed"]): row for row in rows}

        def of(form: str | None, epsilon: float, seed: int) -> Row:
            return found[form, None if form is None else epsilon, seed]

        def panel(title: str, across: str, x: list[float], values: dict[str | None, Any]) -> Panel:
            lines = [_line(form, every.index(form), own) for form, own in values.items()]
            baseline = BASELINE if None in values else None
            return Panel(FIGURE, f"{title}, {self.n_bits} bits", across, x, lines, baseline)

        def by_epsilon(measure: str, title: str, forms: Sequence[str | None]) -> Panel:
            values = {
                form: [[of(form, epsilon, seed)[measure] for epsilon in epsilons] for seed in seeds]
                for form in forms
            }
            return panel(title, "ε", epsilons, values)

        panels = []
        for place, k in enumerate(rows[0]["first"]):
            values = {form: [of(form, kept, seed)["covered"][place] for seed in seeds] for form in every}
            title = f"coverage of the first {k}, ε = {kept:g}"
            panels.append(panel(title, "first items of the scan", rows[0]["within"], values))
        if rows[0]["accuracy"] is not None:
            panels.append(by_epsilon("accuracy", f"accuracy of {self.nearest}-nn", every))
        return [*panels, by_epsilon("searched", "share searched", hashing)]

    def draw(self, rows: Sequence[Row], folder: Path) -> str:
        """See `Drawn.draw`."""
        panels = self.panels(rows)
        data = f"{rows[0]['data']}, {rows[0]['items']:,} items, {counted(self.draws, 'draw')}"
        what = f"KLSH and a scan by {yardstick_label(rows[0]['kernel'])}"
        draw_panels(panels, {FIGURE: f"{what}; {data}.\n{_BELOW}."}, folder)
        write_points(panels, folder / POINTS)
        return f"{_BELOW}."

    def show_tables(self, rows: Sequence[Row]) -> None:
        """See `Figure.show_tables`; prints each panel, and the ranks and scales that were chosen."""
        kernel = yardstick_label(rows[0]["kernel"])
        click.echo(heading(rows[0], f"KLSH against a scan by {kernel}."))
        show_panels(self.panels(rows))
        own = [row for row in rows if row["scale"] is not None and row["epsilon"] == row["kept"]]
        ranks, scales = (each(row[name] for row in own) for name in ("rank", "scale"))
        click.echo(f"\nChosen: ranks {ranks}; scales {scales}.")

    def legend(self, rows: Sequence[Row]) -> str:
        """See `Figure.legend`."""
        voting = (
            f"accuracy: share of them whose {self.nearest} nearest items vote for the right class. "
            if rows[0]["accuracy"] is not None
            else "There is no accuracy, because the pool has no classes. "
        )
        return (
            f"coverage: share of the first k items found for {self.queries:,} held-out queries that are "
            f"among the first items of a scan by the kernel. {voting}Mean and standard deviation over "
            f"{counted(self.draws, 'draw')} of {self.landmarks:,} landmarks, vectors and queries. KLSH "
            "ranks the "
            "distinct items among the 2M entries next to the query in M = 2N^(1/(1+ε)) sorted orders by the "
            "kernel; share searched: their share of the pool. If fewer than k items are found, the missing "
            f"ones are not covered. Rank and scale are chosen on {self.queries:,} other held-out items by "
            f"recall at R = {rows[0]['R']:,g}. The primary baseline is: {BASELINE}; no search can cover more "
            "than it. A difference whose interval contains zero, or that has none, is open; each interval is "
            "for one difference alone."
        )


def _line(form: str | None, place: int, values: Any) -> Line:
    """Return the line of a form of KLSH, or the line of the scan if `form` is None.

    The line of the scan is dashed and has hollow marks.
    """
    stroke = look_at(place).stroke
    if form is None:
        name, stroke = BASELINE, stroke._replace(colour=SECOND, dash=_DASHED, hollow=True)
    else:
        name = lane_label(Lane(KernelizedLSH.name, form))
    return Line(name, stroke, np.array(values, dtype=np.float64))
