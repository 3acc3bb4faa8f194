"""Inter-annotator agreement, computed from the annotators' answers in the log, not from adjudications."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.core.evaluation.agreement import (
    cohen_interval,
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    krippendorff_interval,
)
from closecall.storage.review import CODES, Answers

YES_OR_NO = (CODES["yes"], CODES["no"])


def pairs_of(answers: Answers, *, intervals: bool = False) -> list[dict[str, Any]]:
    """Return Cohen's κ for each pair of annotators, over the items to which both gave a yes or a no.

    Pairs without such items are left out. Pairs with the most such items come first. With `intervals`, also
    return the 95 % interval of each κ. Each interval takes about a millisecond to compute.
    """
    pairs: list[dict[str, Any]] = []
    own = [_yes_or_no(answers, number) for number in range(len(answers.annotators))]
    for one, other in combinations(range(len(own)), 2):
        shared, left, right = np.intersect1d(
            answers.item[own[one]], answers.item[own[other]], assume_unique=True, return_indices=True
        )
        if len(shared):
            first, second = (
                answers.word[own[who]][rows] == CODES["yes"] for who, rows in ((one, left), (other, right))
            )
            names = [answers.annotators[one], answers.annotators[other]]
            pair = {"names": names, "items": len(shared), "kappa": cohen_kappa(first, second)}
            pairs.append(pair | ({"interval": cohen_interval(first, second)} if intervals else {}))
    return sorted(pairs, key=lambda pair: (-pair["items"], pair["names"]))


def together_of(answers: Answers) -> dict[str, Any] | None:
    """Return Krippendorff's α of all yes and no answers, its 95 % interval, and Fleiss' κ.

    Fleiss' κ needs the same number of answers for every item. It therefore uses only the items with `voices`
    answers: the most frequent number of answers, at least 2. Return None if no item has two answers.
    """
    none = np.empty(0, dtype=np.int64)
    rows = np.concatenate([none, *(_yes_or_no(answers, number) for number in range(len(answers.annotators)))])
    items, place = np.unique(answers.item[rows], return_inverse=True)
    counts = np.stack(
        [np.bincount(place[answers.word[rows] == code], minlength=len(items)) for code in YES_OR_NO], axis=1
    )
    voices = counts.sum(axis=1)
    if not (voices >= 2).any():
        return None
    commonest = int(np.bincount(voices[voices >= 2]).argmax())
    return {
        "alpha": krippendorff_alpha(counts),
        "interval": krippendorff_interval(counts),
        "items": int(np.count_nonzero(voices >= 2)),
        "fleiss": fleiss_kappa(counts[voices == commonest]),
        "fleiss_items": int(np.count_nonzero(voices == commonest)),
        "voices": commonest,
    }


def _yes_or_no(answers: Answers, annotator: int) -> NDArray[np.int64]:
    """Return the row numbers of one annotator's current yes and no answers in `answers`."""
    says = answers.in_force & ~answers.is_decision & np.isin(answers.word, YES_OR_NO)
    return np.flatnonzero(says & (answers.annotator == annotator))
