"""Items found by name, in a grid: often the quickest way to the first positives.

Whoever types a part of a file name sees the items that are called so, page by page, and marks and sends them
as in any grid. The log says of each what it was found by, so that the search can be made again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.selection import Chosen, Occasion, leasing, take_found
from closecall.app.engine.training import SEARCH
from closecall.app.sessions.answers import Outcome
from closecall.app.sessions.grid import Batch, BatchSession
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession

PAGE = 60
"""Items shown at once."""

LONGEST = 200
"""Characters that may be searched for."""


@dataclass(frozen=True, eq=False)
class _Search:
    """What a search for `text` in the names of `n_names` items found, and what it took."""

    text: str
    n_names: int
    items: NDArray[np.int64]
    seconds: float


NOTHING = _Search("", 0, np.empty(0, dtype=np.int64), 0.0)


class FoundSession(BatchSession):
    """The items whose names contain some words, from the lowest id on.

    Those that have an answer already, or that another session has in view, are shown as such: they get no
    selection, and can't be answered here.

    Parameters
    ----------
    session : LabelingSession
        Whose concept, log and lock it shares.

    Attributes
    ----------
    text : str
        What is searched for.
    first : int
        Which of the items found is the first in view, from 0.
    """

    MARK = SEARCH

    def __init__(self, session: LabelingSession) -> None:
        self.text = ""
        self.first = 0
        self._asked: object = None
        self._search = NOTHING
        super().__init__(session)
        # Names are collected at the first search: it shall not wait for that.
        session.project.background.submit(session.project.search, "")

    def look_for(self, text: str, first: int = 0) -> None:
        """Show what is called so, the page with the item at place `first`.

        Raises
        ------
        InputError
            If the text is too long.
        """
        text = " ".join(text.split())
        if len(text) > LONGEST:
            raise InputError(f"a search must have at most {LONGEST} characters, got {len(text)}")
        first = max(0, first) // PAGE * PAGE
        with self.session.lock:
            if (text, first) != (self.text, self.first):
                self.text, self.first, self.shown = text, first, ()

    def go_to(self, text: str) -> None:
        """Look for what the address says; where that is what is in view, its page stays."""
        if " ".join(text.split()) != self.text:
            self.look_for(text)

    def ask(self, asked: object) -> None:
        """Take up what a browser asked for, once; it says the same at each run of the page.

        Raises
        ------
        InputError
            If it can't be read.
        """
        if not isinstance(asked, Mapping) or asked.get("id") == self._asked:
            return
        text, first = asked.get("text"), asked.get("first")
        if not (isinstance(text, str) and isinstance(first, int)):
            raise InputError(f"a search must have a text and a place, got {text!r:.80} and {first!r:.80}")
        self._asked = asked.get("id")
        self.look_for(text, first)

    def store(self, answers: Sequence[Mapping[str, Any]]) -> Outcome:
        """As of any batch; where a page has nothing left to answer, the next one follows."""
        with self.session.lock:
            outcome, pool = super().store(answers), self.session.project.pool
            if outcome.acked and pool is not None:
                self.attend()
                if not self.shown and self.first + PAGE < len(self.found(pool)):
                    self.first += PAGE
            return outcome

    def _select(self, pool: Pool) -> Chosen | None:
        found = self._searched(pool)
        self.first = min(self.first, max(0, len(found.items) - 1) // PAGE * PAGE)
        session = self.session
        occasion, standing = session.occasion(pool), session.concept.standing()
        page = found.items[self.first : self.first + PAGE]
        trained = session.concept.train(pool, standing)

        def attempt(occasion: Occasion) -> Chosen:
            free = np.flatnonzero(~np.isin(page, occasion.taken(standing)))
            own = [{SEARCH: {"text": self.text, "place": place}} for place in (self.first + free).tolist()]
            return take_found(occasion, trained, page[free], own, why="search", seconds=found.seconds)

        chosen = leasing(occasion, attempt)
        return chosen if chosen.records else None

    def _take_up(self, batch: Batch) -> None:
        search = batch[0].parameters[SEARCH]
        self.text, self.first = search["text"], search["place"] // PAGE * PAGE

    def found(self, pool: Pool) -> NDArray[np.int64]:
        """The items that are called so, in the order of their ids."""
        return self._searched(pool).items

    def page(self, pool: Pool) -> list[int]:
        """Those of them that are in view, be they free or not."""
        page: list[int] = self.found(pool)[self.first : self.first + PAGE].tolist()
        return page

    def _searched(self, pool: Pool) -> _Search:
        """What is called so in this snapshot of the pool; without a text nothing, which waits for no name."""
        if not self.text:
            return NOTHING
        if (self._search.text, self._search.n_names) != (self.text, len(pool)):
            started = time.perf_counter()
            items = self.session.project.search(self.text, pool)
            self._search = _Search(self.text, len(pool), items, time.perf_counter() - started)
        return self._search
