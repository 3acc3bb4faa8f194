"""Simulated annotator who knows the true classes and answers wrongly with a given probability."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.learning.round import is_positive
from closecall.core.numerics.randomness import uniform


class Oracle:
    """Simulated annotator who answers "is it a `positive`?" for items of known class.

    Parameters
    ----------
    truth : callable
        Takes item ids of shape (n,) and returns their class indices, −1 where unknown: `Pool.truth` or
        `Source.truth`.
    positive : int
        Index of the positive class.
    noise : float
        Probability, 0 to 1, of a wrong answer. Whether an answer is wrong depends only on the seed and the
        item, so the oracle always gives the same answer for an item.
    seed : int
        Seed of the wrong answers.

    Raises
    ------
    InputError
        If `noise` is not between 0 and 1.
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
        """Return the answers for these item ids, True for yes, of shape (n,).

        Raises
        ------
        InputError
            If the class of an item is unknown.
        """
        items = np.atleast_1d(np.asarray(items, dtype=np.int64))
        truth = self.truth(items)
        unknown = np.flatnonzero(truth < 0)
        if unknown.size:
            raise InputError(f"the oracle can't answer for item {items[unknown[0]]}: its class is unknown")
        wrong = uniform(self.seed, items, 1)[:, 0] < self.noise
        return is_positive(truth, self.positive) ^ wrong
