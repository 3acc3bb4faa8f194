"""Share of the true neighbours that codes find: figures 11 and 15 of the survey [1]_.

Items are ordered by the Hamming distance of their codes from the query's code (`core.experiment.retrieval`).
The measure is the share of the query's true neighbours that are among the first items. It is shown against
the number of first items, and against the code length.

**True neighbours** are the nearest items by Euclidean distance between features, even for families that are
made for other distances. Figure 15 of the survey uses the same definition. In figure 11 of the survey, true
neighbours are images with similar histograms of the objects that people outlined. Pools have no such
histograms.
``closecall bench similar --what precision`` counts items of the query's class instead.

References
----------
.. [1] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, ClassVar

import click

from closecall.app.display.phrases import counted
from closecall.app.experiments.bench.experiment import Row
from closecall.app.experiments.bench.report import heading
from closecall.app.experiments.bench.similar.figure import FamilyFigure
from closecall.core.errors import InputError
from closecall.core.experiment.families import Draw
from closecall.core.experiment.similarity import Truths, measure_family
from closecall.core.pool.pool import Pool

AMONG = 500
"""Number of retrieved items in the table by bits, as in figure 11 (b) of the survey."""

SHOWN_BITS = 32
"""Number of bits in the table by retrieved items, as in figure 11 (a) of the survey.

If all codes are shorter, the table is about the longest ones.
"""

LEAST_BITS = 8

_STEPS = (1, 2, 5)


@dataclass(frozen=True)
class Survey(FamilyFigure):
    """Measurement of the share of the true neighbours that each family finds, by bits and retrieved items.

    Parameters
    ----------
    draws, queries, families, kernels, landmarks
        See `FamilyFigure`.
    bits : tuple of int
        Length of the longest codes in bits, as a tuple of one value; an empty tuple means the default.
    wanted : int
        Number of true neighbours per query.
    share : float
        Share of the pool. For kernelized families, rank and scale are chosen by recall@R, where R is this
        share.
    """

    name: ClassVar[str] = "survey"

    wanted: int
    share: float

    @property
    def n_neighbours(self) -> int:
        """See `FamilyFigure.n_neighbours`."""
        return self.wanted

    @property
    def sampling(self) -> dict[str, Any]:
        """See `FamilyFigure.sampling`."""
        return {"share": self.share}

    def about(self, pool: Pool) -> Row:
        """See `Figure.about`."""
        return {**super().about(pool), "neighbours": self.wanted}

    def check(self, pool: Pool) -> None:
        """See `FamilyFigure.check`."""
        if len(pool) < self.wanted:
            raise InputError(
                f"{self.wanted} neighbours are to be found, and the pool {pool.path} has {len(pool)} items"
            )

    def measure_family(self, name: str, draw: Draw, truths: Truths) -> list[Row]:
        """Return a row for each form and code length.

        A row has ``family``, ``form``, ``bits``, ``retrieved`` (a list of numbers k), ``found`` (for each k,
        the share of the true neighbours that are among the first k items, 0 … 1), ``yardstick`` (the measure
        of similarity that the family is made for) and ``seed``.
        """
        n = len(truths.pool)
        retrieved = sorted({*numbers_retrieved(self.wanted, n), min(AMONG, n)})
        measured = measure_family(
            name,
            truths.pool,
            draw,
            truths,
            bits=lengths(self.n_bits),
            retrieved=retrieved,
            n_searched=0,
            structures=(),
        )
        for what, why in measured.refused.items():
            self.refused[f"{name}, {what}" if what else name] = why
        by_angle = (value for value in measured.values if value.measure == "neighbours by angle")
        return [
            {
                "family": name,
                "form": form,
                "bits": bits,
                "retrieved": retrieved,
                "found": [value.value for value in values],
                "yardstick": measured.yardsticks[form],
                "seed": draw.seed,
            }
            for (form, bits), values in groupby(by_angle, key=lambda value: (value.form, value.bits))
        ]

    def show_tables(self, rows: Sequence[Row]) -> None:
        """See `Figure.show_tables`; prints a table by bits, and one by retrieved items."""
        n = rows[0]["items"]
        among, bits = min(AMONG, n), min(SHOWN_BITS, self.n_bits)
        by_bits = {f"{length:,}": partial(_found, length, among) for length in lengths(self.n_bits)}
        by_items = {f"{k:,}": partial(_found, bits, k) for k in rows[0]["retrieved"] if k < n}
        click.echo(heading(rows[0], f"found among {among:,}, by bits.\n"))
        self.show_lanes(rows, "family", by_bits)
        click.echo(f"\nFound by {bits} bits, by items retrieved:\n")
        self.show_lanes(rows, "family", by_items)
        for what, why in self.refused.items():
            click.echo(f"\n{what} does not apply: {why}.")

    def legend(self, rows: Sequence[Row]) -> str:
        """See `Figure.legend`."""
        return (
            f"Share of the {self.wanted} nearest items by Euclidean distance that is among the items whose "
            f"codes differ least, in percent, of {self.queries:,} held-out queries; mean and standard "
            f"deviation over {counted(self.draws, 'draw')}.{self.lessons(rows)}"
        )


def lengths(most: int) -> list[int]:
    """Return the code lengths to measure: 8, 16, 32 and so on below `most`, and `most` itself."""
    doubled = [LEAST_BITS << i for i in range(most.bit_length()) if LEAST_BITS << i < most]
    return [*doubled, most]


def numbers_retrieved(n_neighbours: int, n_rows: int) -> list[int]:
    """Return `n_neighbours`, `n_rows`, and the round numbers 1, 2, 5, 10, … between them."""
    round_ones = [step * 10**i for i in range(len(str(n_rows))) for step in _STEPS]
    return sorted({n_neighbours, n_rows, *(n for n in round_ones if n_neighbours < n < n_rows)})


def _found(bits: int, retrieved: int, row: Row) -> float | None:
    """Return the share found among the first `retrieved` items; None if codes do not have `bits` bits."""
    return row["found"][row["retrieved"].index(retrieved)] if row["bits"] == bits else None
