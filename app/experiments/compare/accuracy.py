"""Accuracy of the classifiers after some numbers of labels, in the results of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from closecall.app.experiments.compare.results import Floats, RaceResults

AFTER = (50, 100, 300)
"""Numbers of labels after which reports show the accuracy."""

KINDS = {"auroc": "AUROC", "average_precision": "average precision"}
"""Names of the measures in reports, by their names in `core.evaluation.held_out_scorer.Accuracy`."""


def reached(results: RaceResults, numbers: Sequence[int] = AFTER) -> list[int]:
    """Return those numbers of labels that all races reach after their first selection.

    The labels that a race begins with count. With these alone, all strategies are equal.
    """
    first = results.n_first
    return [n for n in numbers if first < n <= first + results.plan.iterations]


def accuracy_after(results: RaceResults, kind: str, name: str, n_labels: int) -> Floats:
    """Return a strategy's accuracy in each race, in points, from 0 to 100; shape (n_units,).

    Parameters
    ----------
    results : RaceResults
        Results of the comparison.
    kind : str
        One of `KINDS`.
    name : str
        Name of the strategy.
    n_labels : int
        Number of labels; see `reached`. Without labels from a strategy that ended early, the values are NaN.
    """
    values: Any = getattr(results, kind)
    return np.asarray(100 * results.of(values, name)[:, n_labels - results.n_first])
