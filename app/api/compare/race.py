"""A race of query strategies on the Compare page: all learn the same question, at a chosen speed.

The rounds are computed by `core.simulation.race`. One server thread alternates between running a round and
drawing its pictures, so that no picture is drawn while a selection is timed. The browser regularly requests
the rounds that it does not have yet. When the requests stop, the race pauses. `ROUNDS` and `FIRST_PICKS` are
taken from Jain, Vijayanarasimhan and Grauman, "Hashing Hyperplane Queries to Near Points with Applications to
Large-Scale Active Learning" (NIPS 2010).
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from closecall.app.display.strategy_labels import label_of, name_of
from closecall.core.duplicates import unrepeated_held_out
from closecall.core.errors import InputError
from closecall.core.selection import QueryStrategy
from closecall.core.simulation.race import Course, Race, Turn

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession

ROUNDS = 300
"""Number of rounds, as in section 4 of the paper."""

SPEEDS = (1, 3, 10, 30)
"""Speeds that the page offers, in rounds per second; a slow machine may not reach them."""

USUAL_SPEED = 10

FIRST_PICKS = 7
"""Number of first picks that are shown per strategy, as in figure 3a of the paper."""

LEFT_SECONDS = 4.0
"""The race pauses after this many seconds without a request from the browser."""

AT_ONCE = 300
"""Maximum number of rounds in one reply."""

Told = list[float | None] | None
"""One selection of one strategy, as the browser gets it; see `LiveRace.since`."""

Settings = tuple[str, int]
"""What a race depends on: the name of the project's description, and the number of first labels per class."""

_races: WeakValueDictionary[str, LiveRace] = WeakValueDictionary()
_last: WeakKeyDictionary[LabelingSession, tuple[Settings, LiveRace]] = WeakKeyDictionary()


def find_race(key: str) -> LiveRace | None:
    """Return the race with this key, or None if it no longer exists. Only the race's viewer knows the key."""
    return _races.get(key)


def last_race(session: LabelingSession) -> tuple[Settings, LiveRace] | None:
    """Return the session's last race and its settings, also after the page was reloaded; None if none."""
    return _last.get(session)


def keep_race(session: LabelingSession, settings: Settings, race: LiveRace) -> None:
    """Keep a race as the session's last one, as long as the session is open."""
    _last[session] = settings, race


