"""The query strategies that the compare page puts side by side, and how it is with their indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from closecall.app.display.phrases import preparation
from closecall.app.display.strategy_labels import LABELS, label_of, name_of
from closecall.core.errors import InputError
from closecall.core.selection import QueryStrategy

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession

COMPARED = ("random", "subsample", "exhaustive", "h-hash", "eh-hash", "bh-hash", "margin-index")
"""In the order of the rows; strategies of users' own, and what else is in use, come after them."""

REFERENCE = "exhaustive"
"""The full scan."""

BY_CHANCE = ("random", "subsample")
"""Strategies whose pick is a matter of luck: no headline is about them, unless they are in use."""


class Compared:
    """The strategies beside a session's own, in the order of the rows.

    They are known by word, as on the command line; the one in use has its parameters. From the first question
    on their indexes are built in the background.

    Parameters
    ----------
    session : LabelingSession
    """

    def __init__(self, session: LabelingSession) -> None:
        self._session = session
        self._indexes = session.project.indexes

    @property
    def used(self) -> str:
        """The session's own."""
        return self._session.strategy

    @property
    def words(self) -> list[str]:
        """All of them."""
        own = [name for name in self._session.project.strategies() if name not in LABELS]
        words = [self.used if name == name_of(self.used) else name for name in (*COMPARED, *own)]
        return words if self.used in words else [*words, self.used]

    def ready(self) -> dict[str, QueryStrategy]:
        """Those that can be asked; see to it that the others can be, too."""
        self.failures()
        fitted = {word: self._indexes.get(word) for word in self.words}
        return {word: strategy for word, strategy in fitted.items() if strategy is not None}

    def failures(self) -> dict[str, str]:
        """Why some can't be asked, in one sentence each."""
        failed = {}
        for word in self.words:
            try:
                self._indexes.want(word)
            except InputError as error:
                failed[word] = str(error)
            else:
                if reason := self._indexes.state(word).failure:
                    failed[word] = reason
        return failed

    def awaited(self) -> list[str]:
        """Those whose index is still to be built."""
        failed, ready = self.failures(), self.ready()
        return [word for word in self.words if word not in failed and word not in ready]

    def preparation(self, word: str, *, named: bool = False) -> str:
        """How far the index is that a strategy waits for."""
        state, what = self._indexes.state(word), f"{label_of(word)}’s index" if named else "Its index"
        if not state.share:
            return f"{what} is built next."
        return f"{preparation(what, state.share, again=bool(state.notice))}."
