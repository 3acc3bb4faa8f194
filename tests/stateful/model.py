"""What a label log means, in plain Python: nothing here calls the code that it judges.

Everything is computed from the whole list of answers whenever a line joined it, by the words of the rules:
who said what last and did not take it back, what the majority says, what was decided, what belongs to an
audit, and what trains. That is slow and has no state to go wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

YES_OR_NO = ("yes", "no")


@dataclass(frozen=True)
class Said:
    """One line of the log."""

    id: str
    concept: int
    session: str
    annotator: str
    item: int
    word: str
    purpose: str
    undoes: str | None = None
    corrects: str | None = None
    selection: str | None = None


@dataclass(frozen=True)
class Meaning:
    """What the answers about one item of one concept mean together.

    Parameters
    ----------
    votes : dict
        What each annotator says, without decisions.
    decision : str or None
        What an owner decided.
    is_audited : bool
        Whether any answer in force was given for the audit.
    status : str or None
        What all of it comes to: yes, no, tied, unsure or skip; None without an answer in force.
    label : bool or None
        What trains: True for yes; None where nothing does.
    """

    votes: dict[str, str]
    decision: str | None
    is_audited: bool
    status: str | None
    label: bool | None

    @property
    def is_contested(self) -> bool:
        """Whether one says yes, another one no, and nobody has decided."""
        return self.decision is None and set(YES_OR_NO) <= set(self.votes.values())


class Model:
    """A label log, kept as a list."""

    def __init__(self) -> None:
        self.log: list[Said] = []
        self.along: dict[str, set[str]] = {}
        """By answer: the answers about near-duplicates that were given along with it."""
        self._items: dict[int, tuple[int, dict[int, Meaning]]] = {}
        """By concept: what `items` computed, and from how many lines of the log."""

    def take(self, said: Said) -> None:
        """One more line."""
        self.log.append(said)

    def ids(self) -> set[str]:
        """Of all lines."""
        return {said.id for said in self.log}

    def in_force(self, concept: int, item: int | None = None) -> list[Said]:
        """The answers that were not taken back, in the log's order."""
        undone = {said.undoes for said in self.log if said.undoes is not None}
        return [
            said
            for said in self.log
            if said.concept == concept
            and said.word != "undo"
            and said.id not in undone
            and item in (None, said.item)
        ]

    def items(self, concept: int) -> dict[int, Meaning]:
        """Every item with an answer in force."""
        length, found = self._items.get(concept, (-1, {}))
        if length != len(self.log):
            about: dict[int, list[Said]] = {}
            for said in self.in_force(concept):
                about.setdefault(said.item, []).append(said)
            found = {item: meaning_of(answers) for item, answers in about.items()}
            self._items[concept] = len(self.log), found
        return found

    def of(self, concept: int, item: int) -> Meaning:
        """One item's."""
        return meaning_of(self.in_force(concept, item))

    def labels(self, concept: int) -> dict[int, bool]:
        """The items that train, and as what."""
        return {item: its.label for item, its in self.items(concept).items() if its.label is not None}

    def counts(self, concept: int) -> dict[str, int]:
        """Items by status, and how many train."""
        counts = dict.fromkeys(("yes", "no", "tied", "unsure", "skip"), 0)
        for its in self.items(concept).values():
            assert its.status is not None
            counts[its.status] += 1
        return counts | {"labels": len(self.labels(concept))}

    def wanted(self, concept: int, persons: int, annotator: str) -> list[int]:
        """Items that want the answer of one more person, who is this annotator."""
        found = []
        for item, its in self.items(concept).items():
            labeled = [name for name, word in its.votes.items() if word != "skip"]
            if its.decision is None and annotator not in its.votes and 0 < len(labeled) < persons:
                found.append(item)
        return sorted(found)


def meaning_of(answers: Iterable[Said]) -> Meaning:
    """Of the answers in force about one item, in the log's order."""
    answers = list(answers)
    last = {said.annotator: said for said in answers if said.purpose != "decision"}
    decided = [said.word for said in answers if said.purpose == "decision"]
    decision = decided[-1] if decided else None
    voices = list(last.values())
    if decision is not None:
        status: str | None = decision
        trains = decision in YES_OR_NO and all(said.purpose != "audit" for said in voices)
        label = (decision == "yes") if trains else None
    else:
        status = _majority([said.word for said in voices])
        label = _trains([said.word for said in voices if said.purpose != "audit"])
    return Meaning(
        {name: said.word for name, said in last.items()},
        decision,
        any(said.purpose == "audit" for said in answers),
        status,
        label,
    )


def _majority(words: list[str]) -> str | None:
    yes, no = words.count("yes"), words.count("no")
    if yes != no:
        return "yes" if yes > no else "no"
    if yes:
        return "tied"
    return next((word for word in ("unsure", "skip") if word in words), None)


def _trains(words: list[str]) -> bool | None:
    yes, no = words.count("yes"), words.count("no")
    return None if yes == no else yes > no
