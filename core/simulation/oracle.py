"""A simulated annotator, who knows the truth and is sometimes wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.learning.round import is_positive
from closecall.core.numerics.randomness import uniform


class Oracle:
    """Answers "is it a `positive`?" for any item whose class is known.

    Parameters
    ----------
    truth : callable
        Takes item ids of shape (n,), gives the index of each one's class, −1 where unknown: `Pool.truth`, or
        `Source.truth`.
    positive : int
        The class that is a yes.
    noise : float
        The probability, 0 … 1, of a wrong answer. Whether it is wrong depends on the seed and the item alone:
        asked again, the oracle repeats itself, whatever it was asked in between.
    seed : int
    """

    def __init__(
        self,
        truth: Callable[[NDArray[np.int64]], NDArray[np.integer]],
        positive: int,
        *,
        noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        if not 0 <= noise <= 1:
            raise InputError(f"noise must be a probability from 0 to 1, got {noise}")
        self.truth = truth
        self.positive = positive
        self.noise = noise
        self.seed = seed

    def __call__(self, items: ArrayLike) -> NDArray[np.bool_]:
        """The answers for these item ids, True for yes, of shape (n,).

        Raises
        ------
        InputError
            If the truth about one of them is unknown.
        """
        items = np.atleast_1d(np.asarray(items, dtype=np.int64))
        truth = self.truth(items)
        unknown = np.flatnonzero(truth < 0)
        if unknown.size:
            raise InputError(f"the oracle can't answer for item {items[unknown[0]]}: its class is unknown")
        wrong = uniform(self.seed, items, 1)[:, 0] < self.noise
        return is_positive(truth, self.positive) ^ wrong
