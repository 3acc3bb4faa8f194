"""Accuracy of k-nn under a learned metric, plotted against bits, labels and ε: figures 1 and 2 of [1]_.

Neighbours are found by scans and by hashing. The approximation factor ε determines the number of sorted
orders that hashing searches through.

**Primary baseline.** All lines are compared with a scan by the original metric in the same draw (`BASELINE`).
This baseline was fixed before any figure was drawn.

**Draws.** Each draw has its own labels, random vectors and queries. Intervals over draws therefore show how
much the results depend on these choices. Two parameters of metric learning, the slack γ and the number of
pairs, are chosen on held-out items that are not used as queries (`core.experiment.metric_sweeps`).

**Sets.** If the items of a pool are sets of local features, the inner product is a matching kernel. The panel
of figure 2 with ε on the x-axis then corresponds to figure 9 of [2]_. This panel is drawn again as figure 9,
with errors instead of accuracies.

References
----------
.. [1] B. Kulis, P. Jain, K. Grauman, "Fast similarity search for learned metrics", PAMI 2009.
.. [2] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013, section 3.2.
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
from closecall.app.experiments.bench.similar.figure import labels_among
from closecall.app.experiments.bench.similar.paired import Line, Panel, show_panels, write_points
from closecall.app.experiments.bench.similar.paired_figures import draw_panels
from closecall.app.experiments.compare.drawing import Stroke
from closecall.app.experiments.compare.similar.looks import look_of
from closecall.app.experiments.compare.similar.results import Lane
from closecall.core.experiment.metric_sweeps import BITS, EPSILONS, LABELS, MetricSweeps
from closecall.core.experiment.queries import queries_of_draws
from closecall.core.hashing import MetricLSH, RandomHyperplaneLSH
from closecall.core.pool.pool import Pool

LINES = {
    ("original", "scan"): "scan by the original metric",
    ("original", "orders"): "hashing by the original metric",
    ("learned", "scan"): "scan by the learned metric",
    ("learned", "orders"): "hashing by the learned metric",
}

BASELINE = LINES["original", "scan"]

_BELOW = f"Below: differences to the primary baseline ({BASELINE}), with 95 % intervals"

_OF_SETS = (
    " Items are sets of local features: figure 2 by ε is figure 9 of the survey by Grauman and Fergus, which "
    "has errors, 100 % less the accuracy."
)

_DASHED = 3.7, 1.6


@dataclass(frozen=True)
class NeighbourSweeps(Drawn):
    """Measurement of k-nn accuracy with the original and the learned metric, for several parameters.

    Neighbours are found by a scan and by hashing.

    Parameters
    ----------
    draws, queries, bits
        See `Figure`; if `bits` is empty, `core.experiment.metric_sweeps.BITS`.
    figures
        See `Drawn`.
    nearest : int
        Number of neighbours that vote.
    labels : tuple of int
        Numbers of items whose classes the metric is learned from. If empty, the numbers in
        `core.experiment.metric_sweeps.LABELS` that do not exceed the number of items of known class.
    epsilons : tuple of float
        Values of ε; `core.experiment.metric_sweeps.EPSILONS` if empty.
    """

    name: ClassVar[str] = "neighbours"
    several_bits: ClassVar[bool] = True

    nearest: int
    labels: tuple[int, ...]
    epsilons: tuple[float, ...]

    def __post_init__(self) -> None:
        """See `Drawn.__post_init__`; also raises InputError if ε is not positive."""
        super().__post_init__()
        self._sweeps(self.labels or LABELS)

    def _sweeps(self, labels: Sequence[int]) -> MetricSweeps:
        return MetricSweeps(self.bits or BITS, labels, self.epsilons or EPSILONS)

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Yield, for each draw, the rows of `core.experiment.metric_sweeps.MetricSweeps.measured`.

        Each row also has ``kept`` and ``sets``. ``kept`` has the number of bits, the number of labels and the
        ε that stay constant while another parameter varies. ``sets`` tells whether items are sets of local
        features.

        Raises
        ------
        InputError
            If too few items of known class are in the pool or held out, or if `MetricSweeps.measured` raises
            it.
        """
        create_folder(self.figures)
        n_known = int(np.count_nonzero(pool.truth(pool.ids) >= 0))
        sweeps = self._sweeps(labels_among(self.labels, LABELS, n_known))
        queries, choosing = queries_of_draws(pool, self.queries, self.queries, self.draws, known=True)
        sets = pool.is_sparse and not pool.holds_texts
        about = {**self.about(pool), "k": self.nearest, "kept": sweeps.kept, "sets": sets}
        for seed, asked in enumerate(queries):
            start = perf_counter()
            found = list(sweeps.measured(pool, asked, choosing, k=self.nearest, seed=seed))
            seconds = perf_counter() - start
            yield [{**about, **row, "seconds_of_draw": seconds} for row in found]

    def panels(self, rows: Sequence[Row]) -> list[Panel]:
        """Return the panels of all figures from the rows of all draws.

        If items are not sets, there are no panels of figure 9.
        """
        n_bits, n_labels, epsilon = rows[0]["kept"]
        hashed = [row for row in rows if row["search"] == "orders"]
        bits = sorted({row["bits"] for row in hashed})
        epsilons = sorted({row["epsilon"] for row in hashed})
        labels = sorted({row["labels"] for row in rows if row["labels"]})
        kept = {"bits": n_bits, "labels": n_labels, "epsilon": epsilon}
        of = {"bits": f"{n_bits} bits", "labels": f"{n_labels:,} labels", "epsilon": f"ε = {epsilon:g}"}

        def panel(figure: str, measure: str, column: str, across: str, x: Sequence[float]) -> Panel:
            lines = [
                Line(name, _stroke(*way), _values(rows, measure, way, [{**kept, column: at} for at in x]))
                for way, name in LINES.items()
                if measure != "searched" or way[1] != "scan"
            ]
            others = ", ".join(word for name, word in of.items() if name != column)
            title = "share searched" if measure == "searched" else measure
            baseline = None if measure == "searched" else BASELINE
            return Panel(figure, f"{title}, {others}", across, list(x), lines, baseline)

        panels = [
            panel("1", "accuracy", "bits", "bits", bits),
            panel("1", "searched", "bits", "bits", bits),
            panel("2", "accuracy", "labels", "labels", labels),
            panel("2", "accuracy", "bits", "bits", bits),
            panel("2", "accuracy", "epsilon", "ε", epsilons),
        ]
        return [*panels, panel("9", "error", "epsilon", "ε", epsilons)] if rows[0]["sets"] else panels

    def draw(self, rows: Sequence[Row], folder: Path) -> str:
        """See `Drawn.draw`."""
        panels = self.panels(rows)
        draw_panels(panels, self._captions(rows), folder)
        write_points(panels, folder / POINTS)
        return f"{_BELOW}."

    def _captions(self, rows: Sequence[Row]) -> dict[str, str]:
        data = f"{rows[0]['data']}, {rows[0]['items']:,} items, {counted(self.draws, 'draw')}"
        captions = {
            "1": f"accuracy of {self.nearest}-nn, and share searched, by bits; {data}.\n{_BELOW}.",
            "2": f"accuracy of {self.nearest}-nn by labels, bits and ε; {data}.\n{_BELOW}.",
        }
        if rows[0]["sets"]:
            captions["9"] = f"error of {self.nearest}-nn by ε; sets of {data}.\n{_BELOW}."
        return captions

    def show_tables(self, rows: Sequence[Row]) -> None:
        """See `Figure.show_tables`; prints each panel, and the parameters that were chosen."""
        click.echo(heading(rows[0], "k-nn accuracy by labels, bits and ε."))
        show_panels(self.panels(rows))
        click.echo()
        scans = [row for row in rows if (row["metric"], row["search"]) == ("learned", "scan")]
        for n in sorted({row["labels"] for row in scans}):
            own = [row for row in scans if row["labels"] == n]
            gamma, pairs, upper = (each(row[name] for row in own) for name in ("gamma", "n_pairs", "upper"))
            click.echo(f"Chosen with {n:,} labels: γ {gamma}; pairs {pairs}; bound {upper}.")

    def legend(self, rows: Sequence[Row]) -> str:
        """See `Figure.legend`."""
        return (
            f"accuracy: share of {self.queries:,} held-out queries whose {self.nearest} nearest items vote "
            f"for the right class; mean and standard deviation over {counted(self.draws, 'draw')} of "
            "labels, random "
            "vectors and queries. Hashing ranks the distinct items among the 2M entries next to the query in "
            "M = 2N^(1/(1+ε)) sorted orders, as published; share searched: their share of the pool. γ, the "
            "number of pairs and, unless it is a percentile, the bound of similar pairs are chosen on "
            f"{self.queries:,} other held-out items. The primary baseline is: {BASELINE}. A difference whose "
            "interval contains zero, or that has none, is open; each interval is for one difference alone."
            f"{_OF_SETS if rows[0]['sets'] else ''}"
        )


