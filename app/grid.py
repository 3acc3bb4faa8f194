"""The grid: many items at once, answered in one go. Each submission is a round: one retrain, one query.

The items are those nearest to the hyperplane, but not too alike. Who marks only some of them leaves the
others open: they are not answered, and may come again. The grid before can be corrected, in one go too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from app import words
from app.answers import parse_answers
from app.card import common, item_of
from app.selecting import select_items
from app.training import BATCH
from core.errors import InputError
from core.selection import PoolExhausted
from storage import AnswerRecord, Refusal, SelectionRecord, StorageError

if TYPE_CHECKING:
    from app.service import LabelingSession

SIZES = (12, 20, 28, 40, 60)
"""How many items the page offers to show at once."""

LEAST, USUAL, MOST = SIZES[0], 28, SIZES[-1]

DIVERSITY = 0.7
"""How far apart the items are, as a share of the median angle; see `core.selection.diversity`.

CIFAR-10 with 20 variants of each image: of the 28 items nearest to a hyperplane, 6 show an image that is
there already, with 0.5 three, with 0.7 one or two. Up to 0.7 simulated annotators learn as much from twelve
grids as from the nearest items (digits and CIFAR-10, 20,000 items each), with 0.9 less.
"""

Batch = tuple[SelectionRecord, ...]
"""What was selected at once, in the order of choice."""


class GridSession:
    """A labeling session that shows many items at once; its rounds are the session's.

    The session has either card or grid in view: where they take turns, each chooses anew.

    Parameters
    ----------
    session : LabelingSession
        Whose concept, strategy, log and lock it shares.
    """

    def __init__(self, session: LabelingSession) -> None:
        self.session = session
        self.id = session.id
        self.shown: Batch = ()
        self.last: Batch = ()
        self._size = USUAL
        self._resume()

    @property
    def size(self) -> int:
        """How many items the grid shows."""
        return self._size

    def resize(self, size: int) -> None:
        """Let the grid show so many items, the one in view included.

        Raises
        ------
        InputError
            If it can't show so many.
        """
        if not LEAST <= size <= MOST:
            raise InputError(f"a grid must have from {LEAST} to {MOST} items, got {size}")
        with self.session.lock:
            if size != self._size:
                self._size, self.shown = size, ()

    def card(self) -> dict[str, Any]:
        """What the page shows now."""
        return self._card()

    def submit(self, answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Store the browser's answers in one go, and choose the next grid if they are about this or the last.

        Answers are idempotent by their id: sent again they are acknowledged again, and stored once.

        Returns
        -------
        dict
            The card; `acked` names the answers that are on the disk, `refused` those that never will be.
        """
        log = self.session.project.log
        with self.session.lock:
            parsed = parse_answers(answers, session=self.session)
            result = log.append_answers(parsed.records, shown=list(parsed.following.values()))
            if _are_about(self.shown, [*result.accepted, *result.known]):
                self.last, self.shown = self.shown, ()
            elif _are_about(self.last, result.accepted):
                self.shown = ()
            return self._card(result.acknowledged, [*parsed.refused, *result.refused])

    def _card(self, acked: Sequence[str] = (), refused: Sequence[Refusal] = ()) -> dict[str, Any]:
        with self.session.lock:
            self.session.touch()
            if self.session.shown is not None:
                self.shown, self.last = (), ()
            if not self.shown:
                self._choose()
            return self._painted(acked, refused)

    def _choose(self) -> None:
        """Choose the next grid; where that can't be written down nothing is shown, and the card says why."""
        session, pool = self.session, self.session.project.pool
        self.shown, session.shown, session.trouble = (), None, None
        if pool is None:
            return
        standing = session.concept.standing()
        try:
            trained = session.concept.train(pool, standing)
            chosen = select_items(
                session.occasion(pool), trained, standing, n=self._size, diversity=DIVERSITY
            )
            self.shown = tuple(session.project.log.record_selections(chosen.records))
            session.begin_round(self.shown, chosen)
        except PoolExhausted:
            session.exhausted = True
            session.project.lease(session.id, ())
        except StorageError as error:
            session.trouble = str(error)

    def _resume(self) -> None:
        """Show the grid that was shown last, unless it was answered, or something else was shown since."""
        recent = self.session.project.log.recent_selections(self.session.id, 2 * MOST)
        rounds = [tuple(batch) for _, batch in groupby(recent, key=lambda record: record.round)]
        *before, newest = [(), (), *rounds]
        if self._was_answered(newest):
            self.last = newest
        elif newest and BATCH in newest[0].parameters:
            self.shown, self._size = newest, newest[0].parameters[BATCH]["n"]
            self.last = before[-1] if self._was_answered(before[-1]) else ()

    def _was_answered(self, batch: Batch) -> bool:
        log = self.session.project.log
        return any(BATCH in record.parameters and log.is_answered(record.id) for record in batch)

    def _painted(self, acked: Sequence[str], refused: Sequence[Refusal]) -> dict[str, Any]:
        """All that the browser shows."""
        first = self.shown[0] if self.shown else None
        card = common(self.session, first, acked=acked, refused=refused)
        card["concept"]["question"] = words.of_several(card["concept"]["question"])
        margins = [record.margin for record in self.shown if record.margin is not None]
        card["notes"] |= {"items": len(self.shown), "furthest": max(margins, default=None)}
        log, concept = self.session.project.log, self.session.concept.record
        given = log.recent_answers(concept.id, MOST, session_id=self.session.id) if self.last else []
        return card | {
            "cells": self._cells(self.shown, {}),
            "last_round": self.last[0].round if self.last else 0,
            "last": self._cells(self.last, {answer.item: answer for answer in given}),
        }

    def _cells(self, batch: Batch, given: Mapping[int, AnswerRecord]) -> list[dict[str, Any]]:
        cells = [item_of(self.session, record) for record in batch]
        for cell in cells:
            answer = given.get(cell["id"])
            cell["src"] = self._picture(cell["id"])
            cell["answer"] = answer.answer if answer else None
            cell["answer_id"] = answer.id if answer else None
        return cells

    def _picture(self, item: int) -> str:
        try:
            return self.session.project.pictures.tile(item)
        except InputError:
            return ""


def _are_about(batch: Batch, answers: Sequence[AnswerRecord]) -> bool:
    return not {record.id for record in batch}.isdisjoint({answer.selection_id for answer in answers})
