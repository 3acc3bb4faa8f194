"""The heart: what a sequence of answers means. A pure fold, the same for the live service and for a replay.

An annotator's answer about an item is the last one that was not undone. An item's status is what its
annotators say together: the majority of yes and no, `tied` where both are equally many, else `unsure` or
`skip`. A decision outranks them: it is given where they disagree, and the last one not undone holds. Only a
yes or no trains, never a tie, and never an audit's answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from storage.errors import StorageError
from storage.records import ANSWERS, STATUSES, AnswerRecord, AnswerWord, Counts, Labels, Status

_Scalar = TypeVar("_Scalar", bound=np.generic)


VOTES: tuple[AnswerWord, ...] = tuple(word for word in ANSWERS if word != "undo")


class _Vote(NamedTuple):
    id: str
    annotator: str
    answer: AnswerWord
    trains: bool
    decides: bool = False


class Standing(NamedTuple):
    """What a selection depends on.

    Parameters
    ----------
    labels : Labels
    answered : array of shape (n_items,), int64
        Items with any answer in force, ascending.
    skipped : array of shape (n_skipped,), int64
        Those that everybody who saw them skipped, ascending.
    audited : array of shape (n_audited,), int64
        Those that belong to an audit, ascending.
    counts : Counts
    wanted : array of shape (n_wanted,), int64
        Those that a further person is to answer; see `LabelState.wanted`. Empty unless asked for.
    """

    labels: Labels
    answered: NDArray[np.int64]
    skipped: NDArray[np.int64]
    audited: NDArray[np.int64]
    counts: Counts
    wanted: NDArray[np.int64]


class LabelState:
    """The labels of one concept as of a log position; grows answer by answer.

    Parameters
    ----------
    concept_id : int

    Attributes
    ----------
    seq : int
        The position in the log: the `seq` of the last answer applied, 0 at first.

    Notes
    -----
    Arrays that it hands out never change afterwards. It is not locked: one thread at a time may apply.
    """

    def __init__(self, concept_id: int) -> None:
        self.concept_id = concept_id
        self.seq = 0
        self._votes: dict[int, list[_Vote]] = {}  # by item: answers in force, in the log's order
        self._item_of: dict[str, int] = {}  # by id of an answer in force
        self._status: dict[int, Status] = {}
        self._audited: set[int] = set()
        self._label: dict[int, bool] = {}
        self._number: dict[Status, int] = dict.fromkeys(STATUSES, 0)
        self._labels: Labels | None = None
        self._answered: NDArray[np.int64] | None = None

    def apply(self, answer: AnswerRecord) -> bool:
        """Take in the next answer of the log; False, and no effect, for one at or before `seq`.

        Raises
        ------
        StorageError
            `invalid` for another concept's answer; `corrupt` for an undo of an answer that is not in force,
            which the log never accepts.
        """
        if answer.concept_id != self.concept_id:
            raise StorageError(
                f"answer {answer.id} is about concept {answer.concept_id}, not {self.concept_id}", "invalid"
            )
        if answer.seq <= self.seq:
            return False
        if answer.answer == "undo":
            item = self._take_back(answer)
        else:
            item = answer.item
            trains, decides = answer.purpose != "audit", answer.purpose == "decision"
            vote = _Vote(answer.id, answer.annotator, answer.answer, trains, decides)
            self._votes.setdefault(item, []).append(vote)
            self._item_of[answer.id] = item
        self._settle(item)
        self.seq = answer.seq
        return True

    def fold(self, answers: Iterable[AnswerRecord]) -> Self:
        """Apply several answers, in the log's order."""
        for answer in answers:
            self.apply(answer)
        return self

    def labels(self) -> Labels:
        """The labels that train, as of `seq`."""
        if self._labels is None or self._labels.through != self.seq:
            items = np.fromiter(self._label.keys(), dtype=np.int64, count=len(self._label))
            yes = np.fromiter(self._label.values(), dtype=np.bool_, count=len(self._label))
            order = np.argsort(items)
            self._labels = Labels(_frozen(items[order]), _frozen(yes[order]), self.seq)
        return self._labels

    def answered_items(self) -> NDArray[np.int64]:
        """Items with any answer in force, skips included: ascending, of shape (n_items,)."""
        if self._answered is None:
            items = np.fromiter(self._status.keys(), dtype=np.int64, count=len(self._status))
            items.sort()
            self._answered = _frozen(items)
        return self._answered

    def skipped_items(self) -> NDArray[np.int64]:
        """Items that everybody who saw them skipped: ascending, of shape (n_items,)."""
        return _frozen(np.array(sorted(i for i, s in self._status.items() if s == "skip"), dtype=np.int64))

    def audited_items(self) -> NDArray[np.int64]:
        """Items that an answer of an audit is in force about: ascending, of shape (n_items,)."""
        return _frozen(np.array(sorted(self._audited), dtype=np.int64))

    def audit_labels(self) -> Labels:
        """What was said of the audit's items, where it was yes or no; none of it trains."""
        settled = [item for item in sorted(self._audited) if self._status.get(item) in ("yes", "no")]
        yes = [self._status[item] == "yes" for item in settled]
        return Labels(_frozen(np.array(settled, np.int64)), _frozen(np.array(yes, np.bool_)), self.seq)

    def status(self, item: int) -> Status | None:
        """What the annotators say of the item together; None without an answer in force."""
        return self._status.get(item)

    def votes(self, item: int) -> Mapping[str, AnswerWord]:
        """Each annotator's answer about the item, without decisions."""
        return {vote.annotator: vote.answer for vote in self._votes.get(item, ()) if not vote.decides}

    def decision(self, item: int) -> AnswerWord | None:
        """What the annotators' disagreement about the item was decided to be; None without a decision."""
        decision = _decision(self._votes.get(item, ()))
        return decision.answer if decision else None

    def wanted(self, persons: int, annotator: str) -> NDArray[np.int64]:
        """Items that fewer than so many `persons` have answered, and not this annotator: ascending.

        Without those that nobody has answered, or all have skipped, and those that are decided.
        """
        found = []
        for item, votes in self._votes.items():
            said = {vote.annotator: vote.answer for vote in votes}
            labeled = sum(word != "skip" for word in said.values())
            is_decided = any(vote.decides for vote in votes)
            if annotator not in said and 0 < labeled < persons and not is_decided:
                found.append(item)
        return _frozen(np.array(sorted(found), dtype=np.int64))

    def is_audited(self, item: int) -> bool:
        """Whether an answer of an audit is in force about the item: then none about it may train."""
        return item in self._audited

    def is_in_force(self, answer_id: str) -> bool:
        """Whether the answer is in the log and was not undone (a later one may have replaced it)."""
        return answer_id in self._item_of

    def standing(self, annotator: str = "", persons: int = 1) -> Standing:
        """All that a selection for the annotator depends on, where an item is for so many `persons`."""
        return Standing(
            self.labels(),
            self.answered_items(),
            self.skipped_items(),
            self.audited_items(),
            self.counts,
            self.wanted(persons, annotator) if persons > 1 else _NONE,
        )

    def supposing(
        self, item: int, annotator: str, answer: AnswerWord, *, trains: bool = True, persons: int = 1
    ) -> Standing:
        """The same, if the annotator's next answer were this one, about this item."""
        votes, labels, answered = self._votes.get(item), self._labels, self._answered
        self._votes[item] = [*(votes or ()), _Vote("", annotator, answer, trains)]
        self._labels = None
        self._settle(item)
        supposed = self.standing(annotator, persons)
        if votes is None:
            del self._votes[item]
        else:
            self._votes[item] = votes
        self._settle(item)
        self._labels, self._answered = labels, answered
        return supposed

    @property
    def counts(self) -> Counts:
        """Items by status."""
        return Counts(**self._number, labels=len(self._label))

    def _take_back(self, undo: AnswerRecord) -> int:
        item = self._item_of.pop(undo.undoes or "", None)
        if item is None:
            raise StorageError(
                f"the log is damaged: answer {undo.id} undoes {undo.undoes}, which is not in force", "corrupt"
            )
        left = [vote for vote in self._votes[item] if vote.id != undo.undoes]
        if left:
            self._votes[item] = left
        else:
            del self._votes[item]
        return item

    def _settle(self, item: int) -> None:
        votes = self._votes.get(item, ())
        if len(votes) == 1:
            status, label = _ALONE[votes[0].answer, votes[0].trains]
        else:
            status, label = _together(votes)
        if any(not vote.trains for vote in votes):
            self._audited.add(item)
        else:
            self._audited.discard(item)
        before = self._status.get(item)
        if before != status:
            if before is not None:
                self._number[before] -= 1
            if status is None:
                del self._status[item]
            else:
                self._number[status] += 1
                self._status[item] = status
            if before is None or status is None:
                self._answered = None
        if label is None:
            self._label.pop(item, None)
        else:
            self._label[item] = label


