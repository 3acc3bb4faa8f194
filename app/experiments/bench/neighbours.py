"""How accurate the nearest neighbours are by a learned metric, and how much of a pool hashing searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import click
import numpy as np

from closecall.app.experiments.bench.draws import Row, each, heading, row_of, spread
from closecall.core.experiment.neighbours import compare_metrics, labeled_queries
from closecall.core.numerics.blas import one_thread
from closecall.core.pool.pool import Pool
from closecall.core.similar.index import StructureName

LEGEND = (
    "accuracy: the share of {queries:,} held-out queries whose {k} nearest items vote for the right class; "
    "mean and standard deviation over {draws} draws of labels and of random vectors. searched: the share of "
    "the pool whose features were compared. recall: the share of the {k} nearest by the same metric that "
    "were found. ms: processor time of a query. bytes: an item’s, of its features or of codes and structure. "
    "The metric is learned from the classes of {labels:,} items; γ, the number of pairs and, where it is no "
    "percentile, the bound of similar ones are chosen on as many other queries."
)

SEARCHES = {
    "scan": "linear scan",
    "table": "hashing, one table",
    "tables": "hashing, tables",
    "orders": "hashing, orders",
    "hamming": "hashing, Hamming scan",
}


@dataclass(frozen=True)
class Plan:
    """What is measured, and how.

    Parameters
    ----------
    draws : int
        Seeds 0 … draws − 1, for labels and random vectors.
    n_queries : int
        Held-out items to measure with, and as many others to choose by how the metric is learned.
    k : int
        Neighbours that vote.
    n_labels : int
        Items whose classes the metric is learned from.
    shares : sequence of float
        Of the pool, that hashing searches.
    n_functions : int
        Bits a code.
    structures : sequence of str
        Through which hashing searches.
    """

    draws: int
    n_queries: int
    k: int
    n_labels: int
    shares: Sequence[float]
    n_functions: int
    structures: Sequence[StructureName] = ("tables",)


def measure_neighbours(pool: Pool, plan: Plan, done: Callable[[Row], None]) -> None:
    """Figures 1 and 2 of "Fast Similarity Search for Learned Metrics" on this pool.

    `done` is given a row for each draw, metric and search, see `core.experiment.neighbours.compare_metrics`,
    as soon as there is one.

    Raises
    ------
    InputError
        If too few items of known class are held out; and as `compare_metrics`.
    """
    queries, choosing = labeled_queries(pool, plan.n_queries, plan.n_queries)
    words = row_of(
        pool, "neighbours", queries=plan.n_queries, k=plan.k, labels=plan.n_labels, bits=plan.n_functions
    )
    with one_thread():
        for seed in range(plan.draws):
            start = perf_counter()
            found = compare_metrics(
                pool,
                queries,
                choosing,
                k=plan.k,
                n_labels=plan.n_labels,
                shares=plan.shares,
                n_functions=plan.n_functions,
                structures=plan.structures,
                seed=seed,
            )
            seconds = perf_counter() - start
            for row in found:
                done({**words, **row, "seconds_of_draw": seconds})


def show_neighbours(rows: Sequence[Row], plan: Plan) -> None:
    """Print what the draws have on average, a line a metric and search."""
    click.echo(heading(rows[0], "k-nn accuracy.\n"))
    click.echo(
        f"{'metric':<18}{'search':<24}{'searched':>10}{'recall':>15}{'accuracy':>15}{'ms':>8}{'bytes':>8}"
        "  γ; pairs; bound"
    )
    for metric, search, share in dict.fromkeys(map(_way, rows)):
        same = [row for row in rows if _way(row) == (metric, search, share)]
        recalls, accuracies = (100 * np.array([row[name] for row in same]) for name in ("recall", "accuracy"))
        searched, seconds, n_bytes = (
            np.mean([row[name] for row in same]) for name in ("searched", "seconds", "bytes")
        )
        chosen = "; ".join(each(row[name] for row in same) for name in ("gamma", "n_pairs", "upper"))
        click.echo(
            f"{metric:<18}{SEARCHES[search]:<24}{100 * searched:>8.3g} %{spread(recalls):>15}"
            f"{spread(accuracies):>15}{1000 * seconds:>8.3g}{n_bytes:>8.0f}  {chosen}"
        )
    told = {
        "queries": plan.n_queries,
        "k": plan.k,
        "draws": plan.draws,
        "labels": plan.n_labels,
    }
    click.echo(f"\n{LEGEND.format(**told)}")


def _way(row: Row) -> tuple[str, str, float]:
    return row["metric"], row["search"], row["share"]
