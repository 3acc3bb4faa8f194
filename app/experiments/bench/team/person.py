"""A simulated annotator who labels on a simulated page and gives correct answers, apart from some errors."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from closecall.app.experiments.bench.annotator import Truth
from closecall.app.experiments.bench.team.card import Given, Store
from closecall.app.experiments.bench.team.page import Page
from closecall.app.experiments.bench.team.requests import Request

LOOKS = (0.5, 1.5)
"""Range of the time that an annotator looks at an image, as multiples of the pace."""

RELOADS = 0.25
"""Probability that an annotator is impatient on a page.

An impatient annotator reloads the page if there is no item to answer for `UNANSWERED_SECONDS`.
"""

UNANSWERED_SECONDS = 5.0
"""Seconds of waiting for the server, after which a page shows that it waits.

Impatient annotators reload the page after this time.
"""

RECENT = 50
"""Number of recent key presses that `Person.has_saved_since` considers."""

SETTLE_SECONDS = 60.0
"""Maximum seconds to wait until the server has acknowledged the last answers."""


@dataclass(frozen=True)
class Manner:
    """The working habits of all annotators.

    Parameters
    ----------
    pace : float
        Mean seconds that an annotator looks at an image.
    noise : float
        Probability of a wrong answer, 0 … 1.
    seed : int
    """

    pace: float = 0.7
    noise: float = 0.05
    seed: int = 0


@dataclass
class Press:
    """A key press that gave an answer, and the times of what followed.

    All times in this module are in seconds since 1970 UTC.

    Parameters
    ----------
    given : Given
        The answer.
    at : float
        When the answer was given.
    next_at : float or None
        When the next item was ready; None if no item followed.
    saved_at : float or None
        When the page learned that the server had stored the answer; None if that did not happen.
    """

    given: Given
    at: float
    next_at: float | None = None
    saved_at: float | None = None


@dataclass(frozen=True)
class Held:
    """A period in which a page held an item.

    Parameters
    ----------
    item : int
    since, until : float
        Start and end of the period.
    in_view : bool
        Whether the item was in view. If not, the server had sent it in advance as a possible next item.
    """

    item: int
    since: float
    until: float
    in_view: bool


@dataclass
class Diary:
    """A record of what one annotator did.

    Parameters
    ----------
    name : str
        Name of the annotator.
    presses : list of Press
    held : list of Held
    refused : dict
        Reasons why the server refused answers, by the answer's id.
    heard_at : list of float
        Times when the page asked for the whole payloads that arrived; see `Page`.
    reloads : int
        Number of times that the page was reloaded.
    left : float or None
        When the annotator abandoned the page; None if that did not happen.
    left_with : frozenset of int
        Items that were leased to the page when the annotator abandoned the page.
    session : str
        Id of the page's last session.
    """

    name: str
    presses: list[Press] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    heard_at: list[float] = field(default_factory=list)
    reloads: int = 0
    left: float | None = None
    left_with: frozenset[int] = frozenset()
    session: str = ""


class Person:
    """A simulated annotator who labels on a page until `stop` is called, and keeps a diary.

    Parameters
    ----------
    name : str
    request : Request
        Makes the requests of the annotator's pages.
    project : str
        Key of the project.
    truth : Truth
    manner : Manner
    begin : asyncio.Event
        Event that starts the labeling.
    leaves_after : float or None
        Seconds from `begin` until the annotator abandons the page; None to stay.

    Attributes
    ----------
    diary : Diary
    arrived : asyncio.Event
        Set once the page shows its first item.
    """

    def __init__(
        self,
        name: str,
        request: Request,
        project: str,
        truth: Truth,
        manner: Manner,
        begin: asyncio.Event,
        leaves_after: float | None = None,
    ) -> None:
        self.diary = Diary(name)
        self.arrived = asyncio.Event()
        self._request = request
        self._project = project
        self._session: str | None = None
        self._truth = truth
        self._manner = manner
        self._begin = begin
        self._leaves_after = leaves_after
        self._store: Store = {}
        self._rng = random.Random(f"{manner.seed} {name}")
        self._page: Page | None = None
        self._news = asyncio.Event()
        self._over = asyncio.Event()
        self._unsaved: dict[str, Press] = {}
        self._unfollowed: Press | None = None
        self._in_hand: dict[int, tuple[float, bool]] = {}

    def stop(self) -> None:
        """Make the annotator stop answering."""
        self._over.set()

    def has_saved_since(self, moment: float) -> bool:
        """Return whether one of the last `RECENT` answers was acknowledged by the server after `moment`."""
        return any((press.saved_at or 0.0) >= moment for press in self.diary.presses[-RECENT:])

    async def sit(self) -> None:
        """Open the page and label until `stop` is called, then wait until all answers are saved.

        If the annotator has `leaves_after`, abandon the page at that time without waiting.
        """
        leaves_at: float | None = None
        while not (self._over.is_set() or self.diary.left):
            async with self._opened() as page:
                if not self.arrived.is_set():
                    await self._until(lambda: page.card.can_answer, None, self._over)
                    self.arrived.set()
                    await self._begin.wait()
                    if self._leaves_after is not None:
                        leaves_at = time.time() + self._leaves_after
                await self._label(page, leaves_at)
                self._session = page.session
                if self._over.is_set():
                    await self._saved()
                elif leaves_at is not None and time.time() >= leaves_at:
                    self.diary.left, self.diary.left_with = time.time(), frozenset(page.card.in_hand)
                else:
                    self.diary.reloads += 1
        self._let_go()

    async def come_back(self) -> None:
        """If the browser still has unsaved answers, open the page again and wait until they are saved."""
        if self._store:
            async with self._opened():
                await self._saved()
            self._let_go()

    async def _saved(self) -> None:
        await self._until(lambda: not self._store, SETTLE_SECONDS, is_over=asyncio.Event())

    def _opened(self) -> Page:
        self._page = Page(self._request, self._project, self._session, self._store, self._heard)
        return self._page

    async def _label(self, page: Page, leaves_at: float | None) -> None:
        """Label until `stop` is called, or until it is time to leave or to reload the page."""
        patience = UNANSWERED_SECONDS if self._rng.random() < RELOADS else None
        while True:
            if not await self._until(lambda: page.card.can_answer, patience, self._over):
                return
            look = self._manner.pace * self._rng.uniform(*LOOKS)
            if leaves_at is not None and time.time() + look >= leaves_at:
                await self._pause(max(0.0, leaves_at - time.time()))
                return
            if await self._pause(look):
                return
            if page.card.can_answer:  # the server may have withdrawn the image in the meantime
                self._answer(page, look)

    def _answer(self, page: Page, look: float) -> None:
        item = page.card.item
        assert item is not None
        is_yes = self._truth([item.id])[0] != (self._rng.random() < self._manner.noise)
        now = time.time()
        given, is_followed = page.card.answer("yes" if is_yes else "no", taken_ms=round(1000 * look))
        press = Press(given, now, now if is_followed else None)
        self.diary.presses.append(press)
        self._unsaved[given.id] = press
        self._unfollowed = None if is_followed else press
        self._note_hands(page)

    def _heard(self, asked: float | None) -> None:
        page, now = self._page, time.time()
        assert page is not None
        if asked is not None:
            self.diary.heard_at.append(asked)
        self.diary.session = page.card.session or ""
        waiting = page.card.saving
        for name in [name for name in self._unsaved if name not in waiting]:
            press = self._unsaved.pop(name)
            if name in page.card.refused:
                self.diary.refused[name] = page.card.refused[name]
            else:
                press.saved_at = now
        if self._unfollowed is not None and page.card.can_answer:
            self._unfollowed.next_at, self._unfollowed = now, None
        self._note_hands(page)
        self._news.set()

    def _note_hands(self, page: Page) -> None:
        """Record the items that the page holds from now on, and those that it no longer holds."""
        now, card = time.time(), page.card
        in_view = card.item.id if card.item and card.can_answer else None
        wanted = {item: item == in_view for item in card.in_hand}
        for item, (since, was_in_view) in list(self._in_hand.items()):
            if wanted.get(item) is not was_in_view:
                self.diary.held.append(Held(item, since, now, was_in_view))
                del self._in_hand[item]
        for item, is_in_view in wanted.items():
            self._in_hand.setdefault(item, (now, is_in_view))

    def _let_go(self) -> None:
        now = time.time()
        self.diary.held += [
            Held(item, since, now, in_view) for item, (since, in_view) in self._in_hand.items()
        ]
        self._in_hand = {}

    async def _pause(self, seconds: float) -> bool:
        """Wait for `seconds`, or until `stop` is called; return whether it was called."""
        try:
            await asyncio.wait_for(self._over.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def _until(
        self, condition: Callable[[], bool], seconds: float | None, is_over: asyncio.Event
    ) -> bool:
        """Wait until `condition` is true, for at most `seconds`, or until `is_over` is set.

        Return whether the condition became true. The condition is checked after each payload.
        """
        until = None if seconds is None else time.time() + seconds
        while not (is_over.is_set() or condition()):
            left = None if until is None else until - time.time()
            self._news.clear()
            waits = [asyncio.ensure_future(event.wait()) for event in (self._news, is_over)]
            done, rest = await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for wait in rest:
                wait.cancel()
            if not done:
                return False
        return not is_over.is_set()
