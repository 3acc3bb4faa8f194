"""Follow the changes that other servers make to the same project, except answers.

The database notifies a server of the changes of other servers (`closecall.storage.notices`). A thread then
reads the changed concepts or settings again. Answers need no thread: code that needs the labels reads the log
(`app.engine.concept_state`). If the connection for notices was lost, everything is read again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from closecall.app.engine.concept import LiveConcept
from closecall.app.runtime.background import Troubles, Watch
from closecall.app.runtime.news import News

RETRY_SECONDS = 2.0
"""Seconds to wait before reading again after a failure."""


@dataclass
class _Due:
    """The data to read again. `passed` has the audited items that selections have passed over."""

    everything: bool = False
    settings: bool = False
    concepts: set[int] = field(default_factory=set)
    passed: dict[int, set[int]] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)

    def add(self, other: _Due) -> None:
        """Add the data that `other` names."""
        self.everything |= other.everything
        self.settings |= other.settings
        self.concepts |= other.concepts
        self.sessions |= other.sessions
        for concept, items in other.passed.items():
            self.passed.setdefault(concept, set()).update(items)


class Following:
    """A thread that reads what other servers have changed, until `close`.

    Parameters
    ----------
    news : News
        The project's news.
    concepts : callable
        Returns the concepts that this process has in memory, by id.
    read_settings : callable
        Reads the project file again.
    leave_session : callable
        Called with each session that another server has taken over.
    """

    def __init__(
        self,
        news: News,
        concepts: Callable[[], Mapping[int, LiveConcept]],
        read_settings: Callable[[], None],
        leave_session: Callable[[str], None],
    ) -> None:
        self._news = news
        self._concepts = concepts
        self._read_settings = read_settings
        self._leave_session = leave_session
        self._due = _Due()
        self._lock = threading.Lock()
        self._troubles = Troubles()
        self._watch = Watch("following", self._catch_up, RETRY_SECONDS)
        self._watch.start()
        self._unsubscribe = news.subscribe(self._hear)

    def close(self) -> None:
        """Stop the thread."""
        self._unsubscribe()
        self._watch.close()

    @property
    def problem(self) -> str | None:
        """Return a sentence that says why a change could not be read, or None."""
        return self._troubles.first

    def _hear(self, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "missed":
            due = _Due(everything=True)
        elif not data.get("elsewhere"):
            return
        elif kind == "concept":
            due = _Due(concepts={int(data["concept"])})
        elif kind == "passed":
            due = _Due(passed={int(data["concept"]): set(_whole(data["items"]))})
        elif kind == "settings":
            due = _Due(settings=True)
        elif kind == "session":
            due = _Due(sessions={str(data["session"])})
        else:
            return
        self._add(due)
        self._watch.wake()

    def _add(self, due: _Due) -> None:
        with self._lock:
            self._due.add(due)

    def _catch_up(self) -> None:
        with self._lock:
            due, self._due = self._due, _Due()
        with self._troubles.noted("Following the other servers"):
            try:
                self._read(due)
            except BaseException:
                self._add(due)
                raise

    def _read(self, due: _Due) -> None:
        for session in due.sessions:
            self._leave_session(session)
        if due.settings or due.everything:
            self._read_settings()
        if not (due.everything or due.concepts or due.passed):
            return
        for number, concept in self._concepts().items():
            if due.everything or number in due.concepts:
                concept.refresh()
                # Pages that ran when the other server's news arrived may still have shown the old state.
                self._news.publish("concept", concept=number, elsewhere=False)
            if due.everything:
                concept.audit.forget_passed()
            elif number in due.passed:
                concept.audit.pass_over(due.passed[number])


def _whole(items: Iterable[int] | None) -> Iterable[int]:
    return () if items is None else items
