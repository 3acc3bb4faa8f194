"""What a comparison of similarity families consists of: its words, and a unit a family and draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from closecall.app.experiments.compare.settled import Settled
from closecall.core.experiment.families import Draw
from closecall.core.experiment.queries import Items, held_out_queries
from closecall.core.pool.pool import Pool


class Unit(NamedTuple):
    """The smallest piece of work: one family, one draw, all forms and lengths of code."""

    family: str
    draw: int

    @property
    def file(self) -> str:
        """The file of its results, in the folder `UNITS`."""
        return f"{self.family}-draw-{self.draw:02d}.parquet"


@dataclass(frozen=True)
class Plan(Settled[Unit]):
    """The words of a comparison: all that its results follow from, but for times.

    Parameters
    ----------
    pool, pool_digest, closecall
        See `app.experiments.compare.settled.Settled`.
    families : tuple of str
        Names in `core.hashing.FAMILIES`.
    bits : tuple of int, ascending
        Functions a code.
    draws : int
        Each with a sample of rows, landmarks and random vectors of its own.
    queries : int
        Held-out items to search for, and as many others to choose by.
    neighbours : int
        How many of the nearest are to be found.
    share : float
        R of recall@R, as a share of the pool.
    kernel : str
        Of kernelized families.
    landmarks : int
        m.
    labels : int
        Labels that every family that learns from classes is given, the same ones.
    seed : int
        Draws the queries; draw i has seed + i.
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

    @property
    def units(self) -> list[Unit]:
        """All of them, in an order in which a part of them already has all families."""
        return [Unit(family, draw) for draw in range(self.draws) for family in self.families]

    def retrieved(self, n_rows: int) -> list[int]:
        """Among how many first rows is counted: from R on, three steps to each doubling, up to all rows."""
        R = max(1, round(self.share * n_rows))
        steps = np.geomspace(R, n_rows, max(2, round(3 * np.log2(n_rows / R)) + 1)).round().astype(int)
        return sorted(set(steps.tolist()))

    def queries_of(self, pool: Pool) -> tuple[Items, Items]:
        """Return the items to search for, and those to choose parameters by.

        Raises
        ------
        InputError
            If the pool holds out too few.
        """
        return held_out_queries(pool, self.queries, self.queries, seed=self.seed)

    def draw(self, number: int, pool: Pool, choosing: Items) -> Draw:
        """Draw what families are fitted to."""
        draw = Draw.of(
            pool,
            choosing.X,
            kernel=self.kernel,
            n_landmarks=self.landmarks,
            share=self.share,
            seed=self.seed + number,
        )
        return draw.taught(self.labels)
