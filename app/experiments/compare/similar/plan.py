"""The plan of a comparison of hash families, with one unit of work per family and draw.

A draw is one repetition with its own random sample, landmarks and vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.experiments.compare.plan import Plan
from closecall.app.indexes.estimates import SIGN_ROWS
from closecall.core.errors import InputError
from closecall.core.experiment.families import Draw, families_named
from closecall.core.experiment.queries import Items, held_out_queries
from closecall.core.mercer import kernel_from
from closecall.core.mercer.kernel import OF_HISTOGRAMS, Cosine
from closecall.core.pool.pool import Pool

MOST_SEARCHED, MOST_TIMED = 200, 25
"""Maximum number of queries for search structures, and for the timing of codes and of the exact scan."""


class FamilyUnit(NamedTuple):
    """The smallest unit of work: one family in one draw, in all its forms and code lengths."""

    family: str
    draw: int

    @property
    def file(self) -> str:
        """Name of the file with the results of this unit of work, in the folder `UNITS`."""
        return f"{self.family}-draw-{self.draw:02d}.parquet"


@dataclass(frozen=True)
class SimilarityPlan(Plan[FamilyUnit]):
    """The options of a comparison, which determine all its results except times.

    Parameters
    ----------
    pool, pool_digest, closecall
        See `app.experiments.compare.plan.Plan`.
    families : tuple of str
        Names in `core.hashing.FAMILIES`.
    bits : tuple of int, ascending
        Code lengths: numbers of hash functions per code.
    draws : int
        Number of draws.
    queries : int
        Number of held-out items that serve as queries. Equally many other held-out items serve to choose
        parameters.
    neighbours : int
        Number of true neighbours per query.
    share : float
        R of recall@R, as a share of the pool.
    kernel : str
        Kernel of kernelized families; see `core.mercer.kernel_from`.
    landmarks : int
        Number m of landmarks of kernelized families.
    labels : int
        Maximum number of labels; all families that learn from classes get the same labels.
    seed : int
        Seed of the queries. Draw i has the seed `seed` + i.
    """

    families: tuple[str, ...]
    bits: tuple[int, ...]
    draws: int
    queries: int
    neighbours: int
    share: float
    kernel: str
    landmarks: int
    labels: int
    seed: int

    @classmethod
    def of(cls, pool: Pool, *, families: Sequence[str], bits: Sequence[int], **words: Any) -> Self:
        """Make the plan from the pool and the options of the command.

        If no family is named, the plan has all families. `bits` may be in any order. The default kernel is
        χ², or the cosine if the pool has negative features.

        Raises
        ------
        InputError
            If a family or the kernel is unknown, or if the pool has too few items or too few held-out items.
        """
        named, neighbours = families_named(families), words["neighbours"]
        if len(pool) < neighbours:
            raise InputError(
                f"{neighbours} neighbours are to be found, and the pool {pool.path} has {len(pool)} items"
            )
        words["kernel"] = words["kernel"] or usual_kernels(pool)[0]
        kernel_from(words["kernel"])
        plan = cls(
            pool=str(pool.path),
            pool_digest=pool.digest,
            families=named,
            bits=tuple(sorted(set(bits))),
            **words,
        )
        plan.queries_of(pool)
        return plan

    @property
    def units(self) -> list[FamilyUnit]:
        """All units, beginning with one for each family."""
        return [FamilyUnit(family, draw) for draw in range(self.draws) for family in self.families]

    def size(self, pool: Pool) -> str:
        """See `Plan.size`."""
        return (
            f"{pool.title}: {counted(len(pool), 'item')}; "
            f"{counted(len(self.families), 'family', 'families')} × {counted(self.draws, 'draw')}, "
            f"{counted(self.queries, 'query', 'queries')}."
        )

    def retrieved(self, n_rows: int) -> list[int]:
        """Return the numbers of retrieved rows to measure with, ascending.

        They range from R to all rows, with about three numbers per doubling.
        """
        R = max(1, round(self.share * n_rows))
        steps = np.geomspace(R, n_rows, max(2, round(3 * np.log2(n_rows / R)) + 1)).round().astype(int)
        return sorted(set(steps.tolist()))

    def queries_of(self, pool: Pool) -> tuple[Items, Items]:
        """Return the held-out items that serve as queries, and those that serve to choose parameters.

        Raises
        ------
        InputError
            If the pool holds out too few items.
        """
        return held_out_queries(pool, self.queries, self.queries, seed=self.seed)

    def draw(self, number: int, pool: Pool, choosing: Items) -> Draw:
        """Return draw `number`: the sample that families are fitted to, with its labels and landmarks.

        `choosing` are the items that serve to choose parameters.
        """
        draw = Draw.of(
            pool,
            choosing.X,
            kernel=self.kernel,
            n_landmarks=self.landmarks,
            share=self.share,
            seed=self.seed + number,
        )
        return draw.taught(self.labels)


def usual_kernels(pool: Pool) -> tuple[str, ...]:
    """Return the names of the usual kernels that suit the features of the pool's first items."""
    has_negatives = bool((pool.rows(np.arange(min(SIGN_ROWS, len(pool)))) < 0).sum())
    return (Cosine.word,) if has_negatives else OF_HISTOGRAMS
