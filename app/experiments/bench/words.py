"""Time of a search by words after the words have been encoded, compared with a bare matrix–vector product.

A search by words (`app.sessions.word_search`) ranks all items by their angle to a direction. The directions
here are the features of held-out items, because encoding is not measured. Search and product are timed one
after the other for each direction, in turns as to which comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import click
import numpy as np
from numpy.typing import NDArray

from closecall.app.experiments.bench.experiment import Experiment, Row, about
from closecall.app.experiments.bench.outcome import spread
from closecall.app.experiments.bench.report import heading, show_table
from closecall.app.experiments.bench.subsample import pool_product
from closecall.app.sessions.word_search import MOST, nearest
from closecall.core.errors import InputError
from closecall.core.experiment.queries import held_out_queries
from closecall.core.pool.pool import Pool

WARM_UP = 3
"""Number of directions before timing starts."""


@dataclass(frozen=True)
class WordSearch(Experiment[Pool]):
    """An experiment that times searches by words, as the page Find makes them.

    Parameters
    ----------
    queries : int
        Number of directions.
    threads : int
        Number of threads that BLAS may use.
    """

    queries: int
    threads: int = field()  # no default: `Experiment` has an attribute of that name

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Yield two rows: for the search, and for the product.

        Raises
        ------
        InputError
            If the pool's features are sparse, or it holds out too few items.
        """
        if pool.is_sparse:
            raise InputError("a search by words needs dense features, and those of the pool are sparse")
        queries, warm_up = held_out_queries(pool, self.queries, WARM_UP)
        directions = [np.asarray(w, dtype=np.float32) for w in (*warm_up.X, *queries.X)]
        scores = np.full(len(pool), 0, dtype=np.float32)
        ways: dict[str, Callable[[NDArray[np.float32]], object]] = {
            "search": lambda w: nearest(pool, w),
            "blas-scan": lambda w: pool_product(pool, w, scores),
        }
        took: dict[str, list[float]] = {name: [] for name in ways}
        for number, w in enumerate(directions):
            for name in list(ways)[:: -1 if number % 2 else 1]:
                began = perf_counter()
                ways[name](w)
                if number >= WARM_UP:
                    took[name].append(1000 * (perf_counter() - began))
        facts = {**about(pool), "queries": self.queries, "found": min(MOST, len(pool))}
        ratio = {"search": _ratio(took["search"], took["blas-scan"]), "blas-scan": 1.0}
        yield [{**facts, "way": name, **spread(ms), "ratio": ratio[name]} for name, ms in took.items()]

    def show(self, rows: Sequence[Row]) -> None:
        """Print the rows as a table."""
        first = rows[0]
        click.echo(
            heading(
                first, f"the {first['found']:,} items nearest to each of {first['queries']:,} directions."
            )
        )
        show_table(["way", "ms", "p95", "of scan"], map(_cells, rows))


def _ratio(search: Sequence[float], scan: Sequence[float]) -> float:
    """Return the median ratio of the times of a search and a scan for the same direction."""
    return float(np.median(np.divide(search, scan)))


def _cells(row: Row) -> list[str]:
    return [row["way"], f"{row['median_ms']:.2f}", f"{row['p95_ms']:.2f}", f"{row['ratio']:.2f}"]
