"""Items in a lasso on the map, in a grid: a part of the pool that somebody wants to label.

Each page shows the items that have no answer yet, nearest to the hyperplane first. Like a grid of the queue,
it leaves out items that are leased to other sessions. If annotators are asked about near-duplicates only
once, it also leaves out near-duplicates of answered or leased items. The log records the lasso, so that
``closecall verify`` can repeat the selection.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.exclusion import excluded_from_lasso
from closecall.app.engine.lasso import PAGE, Lasso, select_among
from closecall.app.engine.selection import Chosen, Occasion, leasing, take_found
from closecall.app.engine.selection_parameters import LASSO, POLYGON, RULE
from closecall.app.sessions.grid import Batch, BatchSession
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.selection import PoolExhausted
from closecall.storage import Standing
from closecall.storage.ascending import without

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession


class LassoSession(BatchSession):
    """A grid of the items in a lasso.

    Items that come into the pool, or onto the map, after the lasso was drawn are not in it.

    Attributes
    ----------
    lasso : Lasso or None
        None before the first lasso.
    problem : str or None
        A sentence that says why there are no items, or None.
    """

    MARK = LASSO

    def __init__(self, session: LabelingSession) -> None:
        self.lasso: Lasso | None = None
        self.problem: str | None = None
        self._inside: NDArray[np.int64] | None = None  # the items in the lasso, once they are known
        super().__init__(session)

    def look_in(self, lasso: Lasso) -> None:
        """Show the items in this lasso from now on.

        Raises
        ------
        InputError
            If there are no items yet, or the pool no longer has the map of the lasso.
        """
        pool = self.session.project.pool
        if pool is None:
            raise InputError("The pool has no items yet")
        with self.session.lock:
            if lasso != self.lasso:
                inside = lasso.items(pool)
                self.lasso, self._inside, self.problem, self.shown = lasso, inside, None, ()

    def items(self, pool: Pool) -> NDArray[np.int64]:
        """Return the items in the lasso, ascending. If they can't be found, set `problem` and return none."""
        if self._inside is None and self.lasso is not None:
            try:
                self._inside, self.problem = self.lasso.items(pool), None
            except InputError as error:
                self.problem = str(error)
        return np.empty(0, dtype=np.int64) if self._inside is None else self._inside

    def left(self, pool: Pool) -> NDArray[np.int64]:
        """Return the items in the lasso that can be answered here, ascending."""
        return _left(self.items(pool), self.session.occasion(pool), self.session.concept.standing())

    def _select(self, pool: Pool) -> Chosen | None:
        inside, lasso = self.items(pool), self.lasso
        if lasso is None or not len(inside):
            return None
        occasion = self.session.occasion(pool)
        standing, trained = self.session.concept.trained(pool)

        def attempt(occasion: Occasion) -> Chosen:
            left = _left(inside, occasion, standing)
            found = select_among(pool, left, trained, PAGE, standing.groups, rule=RULE)
            own: list[dict[str, Any]] = [
                {LASSO: {"n": PAGE, "place": place}} for place in range(len(found.ids))
            ]
            own[0][POLYGON] = lasso.params()
            return take_found(
                occasion,
                trained,
                found.ids,
                own,
                why="lasso",
                seconds=found.seconds,
                scored=found.scored,
                groups=standing.groups,
            )

        try:
            return leasing(occasion, attempt, standing.groups)
        except PoolExhausted:
            return None

    def _take_up(self, batch: Batch) -> None:
        with suppress(InputError, KeyError):  # a damaged log
            self.lasso, self._inside = Lasso.of(batch[0].parameters[POLYGON]), None


def _left(inside: NDArray[np.int64], occasion: Occasion, standing: Standing) -> NDArray[np.int64]:
    """Return the items `inside` that are not excluded, ascending."""
    include_skipped, leased = occasion.include_skipped, occasion.leased
    exclude = excluded_from_lasso(standing, leased, include_skipped=include_skipped, rule=RULE)
    return without(inside, exclude)
