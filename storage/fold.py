"""Compute labels from the answers in a log, answer by answer. The server and replays share this code.

The answer of an annotator about an item is the annotator's last answer that was not undone. The status of an
item combines the answers of its annotators: it is the majority of yes and no, or `tied` if there are equally
many of both. If nobody answered yes or no, the status is `unsure` if anybody answered unsure, and otherwise
`skip`. An adjudication is a decision that takes precedence over all answers; the last adjudication that was
not undone counts. Only yes and no become training labels. Ties, and answers that were given for an audit, are
not used for training.

An item is *asked* if it has an answer that was given for training, even a skip, and not undone. The
near-duplicates of an asked item are repeats (`storage.repeats`). An answer for an audit doesn't make an item
asked, because audits must not change which other items are selected.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from closecall.storage.ascending import NO_MARKS, NONE, Ascending, frozen, without
from closecall.storage.errors import StorageError
from closecall.storage.records import ANSWERS, STATUSES, AnswerRecord, AnswerWord, Counts, Labels, Status
from closecall.storage.repeats import ItemGroups, Repeats

IsItem = Callable[[int], bool]
"""Function that returns whether answers about an item count."""

VOTES: tuple[AnswerWord, ...] = tuple(word for word in ANSWERS if word != "undo")

_WORD = {word: word for word in VOTES}


@dataclass(frozen=True, slots=True)  # smaller than a NamedTuple, and there may be a million
class _Vote:
    id: str
    annotator: str
    answer: AnswerWord
    trains: bool
    decides: bool = False


class _Meaning(NamedTuple):
    """An item's status, its training label, and whether it is audited, computed from its answers."""

    status: Status | None
    label: bool | None
    is_audited: bool


class _Sets(NamedTuple):
    """Sets of items. `_marks` decides which sets include an item."""

    labels: Ascending
    answered: Ascending
    skipped: Ascending
    audited: Ascending


class Standing(NamedTuple):
    """Labels and items that a selection depends on.

    Parameters
    ----------
    labels : Labels
    answered : array of shape (n_items,), int64
        Items with any answer that was not undone, ascending.
    skipped : array of shape (n_skipped,), int64
        Items whose status is `skip`, ascending.
    audited : array of shape (n_audited,), int64
        Items with an answer that was given for an audit and not undone, ascending.
    counts : Counts
    wanted : array of shape (n_wanted,), int64
        Items that need a further annotator; see `LabelState.wanted`. Empty unless requested.
    repeats : array of shape (n_repeats,), int64
        All items of the groups that have an asked item, including the asked items; ascending.
    repeats_answered : array of shape (n_repeats,), bool
        For each of the `repeats`, whether it is in a group with an asked item that has an answer other than a
        skip.
    groups : ItemGroups or None
        The groups of near-duplicates from which `repeats` are computed; without them, there are no repeats.
    """

    labels: Labels
    answered: NDArray[np.int64]
    skipped: NDArray[np.int64]
    audited: NDArray[np.int64]
    counts: Counts
    wanted: NDArray[np.int64]
    repeats: NDArray[np.int64] = NONE
    repeats_answered: NDArray[np.bool_] = NO_MARKS
    groups: ItemGroups | None = None


