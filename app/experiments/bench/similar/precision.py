"""Precision of codes if few labels are known, as in papers on supervised hashing such as [1]_.

All families are fitted to the same sample of rows. Supervised families also get the classes of a few of these
rows. The rows of the pool are ordered by their Hamming distance from each query, which is a held-out item
(`core.experiment.retrieval`). A row is relevant if it has the query's class. Precision is the share of
relevant rows among the first k rows. For average precision, the precision among all rows up to a relevant row
is averaged over the relevant rows.

References
----------
.. [1] W. Liu, J. Wang, R. Ji, Y.-G. Jiang, S.-F. Chang, "Supervised hashing with kernels", CVPR 2012.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import click
import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.experiments.bench.experiment import Row
from closecall.app.experiments.bench.report import heading
from closecall.app.experiments.bench.similar.figure import FamilyFigure, single_labels
from closecall.app.experiments.compare.similar.names import lane_label
from closecall.app.experiments.compare.similar.results import Lane
from closecall.core.errors import InputError
from closecall.core.experiment.families import Draw, codes_of_pool, forms_of
from closecall.core.experiment.retrieval import retrieve
from closecall.core.experiment.searching import timed
from closecall.core.experiment.similarity import Truths
from closecall.core.hashing import Codes, SimilarityHasher
from closecall.core.pool.pool import Pool

BITS = (8, 12, 16, 24, 32, 48)
"""Default code lengths in bits, as in papers on supervised hashing."""


@dataclass(frozen=True)
class Precision(FamilyFigure):
    """Measurement of the precision of each hash family, for several code lengths.

    Parameters
    ----------
    draws, queries, families, kernels, landmarks
        See `FamilyFigure`.
    bits : tuple of int
        Code lengths; `BITS` if empty.
    retrieved : tuple of int
        Values of k; precision is measured among the first k rows.
    labels : tuple of int
        Number of rows of the sample whose class is known, as a tuple of at most one value; `DEFAULT_LABELS`
        if the tuple is empty.
    sample : int
        Number of rows that families are fitted to, with or without known class.
    """

    name: ClassVar[str] = "precision"
    known: ClassVar[bool] = True
    several_bits: ClassVar[bool] = True

    retrieved: tuple[int, ...]
    labels: tuple[int, ...]
    sample: int

    several_labels: ClassVar[bool] = False
    """Whether several numbers of labels can be measured."""

    def __post_init__(self) -> None:
        """See `FamilyFigure.__post_init__`; also raises InputError if several numbers of labels are given."""
        super().__post_init__()
        if not self.several_labels:
            single_labels(self.labels, self.name)

    @property
    def n_labels(self) -> int:
        """Number of labels. Raises InputError if several numbers are given."""
        return single_labels(self.labels, self.name)

    @property
    def lengths(self) -> list[int]:
        """Code lengths, ascending."""
        return sorted(set(self.bits or BITS))

    @property
    def places(self) -> list[int]:
        """Values of k to measure precision for, ascending."""
        return sorted(set(self.retrieved))

    @property
    def sampling(self) -> dict[str, Any]:
        """See `FamilyFigure.sampling`."""
        return {"n_sample": self.sample, "n_labels": self.n_labels}

    def about(self, pool: Pool) -> Row:
        """See `Figure.about`."""
        words = {"kernel": self.kernel_on(pool), "landmarks": self.landmarks}
        return {**super().about(pool), **words}

    def check(self, pool: Pool) -> None:
        """See `FamilyFigure.check`."""
        if not all(1 <= k <= len(pool) for k in self.retrieved):
            raise InputError(
                f"of each query from 1 to {len(pool):,} rows can be retrieved, got "
                f"{', '.join(f'{k:,}' for k in self.places)}"
            )

    def measure_family(self, name: str, draw: Draw, truths: Truths) -> list[Row]:
        """Return a row for each form and code length.

        A row has ``family``, ``form``, ``labels``, ``bits``, ``retrieved`` (the values of k), ``precision``
        (a list with the mean over queries for each k), ``average_precision`` (the mean over queries),
        ``choosing_seconds`` (processor time of choosing the parameters of all forms), ``fit_seconds``
        (processor time of fitting this form), ``seed``, and the columns of `costs`.
        """
        pool, queries = truths.pool, truths.queries
        try:
            forms, choosing_seconds = timed(forms_of, name, draw)
            fitted = {
                form: [timed(draw.fitted, make, n) for n in self.lengths_for(draw)]
                for form, make in forms.items()
            }
        except InputError as error:
            self.refused[name] = str(error)
            return []
        rows = []
        for form, both in fitted.items():
            hashers = [hasher for hasher, _ in both]
            for (hasher, seconds), codes in zip(both, codes_of_pool(hashers, pool), strict=True):
                found = retrieve(
                    codes, hasher.hash_queries(queries.X), classes=pool.truth(pool.ids), own=queries.truth
                )
                rows.append(
                    {
                        "family": name,
                        "form": form,
                        "labels": int(np.count_nonzero(draw.truth >= 0)),
                        "bits": hasher.n_functions,
                        "retrieved": self.places,
                        "precision": found.precision(self.places).mean(axis=0).tolist(),
                        "average_precision": float(found.average_precision().mean()),
                        "choosing_seconds": choosing_seconds,
                        "fit_seconds": seconds,
                        "seed": draw.seed,
                        **self.costs(hasher, codes, draw, truths),
                    }
                )
        return rows

    def lengths_for(self, draw: Draw) -> list[int]:  # noqa: ARG002
        """Return the code lengths to measure in this draw."""
        return self.lengths

    def costs(self, hasher: SimilarityHasher, codes: Codes, draw: Draw, truths: Truths) -> Row:  # noqa: ARG002
        """Return additional columns about the cost of the codes of one family and length."""
        return {}

    def show_tables(self, rows: Sequence[Row]) -> None:
        """See `Figure.show_tables`; prints a table for each measure, with a column for each code length."""
        click.echo(heading(rows[0], "of the query's class."))
        titles = [*(f"precision of the first {k:,}" for k in self.places), "mean average precision"]
        for number, title in enumerate(titles):
            click.echo(f"\n{title}")
            self.show_lanes(rows, "bits", {str(n): partial(_number, number, n) for n in self.lengths})
        self.show_refused()

    def show_refused(self) -> None:
        """Print each family that does not apply, with the reason."""
        for name, why in self.refused.items():
            click.echo(f"\nWithout {lane_label(Lane(name, ''))}: {why}.")

    def legend(self, rows: Sequence[Row]) -> str:
        """See `Figure.legend`."""
        return (
            f"In percent, of {self.queries:,} held-out queries; mean and standard deviation over "
            f"{counted(self.draws, 'draw')} of {self.n_labels:,} labels and of everything else that is "
            "random. Families "
            f"are fitted to {min(self.sample, rows[0]['items']):,} rows; kernelized ones have "
            f"{self.landmarks:,} landmarks, supervised ones 300 anchors at most. Rank and scale are chosen "
            f"on as many other queries.{self.lessons(rows)}"
        )


def _number(number: int, bits: int, row: Row) -> float | None:
    """Return one of the measured values of a row, or None if the codes of the row do not have `bits` bits.

    The measured values are the precision for each k, followed by the average precision. `number` is the index
    of the value in this order.
    """
    return [*row["precision"], row["average_precision"]][number] if row["bits"] == bits else None
