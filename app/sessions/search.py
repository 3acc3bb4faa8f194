"""A view of search results, which are shown and answered page by page, like a grid.

Items that have an answer, or are leased to another person, are marked on the page. They can't be answered
here, and no selection is logged for them. For the other items, the log records how each was found.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from closecall.app.engine.occasion import Occasion
from closecall.app.engine.selection import Chosen, leasing, take_found
from closecall.app.sessions.answers import Outcome
from closecall.app.sessions.grid import BatchSession
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.storage import Labels

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession


class SearchPage(NamedTuple):
    """A page of results.

    Parameters
    ----------
    how : dict
        Parameters for the log that say how each item was found. The keys are the items, in the page's order.
    facts : dict
        Keyword arguments for `app.engine.selection.take_found`.
    of_first : dict
        Parameters for the log that only the first record has, because they are long and equal for all items.
    """

    how: dict[int, dict[str, Any]]
    facts: dict[str, Any]
    of_first: Mapping[str, Any] = MappingProxyType({})


class SearchSession(BatchSession):
    """A view that shows, page by page, the items that a search found."""

    QUERY: ClassVar[tuple[str, ...]]
    """Keys under which a browser's request has the texts of the query."""

    SIZE: ClassVar[int]
    """Items per page."""

    def __init__(self, session: LabelingSession) -> None:
        self.first = 0
        """Place of the page's first item among the items found, from 0."""
        self._asked: object = None
        self._acked: set[str] = set()
        super().__init__(session)

    def ask(self, asked: object) -> None:
        """Handle a browser's request only once, although the browser repeats it at each run of the page.

        Raises
        ------
        InputError
            If the request is malformed.
        """
        if not isinstance(asked, Mapping) or asked.get("id") == self._asked:
            return
        query, first = [asked.get(key) for key in self.QUERY], asked.get("first")
        texts = [text for text in query if isinstance(text, str)]
        if not (len(texts) == len(query) and isinstance(first, int)):
            got = " and ".join(f"{value!r:.80}" for value in (*query, first))
            raise InputError(f"a search must have {' and '.join(self.QUERY)} and first, got {got}")
        self._asked = asked.get("id")
        self._ask(texts, first)

    def store(self, answers: Sequence[Mapping[str, Any]]) -> Outcome:
        """Store answers as a grid does; show the next page if no item on this page can be answered.

        While the browser polls, for example during the preparation of an index, it sends its last answers
        again. Repeated answers don't turn the page.
        """
        with self.session.lock:
            outcome = super().store(answers)
            is_new = not self._acked.issuperset(outcome.acked)
            self._acked.update(outcome.acked)
            if is_new:
                self.attend()
                if not self.shown and self.first + self.SIZE < self._n_found():
                    self.first += self.SIZE
            return outcome

    @abstractmethod
    def _ask(self, query: Sequence[str], first: int) -> None:
        """Search for the texts in `query`; show the page that contains place `first` of the results."""

    @abstractmethod
    def _page(self, pool: Pool, labels: Labels) -> SearchPage | None:
        """Search if necessary, and return the page in view; None if there is no result."""

    @abstractmethod
    def _n_found(self) -> int:
        """Return the number of items found."""

    def _select(self, pool: Pool) -> Chosen | None:
        occasion = self.session.occasion(pool).sharing_own()
        standing = self.session.concept.standing()
        page = self._page(pool, standing.labels)
        if page is None:
            return None
        trained = self.session.concept.train(pool, standing)
        ids = np.array(list(page.how), dtype=np.int64)

        def attempt(occasion: Occasion) -> Chosen:
            free = ids[~np.isin(ids, occasion.taken(standing))]
            own = [{self.MARK: page.how[item]} for item in free.tolist()]
            if own:
                own[0] |= page.of_first
            return take_found(occasion, trained, free, own, **page.facts)

        chosen = leasing(occasion, attempt)
        return chosen if chosen.records else None