def _together(votes: Sequence[_Vote]) -> tuple[Status | None, bool | None]:
    """As `_tally`, of all answers in force about an item, in the log's order."""
    decision = _decision(votes)
    if decision is None:
        return _tally({vote.annotator: vote for vote in votes}.values())
    last = {vote.annotator: vote for vote in votes if not vote.decides}
    return _tally([decision._replace(trains=all(vote.trains for vote in last.values()))])


def _decision(votes: Sequence[_Vote]) -> _Vote | None:
    return next((vote for vote in reversed(votes) if vote.decides), None)


def _tally(votes: Iterable[_Vote]) -> tuple[Status | None, bool | None]:
    """The status of an item and the label that trains, from one vote an annotator."""
    said = dict.fromkeys(VOTES, 0)
    balance = 0
    for vote in votes:
        said[vote.answer] += 1
        if vote.trains:
            balance += (vote.answer == "yes") - (vote.answer == "no")
    return status_of(**said), None if balance == 0 else balance > 0


def status_of(*, yes: int = 0, no: int = 0, unsure: int = 0, skip: int = 0) -> Status | None:
    """What so many annotators say of an item together; None where nobody says anything."""
    if yes != no:
        return "yes" if yes > no else "no"
    if yes:
        return "tied"
    if unsure:
        return "unsure"
    return "skip" if skip else None


# By far the most items have one vote.
_ALONE = {(word, trains): _tally([_Vote("", "", word, trains)]) for word in VOTES for trains in (False, True)}


def _frozen(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    array.flags.writeable = False
    return array


_NONE = _frozen(np.empty(0, dtype=np.int64))
