"""The query strategies on the Compare page, and the state of their indexes."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from closecall.app.display.phrases import preparation
from closecall.app.display.strategy_labels import LABELS, label_of, name_of
from closecall.core.errors import InputError
from closecall.core.selection import QueryStrategy, covering, strategy_names

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession

COMPARED = (
    "random",
    "subsample",
    "exhaustive",
    "margin-index",
    "auto",
    "h-hash",
    "eh-hash",
    "bh-hash",
    "h-hash-weighted",
    "eh-hash-weighted",
    "bh-hash-weighted",
)
"""Built-in strategies, in the order of the page's rows. The margin index follows the full scan, and Auto, the
default, follows the margin index.

Users' own strategies follow, and then the strategy in use if it is not yet listed.
"""

DENSE = "eh-hash"
"""A strategy whose index takes minutes to build on a large pool.

It is compared only if it is in use, added or the pool is small.
"""

ON_REQUEST = (DENSE, "lbh-hash", "lbh-hash-weighted")
"""Strategies that can be added to the comparison if it doesn't have them anyway."""

MOST_PRODUCTS = 10**10
"""A pool is small if items × features² is at most this number.

The index of `DENSE` then takes at most about 20 s to build.
"""

REFERENCE = "exhaustive"
"""The full scan, with which the other strategies are compared."""

BY_CHANCE = ("random", "subsample")
"""Strategies whose picks depend on chance. The headline ignores them unless they are in use."""


class Compared:
    """The strategies compared for a session, in the order of the page's rows.

    Strategies are named as on the command line; the name of the session's own strategy includes its
    parameters. The first call of `ready`, `failures` or `awaited` starts building the indexes in the
    background.

    Parameters
    ----------
    session : LabelingSession

    Attributes
    ----------
    added : tuple of str
        Strategies of `offered` that are compared, too.
    """

    def __init__(self, session: LabelingSession) -> None:
        self._session = session
        self._indexes = session.project.indexes
        self.added: tuple[str, ...] = ()

    @property
    def used(self) -> str:
        """The strategy that the session uses, with its parameters."""
        return self._session.strategy

    @property
    def words(self) -> list[str]:
        """The strategies as written on the command line, including any parameters."""
        own = [name for name in strategy_names() if name not in LABELS]
        names = (*self._usual(), *own, *self.added)
        words = [self.used if name == name_of(self.used) else name for name in names]
        return words if self.used in words else [*words, self.used]

    @property
    def offered(self) -> dict[str, str]:
        """The strategies that can be added, and what it costs to prepare them; "" if it takes seconds."""
        pool = self._session.project.pool
        had = (*self._usual(), name_of(self.used))
        names = [] if pool is None else [name for name in covering(ON_REQUEST, pool) if name not in had]
        costs = self._indexes.costs(names)
        return {name: costs.get(name, "") for name in names}

    def _usual(self) -> tuple[str, ...]:
        pool = self._session.project.pool
        if pool is None:
            return COMPARED
        is_small = len(pool) * pool.n_features**2 <= MOST_PRODUCTS
        return tuple(name for name in covering(COMPARED, pool) if is_small or name != DENSE)

    def ready(self) -> dict[str, QueryStrategy]:
        """Return the strategies whose indexes are ready. The other indexes are built in the background.

        They search without workers and without a device, so that the processor times can be compared.
        """
        self.failures()
        fitted = {word: self._indexes.indexed(word) for word in self.words}
        return {word: strategy.alone() for word, strategy in fitted.items() if strategy is not None}

    def failures(self) -> dict[str, str]:
        """Request all indexes. Return, for each strategy that can't select, one sentence that says why."""
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
        """Return the strategies whose indexes are not ready yet and have not failed."""
        return self._missing(self.ready())

    def settled(self) -> dict[str, QueryStrategy] | None:
        """Return all strategies that can select, or None while an index is not ready yet."""
        ready = self.ready()
        return None if self._missing(ready) else ready

    def _missing(self, ready: Container[str]) -> list[str]:
        failed = self.failures()
        return [word for word in self.words if word not in failed and word not in ready]

    def absent(self, words: Container[str]) -> str:
        """Return why a race of the strategies `words` lacks the others, or "" if it lacks none."""
        failed = self.failures()
        later = [label_of(word) for word in self.words if word not in words and word not in failed]
        joins = [f"The next race will include {'; '.join(later)}."] if later else []
        out = [
            f"{label_of(word)} is left out: {why.removesuffix('.')}."
            for word, why in failed.items()
            if word not in words
        ]
        return " ".join(joins + out)

    def preparation(self, word: str, *, named: bool = False) -> str:
        """Return a sentence about the progress of a strategy's index."""
        state, what = self._indexes.state(word), f"{label_of(word)}’s index" if named else "Its index"
        if not state.share:
            estimate = self._indexes.costs([word]).get(word)
            return f"{what} is built next{f', which takes {estimate}' if estimate else ''}."
        return f"{preparation(what, state.share, again=bool(state.notice))}."
