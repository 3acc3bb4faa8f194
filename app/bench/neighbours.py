"""How accurate the nearest neighbours are by a learned metric, and how much of a pool hashing searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import click
import numpy as np
from threadpoolctl import threadpool_limits

from app.bench.similar import each, spread
from core.experiment.neighbours import compare_metrics, labeled_queries
from core.pool import Pool

LEGEND = (
    "accuracy: the share of {queries:,} held-out queries whose {k} nearest items vote for the right class; "
    "mean and standard deviation over {draws} draws of labels and of random vectors. searched: the share of "
    "the pool whose features were compared. The metric is learned from the classes of {labels:,} items; γ "
    "and the number of pairs are chosen on {choosing:,} other queries."
)

SEARCHES = {"scan": "linear scan", "tables": "hashing, tables"}

Row = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What is measured, and how.

    Parameters
    ----------
    draws : int
        Seeds 0 … draws − 1, for labels and random vectors.
    n_queries, n_choosing : int
        Held-out items to measure with, and to choose by how the metric is learned.
    k : int
        Neighbours that vote.
    n_labels : int
        Items whose classes the metric is learned from.
    shares : sequence of float
        Of the pool, that hashing searches.
    n_functions : int
        Bits a code.
    """

    draws: int
    n_queries: int
    n_choosing: int
    k: int
    n_labels: int
    shares: Sequence[float]
    n_functions: int


def measure_neighbours(pool: Pool, plan: Plan, done: Callable[[Row], None]) -> list[Row]:
    """Figures 1 and 2 of "Fast Similarity Search for Learned Metrics" on this pool.

    Returns
    -------
    list of dict
        A row for each draw, metric and search, see `core.experiment.neighbours.compare_metrics`; `done` is
        given each as soon as there is one.

    Raises
    ------
    InputError
        If too few items of known class are held out; and as `compare_metrics`.
    """
    queries, choosing = labeled_queries(pool, plan.n_queries, plan.n_choosing)
    rows = []
    with threadpool_limits(1, user_api="blas"):
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
                seed=seed,
            )
            seconds = perf_counter() - start
            for row in found:
                rows.append(
                    {
                        "figure": "neighbours",
                        "data": pool.path.resolve().name,
                        "items": len(pool),
                        "dim": pool.n_features,
                        "queries": plan.n_queries,
                        "k": plan.k,
                        "labels": plan.n_labels,
                        "bits": plan.n_functions,
                        **row,
                        "seconds_of_draw": seconds,
                    }
                )
                done(rows[-1])
    return rows


def show_neighbours(rows: Sequence[Row], plan: Plan) -> None:
    """Print what the draws have on average, a line a metric and search."""
    first = rows[0]
    click.echo(f"\n{first['data']}, {first['items']:,} × {first['dim']}: k-nn accuracy.\n")
    click.echo(f"{'metric':<11}{'search':<18}{'searched':>10}{'accuracy':>15}  γ; pairs")
    for metric, search, share in dict.fromkeys(map(_way, rows)):
        same = [row for row in rows if _way(row) == (metric, search, share)]
        accuracies = np.array([row["accuracy"] for row in same])
        searched = 100 * np.mean([row["searched"] for row in same])
        click.echo(
            f"{metric:<11}{SEARCHES[search]:<18}{searched:>8.3g} %{spread(100 * accuracies):>15}  "
            f"{each(row['gamma'] for row in same)}; {each(row['n_pairs'] for row in same)}"
        )
    told = {
        "queries": plan.n_queries,
        "choosing": plan.n_choosing,
        "k": plan.k,
        "draws": plan.draws,
        "labels": plan.n_labels,
    }
    click.echo(f"\n{LEGEND.format(**told)}")


def _way(row: Row) -> tuple[str, str, float]:
    return row["metric"], row["search"], row["share"]
