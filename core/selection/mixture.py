"""Mixture of three strategies: for each item, the strategy that selects it is drawn at random.

Items near the hyperplane teach most about its position. Likely positives are the items that users look for.
Random items explore regions that the other two strategies never select from, but they cost labels.
Osugi et al. [1]_ also balance exploitation and exploration by a random choice at each step. Here, the user
sets the probabilities.

References
----------
.. [1] T. Osugi, D. Kun, S. Scott: Balancing exploration and exploitation: a new algorithm for active machine
       learning, ICDM 2005.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isclose

import numpy as np

from closecall.core.errors import InputError
from closecall.core.selection.base import QueryStrategy
from closecall.core.selection.likely import LikelyPositive
from closecall.core.selection.over_margin import OverMarginIndex
from closecall.core.selection.random import RandomSampling
from closecall.core.selection.reader import Rows
from closecall.core.selection.requests import Choice, Query

PARTS = ("margin", "likely", "random")
"""Names of the parts of the mixture (query strategies), in the order in which the parts select items.

A part does not select an item that an earlier part has selected.
"""

_DRAWING = 1
"""Extra number in the seed for drawing the parts, so that the random items do not depend on this draw."""


class Mixture(OverMarginIndex):
    """Query strategy that mixes items near the hyperplane, likely positives and random items.

    The mixture has three parts: the strategies `margin-index`, `likely-positive` and `random`. For each item,
    the part that selects it is drawn with the seed of the query; `Selection.parts` has its name. If several
    items are requested, each part selects all of its items at once. The items are returned in the order in
    which the parts were drawn.

    Parameters
    ----------
    margin, likely, random : float, 0 to 1
        Probability with which each part is drawn. The three probabilities must sum to 1.
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

    name = "mixture"
    about = "Items near the boundary, likely yes and random, in shares that you set."
    query_params = frozenset({*PARTS, "scans", "budget", "share", "confidence"})

    def __init__(
        self,
        *,
        margin: float = 0.5,
        likely: float = 0.3,
        random: float = 0.2,
        scans: bool = False,
        budget: int | None = None,
        share: float | None = None,
        confidence: float | None = None,
        random_state: int = 0,
    ) -> None:
        super().__init__(budget=budget, share=share, confidence=confidence, random_state=random_state)
        self.margin = margin
        self.likely = likely
        self.random = random
        self.scans = scans

    def other_parts(self) -> dict[str, QueryStrategy]:
        """See `OverMarginIndex.other_parts`."""
        return {
            "likely": LikelyPositive(scans=self.scans),
            "random": RandomSampling(random_state=self.random_state),
        }

    def check(self) -> None:
        """See `QueryStrategy.check`."""
        super().check()
        shares = [getattr(self, part) for part in PARTS]
        if min(shares) < 0 or not isclose(sum(shares), 1, abs_tol=1e-6):
            given = ", ".join(f"{part}={share:g}" for part, share in zip(PARTS, shares, strict=True))
            raise InputError(f"the shares of a mixture must be at least 0 and sum to 1, got {given}")

    @property
    def uses_index(self) -> bool:
        """See `OverMarginIndex.uses_index`."""
        return self.margin > 0 or (self.likely > 0 and not self.scans)

    @property
    def uses_budget(self) -> bool:
        """See `OverMarginIndex.uses_budget`; sparse rows are all scored to find likely positives."""
        return self.margin > 0 or (self.uses_index and not self.pool_.is_sparse)

    def choose_many(self, queries: Sequence[Query]) -> list[Choice]:
        """See `QueryStrategy.choose_many`; each part chooses its items for all queries together."""
        drafts = [_Draft(query, self._drawn(query)) for query in queries]
        for number, part in enumerate(self.parts_.values()):
            asked = [draft for draft in drafts if number in draft.drawn]
            found = part.choose_many([draft.query(number) for draft in asked])
            for draft, choice in zip(asked, found, strict=True):
                draft.take(number, choice)
        return [draft.choice(self.n_items) for draft in drafts]

    def _drawn(self, query: Query) -> Rows:
        """Return the index into `PARTS` of the part that selects each item."""
        rng = np.random.default_rng([self.random_state, query.seed, _DRAWING])
        ends = np.cumsum([getattr(self, part) for part in PARTS])
        u = rng.random(min(query.n, self.n_items))
        return np.searchsorted(ends / ends[-1], u, side="right")


class _Draft:
    """Partial answer to one query, to which each part adds its choice."""

    def __init__(self, query: Query, drawn: Rows) -> None:
        self.drawn = drawn
        self._query = query
        self._taken: list[tuple[Rows, Choice]] = []

    def query(self, number: int) -> Query:
        """Return the query for the part with this number."""
        exclude = self._query.exclude
        for _, choice in self._taken:
            exclude = np.union1d(exclude, choice.ids)
        return replace(self._query, n=int(np.count_nonzero(self.drawn == number)), exclude=exclude)

    def take(self, number: int, choice: Choice) -> None:
        """Add the choice of one part.

        The choice may have fewer items than were drawn for the part, but only if no more items are left.
        """
        self._taken.append((np.flatnonzero(self.drawn == number)[: len(choice.ids)], choice))

    def choice(self, n_items: int) -> Choice:
        """Return the complete choice, in the order of the draws."""
        places = np.concatenate([places for places, _ in self._taken])
        order = np.argsort(places)
        return Choice(
            np.concatenate([choice.ids for _, choice in self._taken])[order],
            np.concatenate([choice.margins for _, choice in self._taken])[order],
            scored=min(sum(choice.scored for _, choice in self._taken), n_items),
            parts=tuple(PARTS[number] for number in self.drawn[places[order]]),
            missing=max((choice.missing for _, choice in self._taken), default=0),
        )
