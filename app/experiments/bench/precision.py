"""How many of the items that codes retrieve are of the query's class, by hash family and length of code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click
import numpy as np

from closecall.app.experiments.bench.draws import Row, heading, row_of, spread
from closecall.app.experiments.compare.similar.names import lane_label
from closecall.app.experiments.compare.similar.results import Lane
from closecall.core.experiment.neighbours import labeled_queries
from closecall.core.experiment.precision import compare_precision, draw_labeled
from closecall.core.numerics.blas import one_thread
from closecall.core.pool.pool import Pool

LEGEND = (
    "Of {queries:,} held-out queries, in percent; mean and standard deviation over {draws} draws of "
    "{labels:,} labels and of whatever else is random. Families are fitted to {sample:,} rows; kernelized "
    "ones have {landmarks:,} landmarks, supervised ones 300 at most. Rank and scale are chosen on "
    "as many other queries."
)


@dataclass(frozen=True)
class Plan:
    """What is measured, and how.

    Parameters
    ----------
    families : sequence of str
        Names in `core.hashing.FAMILIES`.
    draws : int
        Seeds 0 … draws − 1, for labels and whatever families draw.
    n_queries : int
        Held-out items to measure with, and as many others to choose rank and scale by.
    bits, retrieved : sequence of int
        Functions a code, and of how many first items precision is.
    n_labels, n_sample : int
        Items of known class, and items in all, that families are fitted to.
    kernel : str
        Of kernelized LSH.
    n_landmarks : int
        m.
    """

    families: Sequence[str]
    draws: int
    n_queries: int
    bits: Sequence[int]
    retrieved: Sequence[int]
    n_labels: int
    n_sample: int
    kernel: str
    n_landmarks: int


def measure_precision(pool: Pool, plan: Plan, done: Callable[[Row], None]) -> dict[str, str]:
    """Precision by class over lengths of code, as in the papers on supervised codes.

    `done` is given a row for each draw, form and length, see `core.experiment.precision.Precisions`, as soon
    as there is one.

    Returns
    -------
    dict
        Why a family does not apply, by its name.

    Raises
    ------
    InputError
        If too few items of known class are held out; and as `core.experiment.precision`.
    """
    queries, choosing = labeled_queries(pool, plan.n_queries, plan.n_queries)
    words = row_of(
        pool,
        "precision",
        queries=plan.n_queries,
        labels=plan.n_labels,
        kernel=plan.kernel,
        landmarks=plan.n_landmarks,
    )
    refused: dict[str, str] = {}
    with one_thread():
        for seed in range(plan.draws):
            draw = draw_labeled(
                pool,
                choosing.X,
                n_labels=plan.n_labels,
                n_sample=plan.n_sample,
                kernel=plan.kernel,
                n_landmarks=plan.n_landmarks,
                seed=seed,
            )
            found = compare_precision(
                pool,
                queries,
                draw,
                plan.families,
                bits=plan.bits,
                retrieved=plan.retrieved,
                done=lambda row: done({**words, **row}),
            )
            refused |= found.refused
    return refused


def show_precision(rows: Sequence[Row], refused: dict[str, str], plan: Plan) -> None:
    """Print what the draws have on average: a table a number, a line a form, a column a length of code."""
    first = rows[0]
    click.echo(heading(first, "of the query's class."))
    lanes = list(dict.fromkeys((row["family"], row["form"]) for row in rows))
    width = 2 + max(len(lane_label(Lane(*lane))) for lane in lanes)
    titles = [f"precision of the first {k:,}" for k in plan.retrieved] + ["mean average precision"]
    for number, title in enumerate(titles):
        click.echo(f"\n{title}")
        click.echo(f"{'bits':<{width}}{''.join(f'{n:>13}' for n in plan.bits)}")
        for lane in lanes:
            cells = ""
            for n in plan.bits:
                same = [row for row in rows if (row["family"], row["form"], row["bits"]) == (*lane, n)]
                values = [[*row["precision"], row["average_precision"]][number] for row in same]
                cells += f"{spread(100 * np.array(values)):>13}"
            click.echo(f"{lane_label(Lane(*lane)):<{width}}{cells}")
    for name, why in refused.items():
        click.echo(f"\nWithout {lane_label(Lane(name, ''))}: {why}.")
    told = {
        "queries": plan.n_queries,
        "draws": plan.draws,
        "labels": plan.n_labels,
        "sample": min(plan.n_sample, first["items"]),
        "landmarks": plan.n_landmarks,
    }
    click.echo(f"\n{LEGEND.format(**told)}")
