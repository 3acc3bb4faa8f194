"""Automatic choice between likely positives and items near the hyperplane, from the labels alone.

If positives are rare and few are labeled, most items near the hyperplane are negative too, and a user wants
to find positives first. Once there are enough, items near the hyperplane teach more. The rule depends on the
numbers of labels alone, so a log can be replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from closecall.core.selection.base import QueryStrategy
from closecall.core.selection.likely import LikelyPositive
from closecall.core.selection.over_margin import OverMarginIndex
from closecall.core.selection.requests import Choice, Query

FEW_POSITIVES = 10
"""With fewer positive labels than this, finding further positives comes first if they are rare."""

RARE = 3
"""Number of negative labels per positive label from which on positives count as rare."""


def fitting_part(n_positives: int, n_negatives: int) -> str:
    """Return which part fits a question with these numbers of positive and of negative labels.

    It is "likely" if the positive labels are few and rare, and "margin" otherwise.
    """
    is_rare = n_negatives >= RARE * max(n_positives, 1)
    return "likely" if n_positives < FEW_POSITIVES and is_rare else "margin"


class Auto(OverMarginIndex):
    """Query strategy that selects likely positives while they are few and rare, then uses the margin index.

    `Selection.parts` says which part selected the items, "likely" or "margin"; see `fitting_part`.

    Parameters
    ----------
    budget : int or None
        Budget of the margin index; see `core.selection.margin.MarginIndex`.
    confidence : float or None
        Confidence of the margin index.
    random_state : int
    """

    name = "auto"
    about = "Looks for yes while yes is few and rare, then refines the boundary."
    query_params = frozenset({"budget", "confidence"})

    def other_parts(self) -> dict[str, QueryStrategy]:
        """See `OverMarginIndex.other_parts`."""
        return {"likely": LikelyPositive()}

    def choose(self, query: Query) -> Choice:
        """See `QueryStrategy.choose`."""
        return self.choose_many([query])[0]

    def choose_many(self, queries: Sequence[Query]) -> list[Choice]:
        """See `QueryStrategy.choose_many`; each part chooses the items of all its queries together."""
        parts = [fitting_part(query.labels.n_positives, query.labels.n_negatives) for query in queries]
        choices: dict[int, Choice] = {}
        for name, strategy in self.parts_.items():
            own = [place for place, part in enumerate(parts) if part == name]
            for place, choice in zip(own, strategy.choose_many([queries[i] for i in own]), strict=True):
                choices[place] = replace(choice, parts=(name,) * len(choice.ids))
        return [choices[place] for place in range(len(queries))]
