"""The (r, ε) guarantee of bucket tables on a pool, compared with the measured success rate.

If there is an item within the angle r of a query, the tables find an item within (1 + ε) r with at least the
guaranteed probability (`core.experiment.guarantee`). The probability is over random draws of the hash
functions. Tables are therefore built several times with different functions, and the confidence interval
takes the variation between draws into account. The results also compare the number of tables that the
guarantee needs with the number that fits into memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import radians

import click
import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.display.strategy_labels import FAMILY_LABELS, LABELS
from closecall.app.experiments.bench.experiment import Experiment, Row, about
from closecall.app.experiments.bench.report import heading, show_table
from closecall.app.experiments.bench.statistics import share_over_draws
from closecall.core.errors import InputError
from closecall.core.experiment.guarantee import HYPERPLANES, LSH, Tried, try_hyperplanes, try_items
from closecall.core.experiment.planes import one_vs_all
from closecall.core.experiment.queries import held_out_queries
from closecall.core.pool.pool import Pool

FAMILIES = ("h-hash", "bh-hash", LSH)
"""Default families. EH-Hash is not among them because it takes long on large pools."""

HEAD = (
    "family",
    "r",
    "ε",
    "ρ",
    "k",
    "l needed",
    "l built",
    "MB",
    "guaranteed",
    "queries",
    "success",
    "95 %",
    "nearest",
    "expected",
    "scored",
)


@dataclass(frozen=True)
class Guarantees(Experiment[Pool]):
    """An experiment that queries bucket tables, and counts how often their (r, ε) guarantee holds.

    Depending on the hash family, queries are hyperplanes or held-out items.

    Parameters
    ----------
    families : tuple of str
        Names of hash families; `FAMILIES` if empty.
    radii : tuple of float
        Values of r, in degrees.
    epsilon : float
        ε: if an item is within r of the query, an item within (1 + ε) r should be found.
    megabytes : int
        Maximum memory for tables, codes and functions, in 10⁶ bytes.
    queries : int
        Number of queries.
    draws : int
        Number of draws of the hash functions.
    seed : int
        Seed of queries and functions.
    """

    families: tuple[str, ...]
    radii: tuple[float, ...]
    epsilon: float
    megabytes: int
    queries: int
    draws: int
    seed: int

    def __post_init__(self) -> None:
        """Check r and ε.

        Raises
        ------
        InputError
            If r or ε is out of range for a family.
        """
        for name, radius in product(self.families or FAMILIES, self.radii):
            most = 90 if name in HYPERPLANES else 180
            if not 0 < radius < (1 + self.epsilon) * radius < most:
                raise InputError(
                    f"--radius r and --epsilon ε must satisfy 0 < r < (1 + ε) r < {most}° "
                    f"for {_label(name)}, got r = {radius:g}° and ε = {self.epsilon:g}"
                )

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Yield, for each family, a list with one row per radius.

        Raises
        ------
        InputError
            If a family does not apply to the pool, or if there are too few classes or held-out items.
        """
        for name in self.families or FAMILIES:
            attempt = self._try(pool, name)
            yield [self._row(pool, name, radius, attempt) for radius in self.radii]

    def _row(self, pool: Pool, name: str, degrees: float, attempt: Callable[[float, int], Tried]) -> Row:
        label = f"{_label(name)}, {degrees:g}°"
        with click.progressbar(range(self.draws), label=label, show_pos=True) as bar:
            tried = [attempt(radians(degrees), self.seed + draw) for draw in bar]
        first = tried[0]
        meets = first.nearest <= radians(degrees)
        success, found = (
            np.array([getattr(one, what)[meets] for one in tried]) for what in ("success", "found")
        )
        share, low, high = share_over_draws(success)
        return {
            **about(pool),
            "family": name,
            "radius_degrees": degrees,
            "epsilon": self.epsilon,
            "rho": first.needed.rho,
            "width": first.built.width,
            "tables_needed": first.needed.n_tables,
            "guarantee_needed": first.needed.success,
            "megabytes": self.megabytes,
            "bytes": first.n_bytes,
            "tables": first.built.n_tables,
            "functions": first.built.n_functions,
            "guarantee": first.built.success,
            "queries": self.queries,
            "queries_within": int(meets.sum()),
            "draws": self.draws,
            "success": share,
            "success_low": low,
            "success_high": high,
            "nearest_found": float(found.mean()) if meets.any() else None,
            "nearest_expected": float(first.expected[meets].mean()) if meets.any() else None,
            "scored": float(np.mean([one.candidates.mean() for one in tried])),
            "nearest_degrees": float(np.degrees(np.median(first.nearest))),
        }

    def _try(self, pool: Pool, name: str) -> Callable[[float, int], Tried]:
        """Return a function that builds and queries tables of a family.

        The function takes r in radians and the seed of a draw.
        """
        if name in HYPERPLANES:
            planes = one_vs_all(pool, self.queries, seed=self.seed)
            return lambda radius, seed: try_hyperplanes(
                pool,
                name,
                planes,
                radius=radius,
                epsilon=self.epsilon,
                megabytes=self.megabytes,
                seed=seed,
            )
        queries, _ = held_out_queries(pool, self.queries, 0, seed=self.seed)
        return lambda radius, seed: try_items(
            pool, queries.X, radius=radius, epsilon=self.epsilon, megabytes=self.megabytes, seed=seed
        )

    def show(self, rows: Sequence[Row]) -> None:
        """Print the rows of one family."""
        kind = "hyperplanes" if rows[0]["family"] in HYPERPLANES else "held-out items"
        nearest = f"{rows[0]['nearest_degrees']:.2g}° (median)"
        click.echo(heading(rows[0], f"{rows[0]['queries']:,} {kind}, the nearest item at {nearest}."))
        show_table(HEAD, [_cells(row) for row in rows])

    def conclude(self, rows: Sequence[Row]) -> None:  # noqa: ARG002
        """Explain the columns."""
        least = 100 * (1 - 1 / math.e)
        click.echo(
            f"\nρ: exponent of the rule. l needed: tables that a guarantee of at least {least:.0f} % takes. "
            "k, l built: functions in a key, and tables without a common function within "
            f"{self.megabytes:,} MB; a key that is cut to 32 bits needs fewer tables. guaranteed: least "
            "probability that these find an item within (1 + ε) r. queries: those with an item within r, the "
            "condition. success: share "
            "of them for which an item within (1 + ε) r was in the query's buckets, over "
            f"{counted(self.draws, 'draw')} of functions, with the wider of the intervals over draws and "
            "over trials. "
            "nearest, expected: how often the nearest item was, and how often theory expects that. scored: "
            "items in the query's buckets."
        )


def _label(name: str) -> str:
    return LABELS.get(name) or FAMILY_LABELS.get(name, name)


def _cells(row: Row) -> tuple[str, ...]:
    """Return the table's cells for one row."""
    return (
        _label(row["family"]),
        f"{row['radius_degrees']:g}°",
        f"{row['epsilon']:g}",
        f"{row['rho']:.3f}",
        f"{row['width']}",
        f"{row['tables_needed']:,}",
        f"{row['tables']:,}",
        f"{row['bytes'] / 1e6:,.0f}",
        _percent(row["guarantee"]),
        f"{row['queries_within']:,}",
        _percent(row["success"]),
        "–" if row["success"] is None else f"{_percent(row['success_low'])}–{_percent(row['success_high'])}",
        _percent(row["nearest_found"]),
        _percent(row["nearest_expected"]),
        f"{row['scored']:,.0f}",
    )


def _percent(share: float | None) -> str:
    """Return a share in percent as text, with two or three digits; "–" for None."""
    if share is None:
        return "–"
    return f"{100 * share:.1f}" if share > 0.1 else f"{100 * share:.2g}"