class LabelState:
    """Labels of one concept up to a log position, updated answer by answer.

    Parameters
    ----------
    concept_id : int
    is_item : callable or None
        Function that returns whether answers about an item count. Other answers are ignored, as if they were
        not in the log. None means that all answers count.

    Attributes
    ----------
    seq : int
        Position in the log: the `seq` of the last answer applied, 0 at first.
    left_out : set of int
        Items whose answers were ignored.

    Notes
    -----
    Returned arrays never change. There is no lock, so only one thread at a time may apply answers.
    """

    def __init__(self, concept_id: int, is_item: IsItem | None = None) -> None:
        self.concept_id = concept_id
        self.left_out: set[int] = set()
        self._is_item = is_item
        self.seq = 0
        self._votes: dict[int, tuple[_Vote, ...]] = {}  # by item: answers not undone, in the log's order
        self._annotators: dict[str, str] = {}
        self._number = dict.fromkeys((*STATUSES, "labels"), 0)
        self._sets = _Sets(*(Ascending() for _ in _Sets._fields))
        self._overlaps: dict[int, _Overlap] = {}  # by the number of annotators per item
        self._repeats: Repeats | None = None

    @property
    def groups(self) -> ItemGroups | None:
        """Groups of near-duplicates that `standing` takes into account, or None."""
        return self._repeats.groups if self._repeats is not None else None

    def regroup(self, groups: ItemGroups | None) -> None:
        """Use these groups of near-duplicates for all answers, including answers applied before."""
        if groups is not self.groups:
            marks = ((item, _asked(votes)) for item, votes in self._votes.items())
            asked = {item: mark for item, mark in marks if mark is not None} if groups is not None else {}
            self._repeats = Repeats(groups, self._votes, asked) if groups is not None else None

    def apply(self, answer: AnswerRecord) -> bool:
        """Apply the next answer of the log, and return True.

        If the answer is at or before the position `seq`, do nothing and return False.

        Raises
        ------
        StorageError
            If the answer is about another concept (kind `invalid`), or undoes an answer that is unknown or
            already undone (kind `corrupt`). The log never accepts such an undo.
        """
        if answer.concept_id != self.concept_id:
            raise StorageError(
                f"answer {answer.id} is about concept {answer.concept_id}, not {self.concept_id}", "invalid"
            )
        if answer.seq <= self.seq:
            return False
        if self._is_item is not None and not self._is_item(answer.item):
            self.left_out.add(answer.item)
            self.seq = answer.seq
            return True
        item = self._undone_item(answer) if answer.answer == "undo" else answer.item
        before = self._votes.get(item, ())
        if answer.answer == "undo":
            (undone,) = (vote for vote in before if vote.id == answer.undoes)
            votes, annotator = tuple(vote for vote in before if vote is not undone), undone.annotator
        else:
            trains, decides = answer.purpose != "audit", answer.purpose == "decision"
            # Each name and each word is stored once, not for each of a million answers.
            annotator = self._annotators.setdefault(answer.annotator, answer.annotator)
            votes = (*before, _Vote(answer.id, annotator, _WORD[answer.answer], trains, decides))
        self._settle(item, before, votes, annotator)
        self.seq = answer.seq
        return True

    def fold(self, answers: Iterable[AnswerRecord]) -> Self:
        """Apply several answers in the log's order."""
        for answer in answers:
            self.apply(answer)
        return self

    def labels(self) -> Labels:
        """Return the training labels at `seq`."""
        return Labels(*self._sets.labels.read(), self.seq)

    def answered_items(self) -> NDArray[np.int64]:
        """Return the items with any answer, even a skip, that was not undone; ascending, shape (n_items,)."""
        return self._sets.answered.read()[0]

    def audited_items(self) -> NDArray[np.int64]:
        """Return the items with an answer given for an audit and not undone; ascending, shape (n_items,)."""
        return self._sets.audited.read()[0]

    def audit_labels(self) -> Labels:
        """Return the audited items whose status is yes or no, with this status as their label.

        These labels are not used for training.
        """
        status = {item: self.status(item) for item in self.audited_items().tolist()}
        settled = [item for item, word in status.items() if word in ("yes", "no")]
        yes = [status[item] == "yes" for item in settled]
        return Labels(frozen(np.array(settled, np.int64)), frozen(np.array(yes, np.bool_)), self.seq)

    def status(self, item: int) -> Status | None:
        """Return the item's status, or None if the item has no answer or all its answers were undone."""
        return self._meaning(item).status

    def repeats(self, item: int) -> bool | None:
        """Return the item's value in `Standing.repeats_answered`, or None if the item is not a repeat."""
        return self._repeats.mark(item) if self._repeats is not None else None

    def votes(self, item: int) -> Mapping[str, AnswerWord]:
        """Return each annotator's answer about the item, without adjudications."""
        return {vote.annotator: vote.answer for vote in self._votes.get(item, ()) if not vote.decides}

    def decision(self, item: int) -> AnswerWord | None:
        """Return the adjudication of the item, or None."""
        decision = _decision(self._votes.get(item, ()))
        return decision.answer if decision else None

    def wanted(self, persons: int, annotator: str) -> NDArray[np.int64]:
        """Return the items that still need an answer by the annotator; ascending, of shape (n_items,).

        These items have at least one answer, but fewer than `persons` answers; skips don't count as answers.
        They have no adjudication. The annotator has neither answered nor skipped them.
        """
        return self._overlap(persons).wanted(annotator)

    def _overlap(self, persons: int) -> _Overlap:
        if persons not in self._overlaps:
            self._overlaps[persons] = _Overlap(persons, self._votes)
        return self._overlaps[persons]

    def is_audited(self, item: int, *, without: Container[str | None] = ()) -> bool:
        """Return whether the item has an answer that was given for an audit and not undone.

        Answers whose ids are in `without` are not considered. The server stores all further answers about an
        audited item as answers for the audit, so that they are not used for training.
        """
        return any(not vote.trains and vote.id not in without for vote in self._votes.get(item, ()))

    def standing(self, annotator: str = "", persons: int = 1) -> Standing:
        """Return the labels and items that a selection for the annotator depends on.

        `persons` is the number of annotators per item.
        """
        wanted = self.wanted(persons, annotator) if persons > 1 else NONE
        return self._standing({}, self.counts, wanted)

    def supposing(
        self, item: int, annotator: str, answer: AnswerWord, *, trains: bool = True, persons: int = 1
    ) -> Standing:
        """Return what `standing` would return if the annotator gave this answer about the item next."""
        before = self._votes.get(item, ())
        votes = (*before, _Vote("", annotator, answer, trains))
        meaning = _together(votes)
        number = dict(self._number)
        _count(number, self._meaning(item), meaning)
        wanted = self._overlap(persons).wanted_but(item, annotator) if persons > 1 else NONE
        if self._repeats is not None:
            number["repeats"] = self._repeats.n_open_after(item, is_asked=_asked(votes) is not None)
        standing = self._standing({item: meaning}, Counts(**number), wanted)
        if self._repeats is None:
            return standing
        repeats, answered = self._repeats.supposing(item, _asked(before), _asked(votes))
        return standing._replace(repeats=repeats, repeats_answered=answered)

    @property
    def counts(self) -> Counts:
        """Return the number of items by status."""
        return Counts(**self._number, repeats=self._repeats.n_open if self._repeats is not None else 0)

    def _standing(
        self,
        supposed: Mapping[int, _Meaning],
        counts: Counts,
        wanted: NDArray[np.int64],
    ) -> Standing:
        """Return the `Standing` that results if items get the `supposed` meanings; repeats don't change."""
        marks = {item: _marks(meaning) for item, meaning in supposed.items()}
        labels, answered, skipped, audited = (
            kept.read({item: own[place] for item, own in marks.items()})
            for place, kept in enumerate(self._sets)
        )
        standing = Standing(Labels(*labels, self.seq), answered[0], skipped[0], audited[0], counts, wanted)
        if self._repeats is None:
            return standing
        repeats, of_answers = self._repeats.read()
        return standing._replace(repeats=repeats, repeats_answered=of_answers, groups=self._repeats.groups)

    def _undone_item(self, undo: AnswerRecord) -> int:
        """Return the item of the undone answer; an undo in a manipulated log may name another item."""
        for item in (undo.item, *self._votes):
            if any(vote.id == undo.undoes for vote in self._votes.get(item, ())):
                return item
        raise StorageError(
            f"the log is damaged: answer {undo.id} undoes {undo.undoes}, which is not in force", "corrupt"
        )

    def _settle(self, item: int, before: tuple[_Vote, ...], votes: tuple[_Vote, ...], annotator: str) -> None:
        """Replace the item's answers `before` by `votes`: one answer by the annotator was added or undone."""
        if votes:
            self._votes[item] = votes
        else:
            del self._votes[item]
        was, meaning = _together(before), _together(votes)
        if meaning != was:
            _count(self._number, was, meaning)
            for kept, mark in zip(self._sets, _marks(meaning), strict=True):
                kept.put(item, mark)
        for overlap in self._overlaps.values():
            overlap.settle(item, votes, annotator)
        if self._repeats is None:
            return
        if bool(votes) != bool(before):
            self._repeats.note(item, is_answered=bool(votes))
        asked, was_asked = _asked(votes), _asked(before)
        if asked is not was_asked:
            self._repeats.settle(item, was_asked, asked)

    def _meaning(self, item: int) -> _Meaning:
        return _together(self._votes.get(item, ()))


