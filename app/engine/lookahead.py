"""Look-ahead: while the annotator looks at an item, select the next item for each possible answer.

The look-aheads of several sessions are computed in turns (`app.runtime.turns`), the likelier answers first.
If the classifier's score of the item is positive, the order is yes, no, skip, unsure; otherwise, no comes
before yes. Answers that lead to the same training and selection are computed together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.app.engine.load import TURNS_A_ROUND
from closecall.app.engine.occasion import Occasion
from closecall.app.engine.selection import Chosen, select_items
from closecall.app.engine.selection_parameters import AUDIT
from closecall.app.engine.training import wait_until_trainable
from closecall.app.runtime.cores import a_core
from closecall.core.selection import PoolExhausted, SearchIncomplete
from closecall.storage import Counts, SelectionRecord, Standing, StorageError

if TYPE_CHECKING:
    from closecall.app.engine.concept import LiveConcept
    from closecall.app.engine.load import Load
    from closecall.storage.records import AnswerWord

WORDS: tuple[AnswerWord, ...] = ("no", "yes", "skip", "unsure")
"""Possible answers."""

UNLIKELY: frozenset[AnswerWord] = frozenset({"skip", "unsure"})
"""Answers whose next items are selected last, or not at all while the server is short of processor time."""

TURN_SECONDS = 0.05
"""A turn continues with further answers until about this many seconds have passed.

