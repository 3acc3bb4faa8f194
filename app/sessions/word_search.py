"""Items found by a description in words, nearest first, in a grid.

The search needs a pool whose features come from the vision model of a pair such as CLIP; see
`core.similar.description`. Until the question has a yes and a no, labeling starts with the items nearest to
the last description in words. The log records the direction of each description, so that ``verify`` can
repeat the search, and the selections with which labeling starts, without the text model.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.directions import PAGE, Direction
from closecall.app.engine.selection_parameters import DIRECTION, WORDS, description_of
from closecall.app.sessions.grid import Batch
from closecall.app.sessions.search import SearchPage, SearchSession
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.similar import ByAngle, ExactSearch, Neighbours
from closecall.core.similar.description import Description
from closecall.storage import Labels

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession

MOST = 10 * PAGE
"""Maximum number of items found; items further away hardly show what is described."""

LONGEST = 500
"""Maximum length of the description in words, and of what is excluded, in characters."""

SEPARATOR = ";"
"""Separator between several descriptions of the same thing."""


def can_describe(pool: Pool | None) -> bool:
    """Return whether the pool's items can be searched by words, as far as known without loading a model."""
    try:
        return pool is not None and pool.source.has_text_model
    except InputError:  # the source is gone
        return False


def nearest(pool: Pool, vector: NDArray[np.float32]) -> Neighbours:
    """Return the `MOST` items nearest to a direction; ties go to the lower id.

    Raises
    ------
    InputError
        If the direction has another number of features than the items.
    """
    return ExactSearch(ByAngle(pool)).neighbours(vector, MOST)


@dataclass(frozen=True, eq=False)
class _Search:
    """The result of a search among `n_items` items, with the direction and the time in seconds."""

    direction: Direction
    n_items: int
    found: Neighbours
    seconds: float


