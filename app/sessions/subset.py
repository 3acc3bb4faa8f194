"""A grid of the items in a part of the pool, in a given order, until all of them have answers.

Each page shows the first items in this order that have no answer yet. Like the grid in `app.sessions.grid`,
it leaves out items that are leased to other people. If annotators are asked about near-duplicates only
once, it also leaves out near-duplicates of answered or leased items.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.exclusion import excluded_items
from closecall.app.engine.occasion import Occasion
from closecall.app.engine.selection import Chosen, leasing, take_found
from closecall.app.engine.selection_parameters import RULE
from closecall.app.engine.training import Trained
from closecall.app.sessions.grid import BatchSession
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.selection import PoolExhausted, Selection
from closecall.storage import Standing
from closecall.storage.records import Why


class SubsetSession(BatchSession):
    """A grid of the items of a part of the pool.

    Attributes
    ----------
    problem : str or None
        A sentence that says why there are no items, or None.
    """

    WHY: ClassVar[Why]
    """The reason that the log records for the selections."""

    SIZE: ClassVar[int]
    """Items per page."""

    problem: str | None = None

    @abstractmethod
    def _first(
        self, pool: Pool, exclude: NDArray[np.int64], trained: Trained, standing: Standing
    ) -> Selection:
        """Select the next page of items, without those in `exclude`.

        Raises
        ------
        InputError
            If there are no items, and the annotator should know the reason.
        PoolExhausted
            If all items of the part are excluded.
        """

    @abstractmethod
    def _of_item(self, item: int) -> dict[str, Any]:
        """Return the parameters of an item for the log, except the item's place on the page."""

    @abstractmethod
    def _of_page(self) -> Mapping[str, Any]:
        """Return the parameters for the log that only the first record of a page has."""

    def excluded(self, occasion: Occasion, standing: Standing) -> NDArray[np.int64]:
        """Return the items that can't be answered here, ascending."""
        include_skipped, passed = occasion.include_skipped, occasion.passed
        return excluded_items(
            standing, occasion.leased, include_skipped=include_skipped, passed=passed, rule=RULE
        )

    def _select(self, pool: Pool) -> Chosen | None:
        occasion = self.session.occasion(pool).sharing_own()
        standing, trained = self.session.concept.trained(pool)

        def attempt(occasion: Occasion) -> Chosen:
            found = self._first(pool, self.excluded(occasion, standing), trained, standing)
            own: list[dict[str, Any]] = [
                {self.MARK: {"n": self.SIZE, "place": place, **self._of_item(item)}}
                for place, item in enumerate(found.ids.tolist())
            ]
            own[0] |= self._of_page()
            return take_found(
                occasion,
                trained,
                found.ids,
                own,
                why=self.WHY,
                seconds=found.seconds,
                scored=found.scored,
                groups=standing.groups,
            )

        try:
            chosen, self.problem = leasing(occasion, attempt, standing.groups), None
        except PoolExhausted:
            self.problem = None
            return None
        except InputError as error:
            self.problem = str(error)
            return None
        return chosen
