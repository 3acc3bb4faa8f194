"""The plan of a comparison of similarity families, with one unit per family and draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from closecall.app.experiments.compare.plan import Plan
from closecall.core.errors import InputError
from closecall.core.experiment.families import Draw, families_named
from closecall.core.experiment.queries import Items, held_out_queries
from closecall.core.mercer import kernel_from
from closecall.core.pool.pool import Pool


class FamilyUnit(NamedTuple):
    """The smallest unit of work: one family, one draw, all forms and code lengths."""

    family: str
    draw: int

    @property
    def file(self) -> str:
        """Name of the file of its results, in the folder `UNITS`."""
        return f"{self.family}-draw-{self.draw:02d}.parquet"


@dataclass(frozen=True)
class SimilarityPlan(Plan[FamilyUnit]):
    """The options of a comparison, which determine its results except times.

    Parameters
    ----------
    pool, pool_digest, closecall
        See `app.experiments.compare.plan.Plan`.
    families : tuple of str
        Names in `core.hashing.FAMILIES`.
    bits : tuple of int, ascending
        Hash functions per code.
    draws : int
        Number of draws, each with its own sample of rows, landmarks and random vectors.
    queries : int
        Held-out items to search for, and as many others to choose parameters by.
    neighbours : int
        Number of nearest items to find.
    share : float
        R of recall@R, as a share of the pool.
    kernel : str
        Kernel of kernelized families.
    landmarks : int
        Number of landmarks of kernelized families, m.
    labels : int
        Number of labels for families that learn from classes, the same for all of them.
    seed : int
        Seed of the queries; draw i has seed + i.
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
        """Return the plan for the options of the command: all families if none is named, bits in any order.

        Raises
        ------
        InputError
            If there is no such family or kernel, or the pool has or holds out too few items.
        """
        named, neighbours = families_named(families), words["neighbours"]
        if len(pool) < neighbours:
            raise InputError(
                f"{neighbours} neighbours are to be found, and the pool {pool.path} has {len(pool)} items"
            )
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
        """All units, ordered so that the first of them already cover all families."""
        return [FamilyUnit(family, draw) for draw in range(self.draws) for family in self.families]

    def size(self, pool: Pool) -> str:
        """See `Plan.size`."""
        return (
            f"{pool.title}: {len(pool):,} items; {len(self.families)} families × {self.draws} draws, "
            f"{self.queries:,} queries."
        )

    def retrieved(self, n_rows: int) -> list[int]:
        """Return numbers of first rows to measure among, from R to all rows, about three per doubling."""
        R = max(1, round(self.share * n_rows))
        steps = np.geomspace(R, n_rows, max(2, round(3 * np.log2(n_rows / R)) + 1)).round().astype(int)
        return sorted(set(steps.tolist()))

    def queries_of(self, pool: Pool) -> tuple[Items, Items]:
        """Return the items to search for, and those to choose parameters by.

        Raises
        ------
        InputError
            If the pool holds out too few items.
        """
        return held_out_queries(pool, self.queries, self.queries, seed=self.seed)

    def draw(self, number: int, pool: Pool, choosing: Items) -> Draw:
        """Return a draw: the sample that families are fitted to, with its labels and landmarks."""
        draw = Draw.of(
            pool,
            choosing.X,
            kernel=self.kernel,
            n_landmarks=self.landmarks,
            share=self.share,
            seed=self.seed + number,
        )
        return draw.taught(self.labels)
