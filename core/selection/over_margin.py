"""Base class of strategies that combine the margin index with strategies that need no index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection.base import Arrays, Progress, QueryStrategy
from closecall.core.selection.margin import MarginIndex
from closecall.core.selection.reader import PoolRows
from closecall.core.selection.requests import Choice, Query


class OverMarginIndex(QueryStrategy):
    """Base class of strategies whose parts are the margin index, as the part "margin", and other strategies.

    All subclasses and the margin index share one index. A subclass overrides `choose` or `choose_many`, and
    `other_parts` if it has any.

    Parameters
    ----------
    budget : int or None
        Budget of the margin index; see `core.selection.margin.MarginIndex`. Parts that don't use the index
        have no budget.
    share : float or None
        Maximum share of the rows that the margin index examines, instead of a budget.
    confidence : float or None
        Confidence of the margin index.
    random_state : int
    """

    margin_index_: MarginIndex
    parts_: dict[str, QueryStrategy]

    def __init__(
        self,
        *,
        budget: int | None = None,
        share: float | None = None,
        confidence: float | None = None,
        random_state: int = 0,
    ) -> None:
        super().__init__(random_state=random_state)
        self.budget = budget
        self.share = share
        self.confidence = confidence

    @property
    def uses_index(self) -> bool:
        """Whether any part selects with the margin index; override it if parameters can turn this off."""
        return True

    def other_parts(self) -> dict[str, QueryStrategy]:
        """Return the other parts, not fitted, by name. Parts of this class will share the margin index."""
        return {}

    @property
    def uses_budget(self) -> bool:
        """Whether a budget limits the rows that any part scores; override it if it can make no difference."""
        return self.uses_index

    def check(self) -> None:
        """Raise an InputError if the budget, the share or the confidence is invalid."""
        self._margin_index().check_limits()

    def choose(self, query: Query) -> Choice:
        """See `QueryStrategy.choose`."""
        return self.choose_many([query])[0]

    @property
    def index_name(self) -> str:
        """See `QueryStrategy.index_name`."""
        return MarginIndex.name

    def index_params(self) -> dict[str, Any]:
        """See `QueryStrategy.index_params`."""
        return self._margin_index().index_params()

    def thrifty_params(self) -> dict[str, Any]:
        """Return the `thrifty_params` of the margin index, or none if a budget limits no part."""
        return self.margin_index_.thrifty_params() if self.uses_budget else {}

    def certain_params(self) -> dict[str, Any]:
        """Return the `certain_params` of the margin index, or no parameters if no part uses it."""
        return self.margin_index_.certain_params() if self.uses_index else {}

    def prepare(self, pool: PoolRows, progress: Progress | None) -> None:
        """See `QueryStrategy.prepare`."""
        self._use(self._margin_index().fit(pool, progress=progress))

    def grow(self, old: Self, pool: PoolRows, progress: Progress | None) -> None:
        """See `QueryStrategy.grow`."""
        self._use(old.margin_index_.extended(pool, progress=progress))

    def remember(self, hyperplanes: Sequence[Hyperplane]) -> list[object]:
        """Return what the margin index remembers; None if no part uses it. See `QueryStrategy.remember`."""
        return self.margin_index_.remember(hyperplanes) if self.uses_index else super().remember(hyperplanes)

    def arrays(self) -> Arrays:
        """Return the arrays of the margin index; see `QueryStrategy.arrays`."""
        return self.margin_index_.arrays()

    def restore(self, arrays: Arrays) -> None:
        """See `QueryStrategy.restore`."""
        self._use(self._margin_index().restored(self.pool_, arrays))

    def _margin_index(self) -> MarginIndex:
        return MarginIndex(
            budget=self.budget,
            share=self.share,
            confidence=self.confidence,
            random_state=self.random_state,
        )

    def _use(self, margin_index: MarginIndex) -> None:
        self.margin_index_ = margin_index
        others = {name: self._fitted(part) for name, part in self.other_parts().items()}
        self.parts_ = {"margin": margin_index, **others}

    def _fitted(self, part: QueryStrategy) -> QueryStrategy:
        if not isinstance(part, OverMarginIndex):
            return part.fit(self.pool_)
        part._cover(self.pool_)
        part._use(self.margin_index_)
        return part
