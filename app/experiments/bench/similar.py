"""How well binary codes find what is similar: the figures of the papers, rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import click
import numpy as np

from closecall.app.experiments.bench.draws import Row, each, heading, row_of, spread
from closecall.core.experiment.kernelized import compare_forms, nearest, queries_of
from closecall.core.mercer import kernel_from
from closecall.core.numerics.blas import one_thread
from closecall.core.pool.pool import Pool

LEGEND = (
    "recall: the share of {queries:,} held-out queries whose nearest item by the kernel is among the "
    "{R:,.0f} items ({share:g} % of the pool) whose {bits} bits differ least; mean and standard deviation "
    "over {draws} draws of {landmarks:,} landmarks and of the vectors. gain: over the original, in points. "
    "Rank and scale are chosen on as many other queries."
)

NAMES = {
    "plain": "KLSH",
    "low_rank": "low rank",
    "transformed": "low rank, transformed",
    "both": "and the rank again",
    "kpca": "KPCA+LSH, low rank",
    "nystrom_low_rank": "Nyström, low rank",
    "nystrom": "Nyström",
}


@dataclass(frozen=True)
class Plan:
    """What is measured, and how.

    Parameters
    ----------
    kernels : sequence of str
        See `core.mercer.kernel.kernel_from`.
    draws : int
        Seeds 0 … draws − 1, for landmarks and vectors.
    n_queries : int
        Held-out items to measure with, and as many others to choose rank and scale by.
    share : float
        R as a share of the pool.
    n_landmarks, n_functions : int
        m, and bits a code.
    """

    kernels: Sequence[str]
    draws: int
    n_queries: int
    share: float
    n_landmarks: int
    n_functions: int


def measure_kernelized(pool: Pool, plan: Plan, done: Callable[[Row], None]) -> None:
    """Table 1 of "Revisiting Kernelized LSH" on this pool: see `core.experiment.kernelized.compare_forms`.

    `done` is given a row for each kernel, draw and form, as soon as there is one.

    Raises
    ------
    InputError
        If there is no such kernel, it does not apply to the pool's features, or too few items are held out.
    """
    kernels = [kernel_from(word) for word in plan.kernels]
    Q, choosing = queries_of(pool, plan.n_queries, plan.n_queries)
    words = row_of(
        pool, "kernelized", queries=plan.n_queries, landmarks=plan.n_landmarks, bits=plan.n_functions
    )
    with one_thread():
        for kernel in kernels:
            neighbours, _ = nearest(kernel, pool.blocks(), Q)
            for seed in range(plan.draws):
                start = perf_counter()
                found = compare_forms(
                    pool,
                    kernel,
                    Q,
                    choosing,
                    neighbours,
                    share=plan.share,
                    seed=seed,
                    n_landmarks=plan.n_landmarks,
                    n_functions=plan.n_functions,
                )
                seconds = perf_counter() - start
                for row in found:
                    done({**words, **row, "seconds_of_draw": seconds})


def show_kernelized(rows: Sequence[Row], plan: Plan) -> None:
    """Print what the draws have on average, a line a form."""
    first = rows[0]
    click.echo(heading(first, "recall of the nearest item.\n"))
    click.echo(f"{'kernel':<14}{'seen from':<11}{'form':<23}{'recall':>15}{'gain':>15}  ranks; scales")
    for kernel in dict.fromkeys(row["kernel"] for row in rows):
        for centred in (False, True):
            same = [row for row in rows if (row["kernel"], row["centred"]) == (kernel, centred)]
            plain = np.array([row["recall"] for row in same if row["form"] == "plain"])
            for name, words in NAMES.items():
                of_form = [row for row in same if row["form"] == name]
                recall = np.array([row["recall"] for row in of_form])
                click.echo(
                    f"{kernel:<14}{'mean' if centred else 'origin':<11}{words:<23}"
                    f"{spread(100 * recall):>15}{spread(100 * (recall - plain)):>15}  "
                    f"{each(row['rank'] for row in of_form)}; {each(row['scale'] for row in of_form)}"
                )
    told = {
        "queries": plan.n_queries,
        "R": first["R"],
        "share": 100 * plan.share,
        "bits": plan.n_functions,
        "draws": plan.draws,
        "landmarks": plan.n_landmarks,
    }
    click.echo(f"\n{LEGEND.format(**told)}")
