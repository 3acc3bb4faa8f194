"""Items found by name, in a grid: often the quickest way to the first positives.

A search for part of a file name shows the matching items page by page. They are marked and sent as in any
grid. The log records the search with each item, so that ``verify`` can repeat it.
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
"""Items per page."""

LONGEST = 200
"""Maximum length of the search text, in characters."""


@dataclass(frozen=True, eq=False)
class _Search:
    """The items that a search for `text` in `n_names` names found, and its duration."""

    text: str
    n_names: int
    items: NDArray[np.int64]
    seconds: float


NOTHING = _Search("", 0, np.empty(0, dtype=np.int64), 0.0)


class FoundSession(BatchSession):
    """The items whose names contain the words of a search, ordered by id.

    Items that have an answer or are leased to another session are shown as such. They get no selection and
    can't be answered here.

    Parameters
    ----------
    session : LabelingSession
        The view shares its concept, log and lock.

    Attributes
    ----------
    text : str
        The search text.
    first : int
        Place of the first item in view among the items found, from 0.
    """

    MARK = SEARCH

    def __init__(self, session: LabelingSession) -> None:
        self.text = ""
        self.first = 0
        self._asked: object = None
        self._search = NOTHING
        super().__init__(session)
        # Start to collect the names, so that the first search need not wait for them.
        session.project.background.submit(session.project.search, "")

    def look_for(self, text: str, first: int = 0) -> None:
        """Search for the text and show the page with the item at place `first`.

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
        """Search for the text of the address; keep the page if that search is already in view."""
        if " ".join(text.split()) != self.text:
            self.look_for(text)

    def ask(self, asked: object) -> None:
        """Handle a browser's request once; the browser repeats it at each run of the page.

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
        """Store answers as any batch does; turn the page when nothing on it is left to answer."""
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
        """Return the matching items, ordered by id."""
        return self._searched(pool).items

    def page(self, pool: Pool) -> list[int]:
        """Return the matching items on the page in view, free or not."""
        page: list[int] = self.found(pool)[self.first : self.first + PAGE].tolist()
        return page

    def _searched(self, pool: Pool) -> _Search:
        """Search this snapshot of the pool. An empty text matches nothing and waits for no names."""
        if not self.text:
            return NOTHING
        if (self._search.text, self._search.n_names) != (self.text, len(pool)):
            started = time.perf_counter()
            items = self.session.project.search(self.text, pool)
            self._search = _Search(self.text, len(pool), items, time.perf_counter() - started)
        return self._search
