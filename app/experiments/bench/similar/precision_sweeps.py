"""Precision and times of supervised hashing: figures 5 and 6 and table 1 of [1]_.

Figure 5 shows precision against bits, figure 6 precision against the number of labels.

**Primary baseline.** All lines are compared with supervised hashing without a learned kernel (KSH), in the
same draw and with the same labels (`BASELINE`). This baseline was fixed before any figure was drawn.

**Draws.** Each draw has its own labels, queries and random numbers. Intervals over draws therefore show how
much the results depend on the choice of labels and queries from this pool. Within a draw, all supervised
families get the same labels.

**Parameters** are not chosen on the queries that are reported. The slack γ of a learned metric or kernel is
chosen by cross-validation over the family's labels. Rank and scale of kernelized LSH are chosen on other
held-out items (`core.experiment.families`).

Unsupervised families don't depend on the number of labels, so they are measured once in each draw. Their
lines in figure 6 are horizontal.

References
----------
.. [1] Y. Li, H. Cheng, "Supervised hashing with learned metric", section 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import click
import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.experiments.bench.experiment import Row
from closecall.app.experiments.bench.report import heading, show_table
from closecall.app.experiments.bench.similar.drawn import POINTS, Drawn, create_folder
from closecall.app.experiments.bench.similar.figure import labels_among
from closecall.app.experiments.bench.similar.paired import Line, Panel, show_panels, write_points
from closecall.app.experiments.bench.similar.paired_figures import draw_panels
from closecall.app.experiments.bench.similar.precision import Precision
from closecall.app.experiments.compare.similar.looks import look_of
from closecall.app.experiments.compare.similar.names import lane_label
from closecall.app.experiments.compare.similar.results import Lane
from closecall.core.errors import InputError
from closecall.core.experiment.families import Draw, families_named
from closecall.core.experiment.queries import Items, queries_of_draws
from closecall.core.experiment.similarity import Truths, cost_of
from closecall.core.hashing import (
    Codes,
    KernelizedLSH,
    LearnedKernelHash,
    MetricLSH,
    RandomHyperplaneLSH,
    SimilarityHasher,
    SupervisedKernelHash,
)
from closecall.core.pool.pool import Pool
from closecall.core.similar import ByDistance

FAMILIES = tuple(
    family.name
    for family in (RandomHyperplaneLSH, KernelizedLSH, MetricLSH, SupervisedKernelHash, LearnedKernelHash)
)
"""Default families: LSH, kernelized LSH, LSH with a learned metric, KSH, and KSH with a learned kernel."""

BASELINE = Lane(SupervisedKernelHash.name, "")

LABELS = (1_000, 2_000, 5_000, 10_000, 20_000)
"""Default numbers of labels. Figure 5 uses the first number, as in the paper."""

TIMED = 25
"""Number of queries that are timed, one by one."""


@dataclass(frozen=True)
class PrecisionSweeps(Drawn, Precision):
    """Measurement of the precision of each family by bits and by labels, and of the times in table 1.

    Parameters
    ----------
    draws, queries, families, kernels, landmarks, bits, retrieved, sample
        See `Precision`; if `families` is empty, `FAMILIES`. Figure 6 and table 1 are about the longest codes.
    labels : tuple of int
        Numbers of labels. Figure 5 and table 1 are about the first of these numbers. If empty, the numbers in
        `LABELS` that do not exceed the number of rows of known class in the sample.
    figures
        See `Drawn`.
    """

    several_labels: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """See `Drawn.__post_init__`; also raises InputError if the baseline is not among the families."""
        super().__post_init__()
        if BASELINE.family not in self.names:
            raise InputError(
                f"figures 5 and 6 show differences to {BASELINE.family}: add --family {BASELINE.family}, got "
                f"{', '.join(self.names)}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """See `FamilyFigure.names`."""
        return families_named(self.families or FAMILIES)

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Create the folder of the figures, and measure; see `FamilyFigure.measure`."""
        create_folder(self.figures)
        return super().measure(pool)

    def numbers_of_labels(self, pool: Pool) -> tuple[int, ...]:
        """Return the numbers of labels to measure with. Figure 5 and table 1 use the first number.

        Raises
        ------
        InputError
            If the sample has fewer labels than requested.
        """
        share = np.count_nonzero(pool.truth(pool.ids) >= 0) / len(pool)
        return labels_among(self.labels, LABELS, round(share * min(self.sample, len(pool))))

    def about(self, pool: Pool) -> Row:
        """See `Figure.about`."""
        return {**super().about(pool), "kept": self.numbers_of_labels(pool)[0]}

    def asked(self, pool: Pool) -> tuple[list[Truths], Items]:
        """See `FamilyFigure.asked`; each draw has its own queries."""
        queries, choosing = queries_of_draws(pool, self.queries, self.queries, self.draws, known=True)
        return [Truths(pool, own, 1, TIMED) for own in queries], choosing

    def draws_of(self, pool: Pool, choosing: Items, seed: int) -> Iterator[Draw]:
        """See `FamilyFigure.draws_of`; yields the same sample with each number of labels.

        Every larger set of labels contains the smaller sets.
        """
        for n_labels in dict.fromkeys(self.numbers_of_labels(pool)):
            yield self.draw_of(pool, choosing, seed, n_sample=self.sample, n_labels=n_labels)

    def takes_part(self, name: str, draw: Draw) -> bool:
        """See `FamilyFigure.takes_part`.

        Unsupervised families take part only with the first number of labels.
        """
        return draw.lesson(name) is not None or self._is_kept(draw)

    def lengths_for(self, draw: Draw) -> list[int]:
        """See `Precision.lengths_for`; returns all lengths only if `draw` has the first number of labels.

        With other numbers of labels, only the greatest length is measured.
        """
        return self.lengths if self._is_kept(draw) else self.lengths[-1:]

    def costs(self, hasher: SimilarityHasher, codes: Codes, draw: Draw, truths: Truths) -> Row:
        """See `Precision.costs`; returns times for the longest codes with the first number of labels.

        The times are seconds of processor time: ``hash_seconds`` (per item), ``query_seconds`` (for hashing a
        query and comparing its code with all codes) and ``scan_seconds`` (for a query by a scan of the
        features). With shorter codes or other numbers of labels, there are no times.
        """
        if not self._is_kept(draw) or hasher.n_functions != self.lengths[-1]:
            return {}
        cost = {measure: value for measure, _, value in cost_of(hasher, codes, truths)}
        return {
            "hash_seconds": cost["hash seconds"],
            "query_seconds": cost["query seconds"],
            "scan_seconds": truths.by("angle", ByDistance(truths.pool))[1],
        }

    def _is_kept(self, draw: Draw) -> bool:
        n_labels = int(np.count_nonzero(draw.truth >= 0))
        return n_labels == (self.labels or LABELS)[0] or (not self.labels and n_labels < LABELS[0])

    def panels(self, rows: Sequence[Row]) -> list[Panel]:
        """Return the panels of both figures from the rows of all draws.

        A family or form is left out of a panel if it lacks a value at any point.
        """
        kept, longest = rows[0]["kept"], self.lengths[-1]
        labels = sorted({row["labels"] for row in rows})
        lanes = list(dict.fromkeys(Lane(row["family"], row["form"]) for row in rows))
        seeds = sorted({row["seed"] for row in rows})
        found = {
            (Lane(row["family"], row["form"]), row["seed"], row["labels"], row["bits"]): row["precision"]
            for row in rows
        }
        taught = {row["family"] for row in rows if row["learned_from"] is not None}

        def panel(figure: str, title: str, across: str, number: int, places: list[tuple[int, int]]) -> Panel:
            lines = []
            for lane in lanes:
                keys = [
                    [(lane, seed, n if lane.family in taught else kept, bits) for n, bits in places]
                    for seed in seeds
                ]
                if all(key in found for own in keys for key in own):
                    values = np.array([[found[key][number] for key in own] for own in keys])
                    lines.append(Line(lane_label(lane), look_of(lane).stroke, values))
            x: list[float] = [bits if across == "bits" else n for n, bits in places]
            return Panel(figure, title, across, x, lines, lane_label(BASELINE))

        by_bits = [(kept, bits) for bits in self.lengths]
        by_labels = [(n, longest) for n in labels]
        tops = [(number, f"precision of the first {k:,}") for number, k in enumerate(self.places)]
        return [
            *(panel("5", f"{top}, {kept:,} labels", "bits", number, by_bits) for number, top in tops),
            *(panel("6", f"{top}, {longest} bits", "labels", number, by_labels) for number, top in tops),
        ]

    def draw(self, rows: Sequence[Row], folder: Path) -> str:
        """See `Drawn.draw`."""
        panels, base = self.panels(rows), lane_label(BASELINE)
        data = f"{rows[0]['data']}, {rows[0]['items']:,} items, {counted(self.draws, 'draw')}"
        below = f"Below: differences to the primary baseline ({base}), with 95 % intervals"
        if not panels[0].others:
            below = f"The primary baseline ({base}) does not apply"
        captions = {
            "5": f"precision by bits; {data}.\n{below}.",
            "6": f"precision by labels; {data}.\n{below}.",
        }
        draw_panels(panels, captions, folder)
        write_points(panels, folder / POINTS)
        return f"{below}."

    def show_tables(self, rows: Sequence[Row]) -> None:
        """See `Figure.show_tables`; prints each panel, and table 1."""
        click.echo(heading(rows[0], "of the query's class."))
        show_panels(self.panels(rows))
        timed = [row for row in rows if "scan_seconds" in row]
        click.echo(f"\nTable 1: times with {rows[0]['kept']:,} labels and {self.lengths[-1]} bits.\n")
        lines = []
        for lane in dict.fromkeys(Lane(row["family"], row["form"]) for row in timed):
            own = [row for row in timed if (row["family"], row["form"]) == lane]
            lines.append([lane_label(lane), *(_seconds(own, name, unit) for name, unit in _TIMES.values())])
        scan = _seconds(timed, "scan_seconds", 1000)
        lines.insert(0, ["linear scan", *("–" for _ in list(_TIMES)[1:]), scan])
        show_table(["", *_TIMES], lines)
        self.show_refused()

    def legend(self, rows: Sequence[Row]) -> str:
        """See `Figure.legend`."""
        longest = self.lengths[-1]
        kept = [row for row in rows if row["labels"] == row["kept"]]
        return (
            f"In percent, of {self.queries:,} held-out queries; mean and standard deviation over "
            f"{counted(self.draws, 'draw')} of labels, queries and everything else that is random. "
            "Families are fitted "
            f"to {min(self.sample, rows[0]['items']):,} rows; kernelized ones have {self.landmarks:,} "
            "landmarks, supervised ones 300 anchors at most. γ is chosen by cross-validation over labels, "
            f"rank and scale on {self.queries:,} other held-out items. The primary baseline is "
            f"{lane_label(BASELINE)}. A difference whose interval contains zero, or that has none, is open; "
            "each interval is for one difference by itself. Table 1, in processor time: choosing γ, rank and "
            "scale, and learning the metric, once for all lengths and for all families that share them; "
            f"training codes of {longest} bits; coding an item; a query, hashed and compared with all codes."
            f"{self.lessons(kept)}"
        )


_TIMES = {
    "choosing, s": ("choosing_seconds", 1),
    "training, s": ("fit_seconds", 1),
    "coding, ms": ("hash_seconds", 1000),
    "query, ms": ("query_seconds", 1000),
}
"""Columns of table 1, by heading: the name of a measured time, and the factor from seconds to its unit."""


def _seconds(rows: Sequence[dict[str, Any]], name: str, unit: float) -> str:
    """Return the mean of a time as text. `unit` is the factor from seconds to the unit of the table."""
    return f"{unit * np.mean([row[name] for row in rows]):.3g}"