class LiveRace:
    """A race of query strategies in progress. Thread-safe.

    Parameters
    ----------
    session : LabelingSession
        The session whose question is learned. All SVMs have this question's parameters.
    strategies : mapping of str to QueryStrategy
        The competing strategies by name, fitted to the pool. Each has a lane: its own labels and SVM.
    n_first : int
        Labels per class to start with.
    run : int
        Index of the repetition; each repetition draws its own first labels.
    speed : int
        Initial speed, one of `SPEEDS`.

    Raises
    ------
    InputError
        If true classes are unknown, if no items are held out, or if the positive class has too few items.
    """

    def __init__(
        self,
        session: LabelingSession,
        strategies: Mapping[str, QueryStrategy],
        *,
        n_first: int,
        run: int = 0,
        speed: int = USUAL_SPEED,
    ) -> None:
        project, record = session.project, session.concept.record
        pool = project.pool
        has_truth = pool is not None and record.positive_class in pool.classes
        if pool is not None and has_truth and not (pool.complete or len(pool.held_out.ids)):
            raise InputError("The pool has no held-out items yet: a race can begin when more of it is built")
        if pool is None or not has_truth or not len(unrepeated_held_out(pool)):
            raise InputError(
                "A race needs items whose truth is known, some of them held out, and a question about one of "
                "their classes"
            )
        self.key = secrets.token_urlsafe(16)
        self.n_first = n_first
        self.run = run
        self._pool = pool
        self._pictures = project.pictures
        self._troubles = project.troubles
        course = Course(
            positive=pool.classes.index(record.positive_class),
            run=run,
            n_first=n_first,
            C=record.c,
            class_weight=record.class_weight,
        )
        self._race = Race(pool, strategies, course)
        self._words = list(strategies)
        self._used = session.strategy
        self._told: list[list[Told]] = []
        self._firsts: list[list[str]] = []
        self._picks: list[str] | None = None
        self._picks_are_wanted = False
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._left_to_run = 0
        self._speed = speed
        self._looked = time.monotonic()
        # The first picture loads the source's libraries, which takes time.
        self._picture(int(self._race.first.ids[0]))
        _races[self.key] = self

    @property
    def words(self) -> list[str]:
        """Names of the strategies, in the order of a round's turns."""
        return self._words

    @property
    def speed(self) -> int:
        """Requested rounds per second."""
        return self._speed

    @property
    def is_over(self) -> bool:
        """Return whether all rounds have been run, or all strategies have failed."""
        return len(self._told) >= ROUNDS or self._race.is_over

    def start(self) -> None:
        """Run rounds until the race is over or paused."""
        self._go(ROUNDS)

    def step(self) -> None:
        """Run one round."""
        self._go(1)

    def pause(self) -> None:
        """Pause after the current round."""
        with self._changed:
            self._left_to_run = 0
            self._changed.notify()

    def set_speed(self, speed: int) -> None:
        """Set the number of rounds per second; a slow machine may not reach it.

        Raises
        ------
        InputError
            If the speed is not one of `SPEEDS`.
        """
        if speed not in SPEEDS:
            raise InputError(f"speed must be one of {', '.join(map(str, SPEEDS))}, got {speed}")
        with self._changed:
            self._speed = speed
            self._changed.notify()

    def about(self) -> dict[str, Any]:
        """Return the facts that do not change during the race, as JSON."""
        held_out, first = unrepeated_held_out(self._pool), self._race.first
        return {
            "race": self.key,
            "lanes": [
                {"strategy": name_of(word), "label": label_of(word), "in_use": word == self._used}
                for word in self._words
            ],
            "rounds": ROUNDS,
            "n_first": len(first),
            "first_auroc": self._race.first_accuracy.auroc,
            "held_out": len(held_out.ids),
            "speeds": list(SPEEDS),
            "first_picks": FIRST_PICKS,
        }

    def since(self, n_known: int, *, pictures: bool = False) -> dict[str, Any]:
        """Return up to `AT_ONCE` rounds after the first `n_known` rounds as JSON, with pictures if requested.

        Each round has one turn per strategy: a list of the AUROC, |wᵀx + b| of the picked item, the selection
        time in milliseconds, and the number of items scored. If a strategy has failed, its turn is null. The
        pictures show the items picked in the last round that was drawn.
        """
        until = n_known + AT_ONCE
        with self._lock:
            self._looked = time.monotonic()
            self._picks_are_wanted |= pictures
            turns, firsts = self._told[n_known:until], self._firsts[n_known:until]
            is_running, speed = self._thread is not None, self._speed
        return {
            "known": n_known,
            "turns": turns,
            "firsts": firsts,
            "picks": self._picks if pictures else None,
            "failures": [lane.failure for lane in self._race.lanes],
            "is_running": is_running,
            "is_over": self.is_over,
            "speed": speed,
        }

    def _go(self, rounds: int) -> None:
        with self._changed:
            if self.is_over:
                return
            self._left_to_run = rounds
            self._looked = time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="race", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        """Run rounds at the requested speed until the race is paused, over, or without a viewer."""
        with self._troubles.noted("A race of strategies"):
            self._run_rounds()
        with self._changed:  # so that the race can be started again after a failure
            if self._thread is threading.current_thread():
                self._thread, self._left_to_run = None, 0

    def _run_rounds(self) -> None:
        due = time.monotonic()
        while self._is_to_go_on():
            turns = {turn.strategy: turn for turn in self._race.step()}
            own = [turns.get(word) for word in self._words]
            self._draw([turn.item if turn else None for turn in own])
            with self._changed:
                self._told.append([_told(turn) for turn in own])
                self._left_to_run -= self._left_to_run > 0
                due = max(due + 1 / self._speed, time.monotonic() - 1 / self._speed)
                while self._left_to_run and (rest := due - time.monotonic()) > 0:
                    self._changed.wait(rest)

    def _draw(self, items: Sequence[int | None]) -> None:
        """Draw a round's pictures if the round is one of the first, the last before a pause, or requested."""
        is_first = len(self._firsts) < FIRST_PICKS
        if is_first or self._picks_are_wanted or self._left_to_run <= 1:
            self._picks_are_wanted = False
            self._picks = [self._picture(item) for item in items]
            if is_first:
                self._firsts.append(self._picks)

    def _is_to_go_on(self) -> bool:
        with self._changed:
            is_watched = time.monotonic() - self._looked < LEFT_SECONDS
            if self._left_to_run and not self.is_over and is_watched:
                return True
            self._thread, self._left_to_run = None, 0
            return False

    def _picture(self, item: int | None) -> str:
        try:
            return "" if item is None else self._pictures.thumbnail(item)
        except InputError:
            return ""


def _told(turn: Turn | None) -> Told:
    """Return the results of one strategy's turn in a round, as described in `LiveRace.since`.

    If the strategy had no turn, return None. The selection time is the shorter of the wall-clock and the
    processor time, because other work may delay a selection.
    """
    if turn is None:
        return None
    auroc = None if turn.accuracy.auroc is None else round(turn.accuracy.auroc, 5)
    seconds = min(turn.select_seconds, turn.select_cpu_seconds)
    return [auroc, float(f"{turn.margin:.3g}"), float(f"{1000 * seconds:.4g}"), turn.scored]
