"""What binary codes find, by their length and by how many items are retrieved: the survey's figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click
import numpy as np

from closecall.app.experiments.bench.draws import Row, heading, row_of, spread
from closecall.app.experiments.compare.similar.names import lane_label
from closecall.app.experiments.compare.similar.results import Lane
from closecall.core.errors import InputError
from closecall.core.experiment.families import Draw
from closecall.core.experiment.kernelized import held_out_queries
from closecall.core.experiment.similarity import Queries, Truths
from closecall.core.experiment.survey import found_by_codes, lengths, numbers_retrieved
from closecall.core.numerics.blas import one_thread
from closecall.core.pool.pool import Pool

AMONG = 500
"""Against bits is told what is found among so many, as in the survey's figure 11 (b)."""

TOLD = 32
"""Against items retrieved is told what so many bits find, as in its figure 11 (a); or all, if fewer."""

LEGEND = (
    "The share of the {neighbours} nearest items by Euclidean distance that is among those whose codes "
    "differ least, in percent, of {queries:,} held-out queries; mean and standard deviation over {draws} "
    "draws."
)


@dataclass(frozen=True)
class Plan:
    """What is measured, and how.

    Parameters
    ----------
    families : sequence of str
        Names in `core.hashing.FAMILIES`.
    draws : int
        Seeds 0 … draws − 1, for whatever is random, and the rows that families are fitted to.
    n_queries : int
        Held-out items to search for, and as many others to choose ranks and scales by.
    n_neighbours : int
        How many of the nearest are to be found.
    n_functions : int
        Bits of the longest code.
    kernel : str
        Of kernelized families.
    n_landmarks : int
        m of these.
    share : float
        R of the recall by which ranks and scales are chosen, as a share of the pool.
    """

    families: Sequence[str]
    draws: int
    n_queries: int
    n_neighbours: int
    n_functions: int
    kernel: str
    n_landmarks: int
    share: float


def measure_survey(pool: Pool, plan: Plan, done: Callable[[Row], None]) -> dict[str, str]:
    """Figures 11 and 15 of "Learning Binary Hash Codes for Large-Scale Image Search" on this pool.

    `done` is given a row for each draw, family, form and length of code, see
    `core.experiment.survey.found_by_codes`, as soon as there is one.

    Returns
    -------
    dict
        Why a family or a form of it does not apply.

    Raises
    ------
    InputError
        If there is no such family, too few items are held out, the pool has fewer items than neighbours are
        to be found, or no family applies.
    """
    if len(pool) < plan.n_neighbours:
        raise InputError(
            f"{plan.n_neighbours} neighbours are to be found, and the pool {pool.path} has {len(pool)} items"
        )
    places, choosing = held_out_queries(pool, plan.n_queries, plan.n_queries)
    X, truth = pool.held_out.X, pool.held_out.truth
    truths = Truths(pool, Queries(X[places], truth[places]), plan.n_neighbours, 1)
    retrieved = sorted({*numbers_retrieved(plan.n_neighbours, len(pool)), min(AMONG, len(pool))})
    words = row_of(pool, "survey", queries=plan.n_queries, neighbours=plan.n_neighbours)
    n_rows, refused = 0, dict[str, str]()
    with one_thread():
        for seed in range(plan.draws):
            draw = Draw.of(
                pool,
                X[choosing],
                kernel=plan.kernel,
                n_landmarks=plan.n_landmarks,
                share=plan.share,
                seed=seed,
            )
            for name in plan.families:
                found, why = found_by_codes(
                    name, draw, truths, bits=lengths(plan.n_functions), retrieved=retrieved
                )
                refused |= why
                n_rows += len(found)
                for row in found:
                    done({**words, **row})
    if not n_rows:
        raise InputError(f"no family applies to the pool {pool.path}: {'; '.join(refused.values())}")
    return refused


def show_survey(rows: Sequence[Row], refused: dict[str, str], plan: Plan) -> None:
    """Print what the draws have on average, a line a family and form: against bits, and against items."""
    first = rows[0]
    among = min(AMONG, first["items"])
    bits = min(TOLD, plan.n_functions)
    numbers = [n for n in first["retrieved"] if n < first["items"]]
    click.echo(heading(first, f"found among {among:,}, by bits.\n"))
    _table(rows, [(n, among) for n in lengths(plan.n_functions)], lengths(plan.n_functions))
    click.echo(f"\nFound by {bits} bits, among so many:\n")
    _table(rows, [(bits, n) for n in numbers], numbers)
    for what, why in refused.items():
        click.echo(f"\n{what} does not apply: {why}.")
    said = LEGEND.format(neighbours=plan.n_neighbours, queries=plan.n_queries, draws=plan.draws)
    click.echo(f"\n{said}")


def _table(rows: Sequence[Row], columns: Sequence[tuple[int, int]], heads: Sequence[int]) -> None:
    """A column for each number of bits and of items retrieved."""
    click.echo(f"{'family':<32}" + "".join(f"{n:>13,}" for n in heads))
    for lane in dict.fromkeys(Lane(row["family"], row["form"]) for row in rows):
        of_lane = [row for row in rows if (row["family"], row["form"]) == lane]
        cells = []
        for bits, retrieved in columns:
            found = [
                row["found"][row["retrieved"].index(retrieved)] for row in of_lane if row["bits"] == bits
            ]
            cells.append(spread(100 * np.array(found)) if found else "–")
        click.echo(f"{lane_label(lane):<32}" + "".join(f"{cell:>13}" for cell in cells))
