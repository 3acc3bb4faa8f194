"""Accuracy of classification by nearest neighbours under a learned metric: figures 1 and 2 of [1]_.

References
----------
.. [1] B. Kulis, P. Jain, K. Grauman, "Fast similarity search for learned metrics", PAMI 2009.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import ClassVar

import click
import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.experiments.bench.experiment import Row
from closecall.app.experiments.bench.report import each, heading, show_table, spread
from closecall.app.experiments.bench.similar.figure import Figure, single_labels
from closecall.core.experiment.neighbours import compare_metrics
from closecall.core.experiment.queries import held_out_queries
from closecall.core.pool.pool import Pool
from closecall.core.similar.index import StructureName

SEARCHED = (0.02, 0.05)
STRUCTURES: tuple[StructureName, ...] = ("tables",)
"""Default shares of the pool to search, and default structures."""

SEARCHES = {
    "scan": "linear scan",
    "table": "hashing, one table",
    "tables": "hashing, tables",
    "orders": "hashing, orders",
    "hamming": "hashing, Hamming scan",
}


@dataclass(frozen=True)
class NeighbourVotes(Figure):
    """Measurement of k-nn accuracy under the original and the learned metric, by scan and by hashing.

    Parameters
    ----------
    draws, queries, bits
        See `Figure`.
    nearest : int
        Number of neighbours that vote.
    labels : tuple of int
        Number of items whose classes the metric is learned from, as a tuple of at most one value;
        `DEFAULT_LABELS` if the tuple is empty.
    searched : tuple of float
        Shares of the pool that hashing searches; `SEARCHED` if empty.
    structures : tuple of str
        Structures that hashing searches through; `STRUCTURES` if empty.
    """

    name: ClassVar[str] = "neighbours"

    nearest: int
    labels: tuple[int, ...]
    searched: tuple[float, ...]
    structures: tuple[StructureName, ...]

    def __post_init__(self) -> None:
        """See `Figure.__post_init__`; also raises InputError if several numbers of labels are given."""
        super().__post_init__()
        single_labels(self.labels, self.name)

    @property
    def n_labels(self) -> int:
        """Number of items whose classes the metric is learned from."""
        return single_labels(self.labels, self.name)

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Yield, for each draw, the rows of `core.experiment.neighbours.compare_metrics`.

        Raises
        ------
        InputError
            If too few items of known class are held out, or if `compare_metrics` raises it.
        """
        queries, choosing = held_out_queries(pool, self.queries, self.queries, known=True)
        about = {**self.about(pool), "k": self.nearest, "labels": self.n_labels, "bits": self.n_bits}
        for seed in range(self.draws):
            start = perf_counter()
            found = compare_metrics(
                pool,
                queries,
                choosing,
                k=self.nearest,
                n_labels=self.n_labels,
                shares=self.searched or SEARCHED,
                n_functions=self.n_bits,
                structures=self.structures or STRUCTURES,
                seed=seed,
            )
            seconds = perf_counter() - start
            yield [{**about, **row, "seconds_of_draw": seconds} for row in found]

    def show_tables(self, rows: Sequence[Row]) -> None:
        """See `Figure.show_tables`; prints a line for each metric and kind of search."""
        grouped: dict[tuple[str, str, float], list[Row]] = {}
        for row in rows:
            grouped.setdefault((row["metric"], row["search"], row["share"]), []).append(row)
        lines = []
        for (metric, search, _), own in grouped.items():
            searched, seconds, n_bytes = (
                np.mean([row[name] for row in own]) for name in ("searched", "seconds", "bytes")
            )
            lines.append(
                [
                    metric,
                    SEARCHES[search],
                    f"{100 * searched:.3g} %",
                    *(spread([row[name] for row in own]) for name in ("recall", "accuracy")),
                    f"{1000 * seconds:.3g}",
                    f"{n_bytes:.0f}",
                    *(each(row[name] for row in own) for name in ("gamma", "n_pairs", "upper")),
                ]
            )
        click.echo(heading(rows[0], "k-nn accuracy.\n"))
        head = "metric", "search", "searched", "recall", "accuracy", "ms", "bytes", "γ", "pairs", "bound"
        show_table(head, lines, n_left=2)

    def legend(self, rows: Sequence[Row]) -> str:  # noqa: ARG002
        """See `Figure.legend`."""
        return (
            f"accuracy: share of {self.queries:,} held-out queries whose {self.nearest} nearest items vote "
            f"for the right class; mean and standard deviation over {counted(self.draws, 'draw')} of "
            "labels and of "
            "random vectors. searched: share of the pool whose features were compared. recall: share of the "
            f"{self.nearest} nearest by the same metric that were found. ms: processor time of a query. "
            "bytes: per item, of its features or of codes and structure. The metric is learned from the "
            f"classes of {self.n_labels:,} items; γ, the number of pairs and, unless it is a percentile, the "
            "bound of similar pairs are chosen on as many other queries."
        )
