"""A grid of the items in a lasso on the map: a part of the pool that somebody wants to label.

The items nearest to the hyperplane come first. The log records the lasso, so that ``closecall verify`` can
repeat the selection.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.lasso import PAGE, Lasso, select_among
from closecall.app.engine.selection_parameters import LASSO, POLYGON, RULE
from closecall.app.engine.training import Trained
from closecall.app.sessions.grid import Batch
from closecall.app.sessions.subset import SubsetSession
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.selection import Selection
from closecall.storage import Standing
from closecall.storage.ascending import without

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession


class LassoSession(SubsetSession):
    """A grid of the items in a lasso.

    If an item joins the pool or the map after the lasso was drawn, it is not in the lasso.

    Attributes
    ----------
    lasso : Lasso or None
        The lasso in use; None before the first lasso.
    """

    MARK, WHY, SIZE = LASSO, "lasso", PAGE

    def __init__(self, session: LabelingSession) -> None:
        self.lasso: Lasso | None = None
        self._inside: NDArray[np.int64] | None = None  # the items in the lasso; None until computed
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
        """Return the items in the lasso, ascending.

        Raises
        ------
        InputError
            If the items can no longer be found.
        """
        if self._inside is None and self.lasso is not None:
            self._inside = self.lasso.items(pool)
        return np.empty(0, dtype=np.int64) if self._inside is None else self._inside

    def n_left(self, pool: Pool) -> tuple[int, int]:
        """Return how many items in the lasso can still be answered, and how many items are in the lasso.

        If the items can no longer be found, set `problem` and return (0, 0).
        """
        try:
            inside = self.items(pool)
        except InputError as error:
            self.problem = str(error)
            return 0, 0
        occasion = self.session.occasion(pool).sharing_own()
        excluded = self.excluded(occasion, self.session.concept.standing())
        return len(without(inside, excluded)), len(inside)

    def _first(
        self, pool: Pool, exclude: NDArray[np.int64], trained: Trained, standing: Standing
    ) -> Selection:
        left = without(self.items(pool), exclude)
        return select_among(pool, left, trained, self.SIZE, standing.groups, rule=RULE)

    def _of_item(self, item: int) -> dict[str, Any]:  # noqa: ARG002 (the log needs no more)
        return {}

    def _of_page(self) -> Mapping[str, Any]:
        return {} if self.lasso is None else {POLYGON: self.lasso.params()}

    def _take_up(self, batch: Batch) -> None:
        with suppress(InputError, KeyError):  # a damaged log
            self.lasso, self._inside = Lasso.of(batch[0].parameters[POLYGON]), None
