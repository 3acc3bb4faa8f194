"""How far two annotators agree beyond chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def cohen_kappa(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float | None:
    """Cohen's κ of two annotators' answers about the same items.

    κ = (p − q) / (1 − q), where p is the share of items on which they agree and q what it would be if each
    answered as often yes and no, but at random (Cohen, "A coefficient of agreement for nominal scales",
    Educational and Psychological Measurement 20, 1960).

    Parameters
    ----------
    first, second : arrays of shape (n_items,), bool
        True for yes.

    Returns
    -------
    float or None
        1 where they always agree, 0 where they agree as by chance. None where chance alone would let them
        always agree: without items, or where both only ever give one and the same answer.
    """
    if not len(first):
        return None
    p = float(np.mean(first == second))
    a, b = float(np.mean(first)), float(np.mean(second))
    q = a * b + (1 - a) * (1 - b)
    return None if q == 1 else (p - q) / (1 - q)
