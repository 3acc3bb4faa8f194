"""How well binary codes find what is similar: the figures of the papers, rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import click
import numpy as np
from threadpoolctl import threadpool_limits

from core.experiment.kernelized import compare_forms, nearest, queries_of
from core.mercer import kernel_from
from core.pool import Pool

LEGEND = (
    "recall: the share of {queries:,} held-out queries whose nearest item by the kernel is among the "
    "{R:,.0f} items ({share:g} % of the pool) whose {bits} bits differ least; mean and standard deviation "
    "over {draws} draws of {landmarks:,} landmarks and of the vectors. gain: over the original, in points. "
    "Rank and scale are chosen on {choosing:,} other queries."
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

Row = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What is measured, and how.

    Parameters
    ----------
    kernels : sequence of str
        See `core.mercer.kernel.kernel_from`.
    draws : int
        Seeds 0 … draws − 1, for landmarks and vectors.
    n_queries, n_choosing : int
        Held-out items to measure with, and to choose rank and scale by.
    share : float
        R as a share of the pool.
    n_landmarks, n_functions : int
        m, and bits a code.
    """

    kernels: Sequence[str]
    draws: int
    n_queries: int
    n_choosing: int
    share: float
    n_landmarks: int
    n_functions: int


def measure_kernelized(pool: Pool, plan: Plan, done: Callable[[Row], None]) -> list[Row]:
    """Table 1 of "Revisiting Kernelized LSH" on this pool: see `core.experiment.kernelized.compare_forms`.

    Returns
    -------
    list of dict
        One row a kernel, draw and form; `done` is given each as soon as there is one.

    Raises
    ------
    InputError
        If there is no such kernel, it does not apply to the pool's features, or too few items are held out.
    """
    kernels = [kernel_from(word) for word in plan.kernels]
    Q, choosing = queries_of(pool, plan.n_queries, plan.n_choosing)
    rows = []
    with threadpool_limits(1, user_api="blas"):
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
                    rows.append(
                        {
                            "figure": "kernelized",
                            "data": pool.path.resolve().name,
                            "items": len(pool),
                            "dim": pool.n_features,
                            "queries": plan.n_queries,
                            "landmarks": plan.n_landmarks,
                            "bits": plan.n_functions,
                            **row,
                            "seconds_of_draw": seconds,
                        }
                    )
                    done(rows[-1])
    return rows


def show_kernelized(rows: Sequence[Row], plan: Plan) -> None:
    """Print what the draws have on average, a line a form."""
    first = rows[0]
    click.echo(f"\n{first['data']}, {first['items']:,} × {first['dim']}: recall of the nearest item.\n")
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
        "choosing": plan.n_choosing,
        "R": first["R"],
        "share": 100 * plan.share,
        "bits": plan.n_functions,
        "draws": plan.draws,
        "landmarks": plan.n_landmarks,
    }
    click.echo(f"\n{LEGEND.format(**told)}")


def spread(values: np.ndarray) -> str:
    """Mean ± standard deviation, if there are several values."""
    spread = f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else ""
    return f"{values.mean():.1f}{spread}"


def each(values: Any) -> str:
    """All values, – for those that are None."""
    return " ".join("–" if value is None else f"{value:g}" for value in values)
