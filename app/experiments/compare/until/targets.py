"""Targets of labeling, and the number of labels or seconds after which a race reached them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from closecall.app.experiments.compare.results import Floats, RaceResults
from closecall.core.evaluation.held_out_scorer import PRECISION, Accuracy

WANTED = 50
"""Number of positives that the target "positives" asks for."""

RECALL = 0.9
"""Recall that the target "recall" asks for, at a precision of `PRECISION`."""


@dataclass(frozen=True)
class Target:
    """A state of a race that a user may want to reach.

    Parameters
    ----------
    name : str
        Short name, for tables and JSON.
    meaning : str
        What is reached, in words.
    measure : str
        A field of `core.evaluation.held_out_scorer.Accuracy`, or "n_positives": the number of positive
        labels, including those that a race begins with.
    goal : float
        Value of the measure that must be reached.
    is_share : bool
        Whether the goal is a share of the value under full supervision.
    """

    name: str
    meaning: str
    measure: str
    goal: float
    is_share: bool = False


TARGETS = (
    *(
        Target(
            f"{measure.replace('_', '-')}-{100 * share:g}",
            f"{100 * share:g} % of the {words} of full supervision",
            measure,
            share,
            is_share=True,
        )
        for measure, words in (("auroc", "AUROC"), ("average_precision", "average precision"))
        for share in (0.95, 0.99)
    ),
    Target("recall", f"recall {RECALL:g} at precision {PRECISION:g}", "recall", RECALL),
    Target("positives", f"{WANTED} positives", "n_positives", WANTED),
)
"""All targets, in the order of reports."""


def first_round(results: RaceResults, target: Target, full: Sequence[Accuracy], name: str) -> Floats:
    """Return the first round in which each race reached the target; infinity if it never did.

    Parameters
    ----------
    results : RaceResults
        Results of the comparison.
    target : Target
        What must be reached.
    full : sequence of Accuracy
        Accuracy under full supervision in each race.
    name : str
        Name of the strategy, which must have run to the end of all races.

    Returns
    -------
    array of shape (n_units,)
    """
    values = results.of(getattr(results, target.measure), name)
    goals = np.full(len(results.units), target.goal)
    if target.is_share:
        goals *= [getattr(own, target.measure) for own in full]
    reached = values >= goals[:, None]
    return np.where(reached.any(axis=1), reached.argmax(axis=1), np.inf)
