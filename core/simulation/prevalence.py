"""Questions of a given prevalence, made of the classes of a pool."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.simulation.drawing import Ids, ItemsByClass


def positive_classes(
    items: ItemsByClass, positive: int, prevalence: float | None, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return the classes that count as positive.

    If the class `positive` is rarer than the prevalence, random classes are added to it, one by one, while
    this brings the share of positives closer to the prevalence.

    Parameters
    ----------
    items : ItemsByClass
        Items of the pool.
    positive : int
        Index of the class that is always included.
    prevalence : float or None
        Desired share of positives; None for the class alone.
    rng : numpy.random.Generator
        Random numbers that determine the order of the added classes.

    Raises
    ------
    InputError
        If the prevalence is not above 0 and below 1.
    """
    chosen = [positive]
    if prevalence is None:
        return np.array(chosen)
    if not 0 < prevalence < 1:
        raise InputError(f"prevalence must be above 0 and below 1, got {prevalence}")
    wanted, size = prevalence * len(items), items.size(positive)
    for other in rng.permutation(items.classes[items.classes != positive]).tolist():
        more = items.size(other)
        if abs(size + more - wanted) >= abs(size - wanted):
            break
        chosen.append(other)
        size += more
    return np.sort(chosen)


def hidden_positives(positives: Ids, n_negatives: int, prevalence: float, rng: np.random.Generator) -> Ids:
    """Return positives that must be hidden, ascending, so that the rest has the prevalence.

    Parameters
    ----------
    positives : array of shape (n,), int64
        Items of which some are hidden; at least one stays.
    n_negatives : int
        Number of other items.
    prevalence : float
        Share of positives among all items that are not hidden. If it is lower already, nothing is hidden.
    rng : numpy.random.Generator
        Random numbers that determine which positives are hidden.
    """
    kept = max(1, round(prevalence / (1 - prevalence) * n_negatives))
    if kept >= len(positives):
        return np.empty(0, dtype=np.int64)
    return np.sort(rng.choice(positives, len(positives) - kept, replace=False))