class _Overlap:
    """For each annotator, the items to ask about, if several annotators answer each item."""

    def __init__(self, persons: int, votes: Mapping[int, Sequence[_Vote]]) -> None:
        self._persons = persons
        self._open = Ascending()
        self._said: dict[str, Ascending] = {}  # by annotator
        self._newest: tuple[str, NDArray[np.int64]] | None = None
        self._but: tuple[str, int, NDArray[np.int64]] | None = None
        for item, given in votes.items():
            for annotator in {vote.annotator for vote in given}:
                self.settle(item, given, annotator)

    def settle(self, item: int, votes: Sequence[_Vote], annotator: str) -> None:
        """Update the item after a change of the annotator's answers.

        `votes` are all answers about the item that were not undone.
        """
        said = {vote.annotator: vote.answer for vote in votes}
        labeled = sum(word != "skip" for word in said.values())
        is_open = 0 < labeled < self._persons and _decision(votes) is None
        self._open.put(item, is_open or None)
        self._said.setdefault(annotator, Ascending()).put(item, annotator in said or None)
        self._newest = self._but = None

    def wanted(self, annotator: str) -> NDArray[np.int64]:
        """See `LabelState.wanted`."""
        if self._newest is None or self._newest[0] != annotator:
            own = self._said[annotator].read()[0] if annotator in self._said else NONE
            self._newest = annotator, frozen(without(self._open.read()[0], own))
        return self._newest[1]

    def wanted_but(self, item: int, annotator: str) -> NDArray[np.int64]:
        """Return `wanted` without one item. The last result is cached: look-ahead needs it several times."""
        if self._but is None or self._but[:2] != (annotator, item):
            self._but = annotator, item, frozen(without(self.wanted(annotator), np.array([item])))
        return self._but[2]


