"""Statements read from a file, stored compactly as columns of numbers: about 60 bytes per statement."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from closecall.storage.records import ANSWERS, PURPOSES, AnswerWord, Purpose

_BLOCK = 10_000
_DECIDED = -1  # annotator of all adjudications, as an adjudication replaces those of other owners
_NOT_GIVEN = -1
_LONGEST = 2**31 - 1  # milliseconds
_REPLACES, _COUNTED, _KNOWN, _TIMED = 1, 2, 4, 8
_APART = b"\0"


class Statement(NamedTuple):
    """An annotator's answer about an item, or an adjudication.

    `is_counted`, `id`, `origin`, `time` and `time_taken_ms` are taken from the `Claim` in the file.
    `is_known` says that the log has the statement already, even if its annotator has changed the answer
    since.
    """

    concept: int
    item: int
    annotator: str
    word: AnswerWord
    purpose: Purpose
    is_counted: bool = False
    is_known: bool = False
    id: str = ""
    origin: str = ""
    time: int | None = None
    time_taken_ms: int | None = None


class Statements:
    """Statements in the order of a file.

    The subject of a statement is either one annotator's answer about an item for a concept, or the
    adjudication of an item for a concept. Only the last statement on each subject counts.
    """

    def __init__(self) -> None:
        self._concepts, self._items, self._times = array("q"), array("q"), array("q")
        self._annotators, self._taken = array("i"), array("i")
        self._words, self._purposes, self._flags = array("b"), array("b"), array("b")
        self._texts, self._ends = bytearray(), array("q", [0])
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []

    def __len__(self) -> int:
        return len(self._items)

    def add(self, statement: Statement, place: str, *, replaces: bool) -> None:
        """Add a statement; with `replaces`, it may contradict earlier statements on the same subject."""
        number = self._numbers.setdefault(statement.annotator, len(self._names))
        if number == len(self._names):
            self._names.append(statement.annotator)
        time, taken = statement.time, statement.time_taken_ms
        self._concepts.append(statement.concept)
        self._items.append(statement.item)
        self._annotators.append(number)
        self._words.append(ANSWERS.index(statement.word))
        self._purposes.append(PURPOSES.index(statement.purpose))
        self._times.append(0 if time is None else time)
        self._taken.append(_NOT_GIVEN if taken is None else min(max(taken, 0), _LONGEST))
        self._flags.append(
            _REPLACES * replaces
            | _COUNTED * statement.is_counted
            | _KNOWN * statement.is_known
            | _TIMED * (time is not None)
        )
        self._texts += place.encode()
        if statement.id or statement.origin:
            self._texts += _APART + statement.id.encode() + _APART + statement.origin.encode()
        self._ends.append(len(self._texts))

    def place(self, index: int) -> str:
        """Return where the statement with this index is in the file, such as "line 7"."""
        return self._text(index)[0]

    def _text(self, index: int) -> list[str]:
        """Return the statement's place and, if it has any, its id and its origin."""
        return self._texts[self._ends[index] : self._ends[index + 1]].decode().split(_APART.decode())

    def contradiction(self) -> tuple[int, int] | None:
        """Return the indices of two statements that contradict each other, in file order, or None.

        If there are several, return the contradiction whose second statement comes first in the file.
        """
        order, is_first = self._by_subject()
        words, replaces = _column(self._words)[order], _column(self._flags)[order] & _REPLACES
        wrong = np.flatnonzero(~is_first[1:] & (words[1:] != words[:-1]) & (replaces[1:] == 0))
        if not len(wrong):
            return None
        at = wrong[np.argmin(order[wrong + 1])]
        return int(order[at]), int(order[at + 1])

    def settled(self) -> NDArray[np.int64]:
        """Return the index of the last statement on each subject, of shape (n_subjects,).

        The subjects are in the order of their first statements.
        """
        order, is_first = self._by_subject()
        is_last = np.roll(is_first, -1)
        return order[is_last][np.argsort(order[is_first])]

    def at(self, indices: NDArray[np.int64]) -> Iterator[Statement]:
        """Yield the statements at `indices`."""
        columns = [_column(each) for each in (self._concepts, self._items, self._annotators, self._words)]
        columns += [_column(each) for each in (self._purposes, self._flags, self._times, self._taken)]
        for first in range(0, len(indices), _BLOCK):
            block = indices[first : first + _BLOCK]
            cells = (column[block].tolist() for column in columns)
            for index, concept, item, annotator, word, purpose, flags, time, taken in zip(
                block.tolist(), *cells, strict=True
            ):
                _, id_, origin = (*self._text(index), "", "")[:3]
                yield Statement(
                    concept,
                    item,
                    self._names[annotator],
                    ANSWERS[word],
                    PURPOSES[purpose],
                    bool(flags & _COUNTED),
                    bool(flags & _KNOWN),
                    id_,
                    origin,
                    time if flags & _TIMED else None,
                    None if taken == _NOT_GIVEN else taken,
                )

    def concepts(self) -> list[int]:
        """Return the ids of the concepts with statements, ascending."""
        found: list[int] = np.unique(_column(self._concepts)).tolist()
        return found

    def _by_subject(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the indices of the statements, sorted by subject and then by line, and a mask.

        The mask has the same order and marks the first statement on each subject.
        """
        is_decision = _column(self._purposes) == PURPOSES.index("decision")
        who = np.where(is_decision, _DECIDED, _column(self._annotators))
        keys = (who, _column(self._items), _column(self._concepts))
        order = np.lexsort(keys)
        is_first = np.ones(len(order), dtype=np.bool_)
        is_first[1:] = False
        for key in keys:
            ordered = key[order]
            is_first[1:] |= ordered[1:] != ordered[:-1]
        return order, is_first


def _column(cells: array[int]) -> NDArray[np.integer]:
    """Return the cells as an array that shares their memory; no cell can be added while this array exists."""
    return np.frombuffer(cells, dtype=f"i{cells.itemsize}")
