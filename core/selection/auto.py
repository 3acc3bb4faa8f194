"""Automatic choice between likely positives, items near the hyperplane and items unlike all labeled ones.

If positives are rare and few are labeled, most items near the hyperplane are negative too, and a user wants
to find positives first. Once there are enough, items near the hyperplane teach more. If all items within the
SVM's margin are labeled, answers about the next ones will hardly change the hyperplane. Far from it, there
may be positives of a kind that no label has shown yet. Items that stand for many others are then selected.

The rule depends on the labels and the hyperplane alone, so a log can be replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Self

from closecall.core.selection.base import QueryStrategy
from closecall.core.selection.contenders.probcover import ProbCover
from closecall.core.selection.likely import LikelyPositive
from closecall.core.selection.margin import MarginIndex
from closecall.core.selection.over_margin import OverMarginIndex
from closecall.core.selection.requests import Choice, Query

FEW_POSITIVES = 10
"""With fewer positive labels than this, finding further positives comes first if they are rare."""

RARE = 3
"""Number of negative labels per positive label from which on positives count as rare."""

EDGE = 1 - 1e-6
"""An item with a smaller |wᵀx + b| is within the SVM's margin.

Copies of support vectors have 1, up to rounding errors. They count as outside.
"""


def fitting_part(n_positives: int, n_negatives: int) -> str:
    """Return which part fits a question with these numbers of positive and of negative labels.

    It is "likely" if the positive labels are few and rare, and "margin" otherwise. See `Auto` for "unlike".
    """
    is_rare = n_negatives >= RARE * max(n_positives, 1)
    return "likely" if n_positives < FEW_POSITIVES and is_rare else "margin"


class Auto(OverMarginIndex):
    """Query strategy that selects likely positives while they are few and rare, then uses the margin index.

    If the margin index finds no item within the SVM's margin, ProbCover selects instead. `Selection.parts`
    says which part selected the items: "likely", "margin" or "unlike".

    Parameters
    ----------
    explores : bool
        Whether ProbCover ever selects.
    scans : bool
        Whether all items are scored to find likely positives; see `core.selection.likely.LikelyPositive`.
    budget : int or None
        Budget of the margin index; see `core.selection.margin.MarginIndex`.
    share : float or None
        Maximum share of the rows that the margin index examines, instead of a budget.
    confidence : float or None
        Confidence of the margin index.
    random_state : int
    """

    name = "auto"
    about = "Looks for yes while it is rare, refines the boundary, then looks for what is new."
    query_params = frozenset({"explores", "scans", "budget", "share", "confidence"})

    _elder: Auto | None

    def __init__(
        self,
        *,
        explores: bool = True,
        scans: bool = False,
        budget: int | None = None,
        share: float | None = None,
        confidence: float | None = None,
        random_state: int = 0,
    ) -> None:
        super().__init__(budget=budget, share=share, confidence=confidence, random_state=random_state)
        self.explores = explores
        self.scans = scans

    def other_parts(self) -> dict[str, QueryStrategy]:
        """See `OverMarginIndex.other_parts`."""
        return {"likely": LikelyPositive(scans=self.scans)}

    def choose_many(self, queries: Sequence[Query]) -> list[Choice]:
        """See `QueryStrategy.choose_many`; each part chooses the items of all its queries together."""
        parts = [fitting_part(query.labels.n_positives, query.labels.n_negatives) for query in queries]
        choices: dict[int, Choice] = {}
        for name, strategy in self.parts_.items():
            own = [place for place, part in enumerate(parts) if part == name]
            choices |= zip(own, strategy.choose_many([queries[i] for i in own]), strict=True)
        for place, query in enumerate(queries):
            if self.explores and parts[place] == "margin" and _is_outside(choices[place]):
                unlike, scored = self._unlike.choose(query), choices[place].scored
                parts[place] = "unlike"
                choices[place] = replace(unlike, scored=min(scored + unlike.scored, self.n_items))
        found = [choices[place] for place in range(len(queries))]
        return [
            replace(choice, parts=(part,) * len(choice.ids))
            for part, choice in zip(parts, found, strict=True)
        ]

    def sharing(self, other: QueryStrategy) -> Self:
        """See `QueryStrategy.sharing`; what is fitted for items unlike the labeled ones is shared, too."""
        super().sharing(other)
        self._elder = other if isinstance(other, Auto) else None
        return self

    @cached_property
    def _unlike(self) -> ProbCover:
        """The strategy for items unlike the labeled ones. It is fitted when it is first needed."""
        if self._elder is not None:
            return self._elder._unlike
        return ProbCover(random_state=self.random_state).fit(self.pool_)

    def _use(self, margin_index: MarginIndex) -> None:
        super()._use(margin_index)
        self._elder = None
        vars(self).pop("_unlike", None)


def _is_outside(choice: Choice) -> bool:
    """Return whether the nearest item is outside the SVM's margin, as far as the search is complete."""
    return len(choice.ids) > 0 and not choice.missing and bool(choice.margins[0] >= EDGE)