class WordSession(SearchSession):
    """A search for the items nearest to a description in words.

    Attributes
    ----------
    text, excluded : str
        What is wanted and what is not wanted, in words. Several descriptions of the same thing are separated
        by `SEPARATOR`. If `text` is empty, there is no search.
    problem : str or None
        A sentence that says why there is no result, or None.
    notes : list of str
        A sentence for each description in words that is too long for the text model.
    """

    MARK, QUERY, SIZE = WORDS, ("text", "excluded"), PAGE

    def __init__(self, session: LabelingSession) -> None:
        self.text = self.excluded = ""
        self.problem: str | None = None
        self.notes: list[str] = []
        self._direction: Direction | None = None  # of the texts; None until computed
        self._search: _Search | None = None
        super().__init__(session)
        # Load the model in the background, so that the first search needn't wait for it.
        session.project.background.submit(_load_model, session.project.pool)

    def look_for(self, text: str, excluded: str = "", first: int = 0) -> None:
        """Search by words, and show the page that contains place `first` of the results, from 0.

        Raises
        ------
        InputError
            If a text is too long.
        """
        text, excluded = _tidy(text), _tidy(excluded)
        first = min(max(0, first), MOST - 1) // PAGE * PAGE
        with self.session.lock:
            if (text, excluded) != (self.text, self.excluded):
                self.text, self.excluded = text, excluded
                self.problem, self.notes, self._direction, self._search = None, [], None, None
                self.first, self.shown = first, ()
            elif first != self.first:
                self.first, self.shown = first, ()

    def go_to(self, text: str, excluded: str = "") -> None:
        """Search for `text` and `excluded`, which come from the address of the browser's page.

        If these are the texts of the current search, nothing changes, and the same results stay in view.
        """
        if [_parts(text), _parts(excluded)] != [_parts(self.text), _parts(self.excluded)]:
            self.look_for(text, excluded)

    def _ask(self, query: Sequence[str], first: int) -> None:
        text, excluded = query
        self.look_for(text, excluded, first)

    def _page(self, pool: Pool, labels: Labels) -> SearchPage | None:  # noqa: ARG002 (they don't matter)
        if self._search is not None and self._search.n_items != len(pool):
            self._search = None  # the pool has grown
        self.problem = None  # try again: the text model may be back
        search = self._searched(pool)
        if search is None:
            return None
        direction, ids = search.direction, search.found.ids
        self.first = min(self.first, max(0, len(ids) - 1) // PAGE * PAGE)
        words = {"texts": list(direction.texts), "excluded": list(direction.excluded)}
        places = enumerate(ids[self.first : self.first + PAGE].tolist(), self.first)
        how = {item: {**words, "place": place} for place, item in places}
        facts = {"why": "words", "seconds": search.seconds, "scored": search.found.scored}
        return SearchPage(how, facts, {DIRECTION: direction.params()})

    def _choose(self) -> None:
        super()._choose()
        if not self.shown:
            return
        self.session.concept.refresh_direction()
        left = self.session.left
        if left is not None and left.hyperplane_digest is None:
            self.session.left = None  # labeling now starts with this description

    def _n_found(self) -> int:
        pool = self.session.project.pool
        return 0 if pool is None else len(self.found(pool))

    def _is_own(self, batch: Batch) -> bool:
        """Return whether the batch was found by words, with the features of the items that are in use now."""
        return super()._is_own(batch) and description_of(batch[0]) == self.session.concept.description

    def _take_up(self, batch: Batch) -> None:
        words = batch[0].parameters[WORDS]
        self.text, self.excluded = (_joined(words[part]) for part in ("texts", "excluded"))
        self.first = words["place"] // PAGE * PAGE
        self._search = self._direction = None
        with suppress(InputError, KeyError):  # a damaged log: the model gives the direction again
            self._direction = Direction.of(batch[0].parameters[DIRECTION])

    def found(self, pool: Pool) -> NDArray[np.int64]:
        """Return the items found, nearest first, in the pool as it was when the page in view was chosen."""
        if self.shown and self._search is None:
            pool = pool.prefix(min(self.shown[0].items_total, len(pool)))
        search = self._searched(pool)
        return np.empty(0, dtype=np.int64) if search is None else search.found.ids

    def page(self, pool: Pool) -> list[int]:
        """Return the items on the page in view, including items that can't be answered here."""
        page: list[int] = self.found(pool)[self.first : self.first + PAGE].tolist()
        return page

    def _searched(self, pool: Pool) -> _Search | None:
        """Return the last search, or search this snapshot of the pool if there is none.

        If there is no text to search for, return None. If the search fails, set `problem` and return None.
        """
        if not self.text or self.problem is not None:
            return None
        if self._search is None:
            started = time.perf_counter()
            try:
                if self._direction is None:
                    self._direction = self._described(pool)
                found = nearest(pool, self._direction.vector)
            except InputError as error:
                self.problem = str(error)
                return None
            self._search = _Search(self._direction, len(pool), found, time.perf_counter() - started)
        return self._search

    def _described(self, pool: Pool) -> Direction:
        description = Description(_parts(self.text), _parts(self.excluded))
        model = pool.source.text_model()
        vector = description.direction(model)
        self.notes = description.notes(model)
        return Direction(tuple(description.texts), tuple(description.excluded), vector)


def _load_model(pool: Pool | None) -> None:
    with suppress(InputError):  # a search reports it
        if pool is not None:
            pool.source.text_model()


def _tidy(text: str) -> str:
    text = " ".join(text.split())
    if len(text) > LONGEST:
        raise InputError(f"a description must have at most {LONGEST} characters, got {len(text)}")
    return text


def _parts(text: str) -> list[str]:
    """Return the parts of a text between separators (`SEPARATOR`); empty parts are left out."""
    return [" ".join(part.split()) for part in text.split(SEPARATOR) if part.strip()]


def _joined(texts: Sequence[str]) -> str:
    return f"{SEPARATOR} ".join(texts)