If other sessions wait, the turn should take no longer than the shortest of their next turns. The results of a
turn are stored together, because this takes less time than storing each result alone.
"""


@dataclass(frozen=True, eq=False)
class Future:
    """The next selection after one of the possible answers.

    Parameters
    ----------
    chosen : Chosen
    counts : Counts
        Numbers of items by status after the answer.
    """

    chosen: Chosen
    counts: Counts


class Lookahead:
    """The next selections after each possible answer to the item that the annotator sees.

    The selections are computed in turns, one or several in a turn. They are in `futures` as soon as they are
    ready. Any thread may wait until all are ready, or cancel the rest.

    Parameters
    ----------
    shown : SelectionRecord
        The selection of the item that the annotator sees.
    occasion : Occasion
        Conditions of the next selections.
    concept : LiveConcept
        The concept for which the next items are selected; it may differ from the concept of `shown`.
    annotator : str
        The annotator who is about to answer.
    reason : object
        A value made from everything else that the selections depend on. If the value changes, the selections
        are no longer valid.
    load : Load
        The load of the server, with the look-aheads of all sessions.
    owner : str
        Id of the session whose turns these are.
    hurries : callable
        Returns whether selections are hurried now.
    """

    def __init__(
        self,
        shown: SelectionRecord,
        occasion: Occasion,
        concept: LiveConcept,
        annotator: str,
        reason: object,
        load: Load,
        owner: str,
        *,
        hurries: Callable[[], bool],
    ) -> None:
        self.shown = shown
        self.reason = reason
        self.owner = owner
        self.futures: Mapping[AnswerWord, Future] = {}
        self._occasion = occasion
        self._concept = concept
        self._annotator = annotator
        self._load = load
        self._hurries = hurries
        self._left: list[AnswerWord] | None = None  # answers to compute, the likeliest first
        self._is_cancelled = False
        self._done = threading.Event()

    def start(self, executor: Executor, tell: Callable[[], None] = lambda: None) -> None:
        """Start the computation on the executor, which reports errors. An error ends the computation.

        Call `tell` whenever `futures` has grown. If the server is overloaded, compute nothing.
        """
        self._tell = tell
        if self._load.is_overloaded:
            self._load.note_futures(len(WORDS), are_shed=True)
            self._end()
        else:
            self._load.turns.enter(self, executor)

    def cancel(self) -> None:
        """Cancel the selections that have not started. Selections that are ready stay in `futures`."""
        self._is_cancelled = True
        if self._load.turns.leave(self):
            self._end()

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for the selections; return whether the computation has ended."""
        return self._done.wait(seconds)

    @property
    def is_done(self) -> bool:
        """Return whether the computation has ended: it is complete, was cancelled, or failed."""
        return self._done.is_set()

    @property
    def is_cancelled(self) -> bool:
        """Return whether the computation was cancelled."""
        return self._is_cancelled

    @property
    def turns_left(self) -> int:
        """Return how many turns are left, if each turn computes one training and one selection."""
        left = self._left
        if left is None:
            return TURNS_A_ROUND
        return len(left) - UNLIKELY.issubset(left)

    def future(self, selection_id: str) -> Future | None:
        """Return the entry of `futures` whose selection has this id, or None."""
        found = (f for f in self.futures.values() if f.chosen.record.id == selection_id)
        return next(found, None)

    @property
    def items(self) -> set[int]:
        """Return the items that may come next."""
        return {future.chosen.record.item for future in self.futures.values()}

    def take_turn(self) -> bool:
        """Compute selections that are not ready yet, and store them; return whether more are left."""
        goes_on = False
        try:
            goes_on = self._advance()
        except StorageError as error:
            if error.kind != "moved":  # another server continues the session, and looks ahead itself
                raise
        finally:
            if not goes_on:
                self._end()
        if self.futures:
            self._tell()
        return goes_on

    def _advance(self) -> bool:
        if self._is_cancelled:
            return False
        concept, pool = self._concept, self._occasion.pool
        wait_until_trainable(pool, lambda: concept.standing().labels, concept.examples)
        if self._left is None:
            self._left = sorted(WORDS, key=self._rank(concept.leans_to_yes(pool, self.shown.item)))
        began = time.perf_counter()
        ready: dict[AnswerWord, Future] = {}
        while self._left and not self._is_cancelled:
            if UNLIKELY.issuperset(self._left) and self._load.is_short(self.owner):
                self._load.note_futures(len(self._left), are_shed=True)
                self._left = []
                break
            ready |= self._next()
            elapsed = time.perf_counter() - began
            if elapsed > TURN_SECONDS or 2 * elapsed > self._load.turns.patience(self.owner):
                break  # one more answer would take about as long again
        if ready and not self._is_cancelled:
            concept.log.foresee([future.chosen.record for future in ready.values()])
            self.futures = {**self.futures, **ready}
            self._load.note_futures(len(ready))
        return bool(self._left) and not self._is_cancelled

    def _end(self) -> None:
        # Drop the session's memory of a hyperplane, so that the memory is freed when another replaces it.
        self.__dict__.pop("_occasion", None)
        self._done.set()

    @staticmethod
    def _rank(leans_to_yes: bool) -> Callable[[AnswerWord], int]:
        """Return a function that gives likelier answers a lower number."""
        likely = "yes" if leans_to_yes else "no"
        return lambda word: 2 if word in UNLIKELY else int(word != likely)

    def _next(self) -> dict[AnswerWord, Future]:
        """Return the futures of the likeliest remaining answer, and of all answers with the same selection.

        The result is empty if no item is left to select.
        """
        assert self._left
        with a_core(in_advance=True):
            trains, standings = self._standings(self._left)
            first, *others = self._left
            standing = standings[first]
            together = [first, *(word for word in others if self._are_alike(standings[word], standing))]
            self._left = [word for word in others if word not in together]
            supposed = {
                word: {
                    "selection": self.shown.id,
                    "item": self.shown.item,
                    "answer": word,
                    "trains": trains,
                }
                for word in together
            }
            try:
                chosen = self._chosen(standing, supposed[first])
            except (PoolExhausted, SearchIncomplete):
                return {}
        return {
            word: Future(
                chosen if word == first else chosen.supposing(supposed[word]), standings[word].counts
            )
            for word in together
        }

    def _standings(self, words: Sequence[AnswerWord]) -> tuple[bool, dict[AnswerWord, Standing]]:
        """Return whether an answer would be used for training, and the labels after each possible answer.

        Answers about audited items are not used for training. All labels are based on the same log position.
        The labels are not kept until the next turn, because they may take much memory.
        """
        item, persons = self.shown.item, self._occasion.persons
        is_drawn = AUDIT in self.shown.parameters and self.shown.concept_id == self._concept.record.id
        with self._concept.lock:
            state = self._concept.catch_up()
            trains = not (is_drawn or state.is_audited(item))
            return trains, {
                word: state.supposing(item, self._annotator, word, trains=trains, persons=persons)
                for word in words
            }

    def _chosen(self, standing: Standing, supposed: Mapping[str, Any]) -> Chosen:
        trained = self._concept.train(self._occasion.pool, standing)
        occasion = replace(self._occasion, is_hurried=self._hurries())
        return select_items(occasion, trained, standing, supposed=supposed)

    def _are_alike(self, one: Standing, other: Standing) -> bool:
        """Return whether both states of the labels would lead to the same training and selection."""
        return (
            one.labels.teach_the_same_as(other.labels)
            and np.array_equal(self._occasion.excluded(one), self._occasion.excluded(other))
            and np.array_equal(one.wanted, other.wanted)
        )
