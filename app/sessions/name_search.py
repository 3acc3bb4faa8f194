"""Items found by name, in a grid. This is often the quickest way to the first positive items.

The search finds items whose names contain the given words, and shows them page by page. The log records the
search text, so that ``closecall verify`` can repeat the search.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.selection_parameters import SEARCH
from closecall.app.sessions.grid import Batch
from closecall.app.sessions.search import SearchPage, SearchSession
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.storage import Labels

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession

PAGE = 60
"""Items per page."""

LONGEST = 200
"""Maximum length of the search text, in characters."""


@dataclass(frozen=True, eq=False)
class _Search:
    """The result of a search for `text` among `n_names` names: the `items` found, and the time in seconds."""

    text: str
    n_names: int
    items: NDArray[np.int64]
    seconds: float


NOTHING = _Search("", 0, np.empty(0, dtype=np.int64), 0.0)


class FoundSession(SearchSession):
    """A search for the items whose names contain all words of `text`, ordered by id."""

    MARK, QUERY, SIZE = SEARCH, ("text",), PAGE

    def __init__(self, session: LabelingSession) -> None:
        self.text = ""
        self._search = NOTHING
        super().__init__(session)
        # Collect the names in the background, so that the first search needn't wait for them.
        session.project.background.submit(session.project.search, "")

    def look_for(self, text: str, first: int = 0) -> None:
        """Search for the text, and show the page that contains place `first` of the results, from 0.

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
        """Search for `text`, which comes from the address of the browser's page.

        If `text` is the text of the current search, nothing changes, and the same results stay in view.
        """
        if " ".join(text.split()) != self.text:
            self.look_for(text)

    def _ask(self, query: Sequence[str], first: int) -> None:
        self.look_for(query[0], first)

    def _page(self, pool: Pool, labels: Labels) -> SearchPage:  # noqa: ARG002 (names don't depend on labels)
        found = self._searched(pool)
        self.first = min(self.first, max(0, len(found.items) - 1) // PAGE * PAGE)
        places = enumerate(self.page(pool), self.first)
        how = {item: {"text": self.text, "place": place} for place, item in places}
        return SearchPage(how, {"why": "search", "seconds": found.seconds})

    def _n_found(self) -> int:
        pool = self.session.project.pool
        return 0 if pool is None else len(self.found(pool))

    def _take_up(self, batch: Batch) -> None:
        search = batch[0].parameters[SEARCH]
        self.text, self.first = search["text"], search["place"] // PAGE * PAGE

    def found(self, pool: Pool) -> NDArray[np.int64]:
        """Return the matching items, ordered by id."""
        return self._searched(pool).items

    def page(self, pool: Pool) -> list[int]:
        """Return the matching items on the page in view, including items that can't be answered here."""
        page: list[int] = self.found(pool)[self.first : self.first + PAGE].tolist()
        return page

    def _searched(self, pool: Pool) -> _Search:
        """Search this snapshot of the pool. An empty text finds no items."""
        if not self.text:
            return NOTHING
        if (self._search.text, self._search.n_names) != (self.text, len(pool)):
            started = time.perf_counter()
            items = self.session.project.search(self.text, pool)
            self._search = _Search(self.text, len(pool), items, time.perf_counter() - started)
        return self._search