def _values(
    rows: Sequence[Row], measure: str, way: tuple[str, str], places: Sequence[dict[str, Any]]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the values of one line, of shape (n_draws, n_places).

    Parameters
    ----------
    rows : sequence of dict
        Rows of all draws.
    measure : str
        Name of a column, or "error" for 1 − accuracy.
    way : tuple of str
        Metric and search of the line: a key of `LINES`.
    places : sequence of dict
        For each point of the line, the values of "bits", "labels" and "epsilon".
    """
    metric, search = way
    own = {
        (row["seed"], row["labels"], row["bits"], row["epsilon"]): (
            1 - row["accuracy"] if measure == "error" else row[measure]
        )
        for row in rows
        if (row["metric"], row["search"]) == way
    }
    seeds = sorted({row["seed"] for row in rows})

    def key(place: dict[str, Any]) -> tuple[Any, ...]:
        labels = None if metric == "original" else place["labels"]
        return (labels, None, None) if search == "scan" else (labels, place["bits"], place["epsilon"])

    return np.array([[own[seed, *key(place)] for place in places] for seed in seeds], dtype=np.float64)


def _stroke(metric: str, search: str) -> Stroke:
    """Return the look of a line. Each metric has a colour and a mark; scans are dashed with hollow marks."""
    family = RandomHyperplaneLSH if metric == "original" else MetricLSH
    stroke = look_of(Lane(family.name, "")).stroke
    return stroke._replace(dash=_DASHED, hollow=True) if search == "scan" else stroke