def _count(number: dict[str, int], before: _Meaning, after: _Meaning) -> None:
    """Update the counts after a change of an item's status or label."""
    for meaning, change in ((before, -1), (after, 1)):
        if meaning.status is not None:
            number[meaning.status] += change
        number["labels"] += change * (meaning.label is not None)


def _marks(meaning: _Meaning) -> tuple[bool | None, ...]:
    """Return, for each set of `_Sets`, the item's mark, or None if the set lacks the item."""
    status, label, is_audited = meaning
    return label, status is not None or None, status == "skip" or None, is_audited or None


def _together(votes: Sequence[_Vote]) -> _Meaning:
    """Combine the answers about an item. `votes` are the answers not undone, in the log's order."""
    if not votes:
        return _NOTHING
    if len(votes) == 1:
        return _ALONE[votes[0].answer, votes[0].trains]
    is_audited = any(not vote.trains for vote in votes)
    last = {vote.annotator: vote for vote in votes if not vote.decides}
    decision = _decision(votes)
    if decision is None:
        return _Meaning(*_tally(last.values()), is_audited)
    trains = all(vote.trains for vote in last.values())
    return _Meaning(*_tally([replace(decision, trains=trains)]), is_audited)


def _asked(votes: Sequence[_Vote]) -> bool | None:
    """Return True if an answer for training is not a skip, False if all are skips, None if there are none."""
    given = [vote for vote in votes if vote.trains]
    if all(vote.decides for vote in given):
        return None
    return _together(given).status != "skip"


def _decision(votes: Sequence[_Vote]) -> _Vote | None:
    return next((vote for vote in reversed(votes) if vote.decides), None)


def _tally(votes: Iterable[_Vote]) -> tuple[Status | None, bool | None]:
    """Return an item's status and its training label from one vote per annotator."""
    said = dict.fromkeys(VOTES, 0)
    balance = 0
    for vote in votes:
        said[vote.answer] += 1
        if vote.trains:
            balance += (vote.answer == "yes") - (vote.answer == "no")
    return status_of(**said), None if balance == 0 else balance > 0


def status_of(*, yes: int = 0, no: int = 0, unsure: int = 0, skip: int = 0) -> Status | None:
    """Return the status of an item with these numbers of answers, or None if all numbers are 0."""
    if yes != no:
        return "yes" if yes > no else "no"
    if yes:
        return "tied"
    if unsure:
        return "unsure"
    return "skip" if skip else None


_NOTHING = _Meaning(None, None, False)

# Most items have a single vote, so the results for single votes are computed once, in advance.
_ALONE = {
    (word, trains): _Meaning(*_tally([_Vote("", "", word, trains)]), not trains)
    for word in VOTES
    for trains in (False, True)
}
