"""Repeats of asked items: whenever they are read, they are what the whole log and the groups say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from closecall.storage import AnswerRecord, LabelState, Standing
from closecall.storage.ascending import Items
from closecall.storage.fold import VOTES
from tests.unit.storage.test_fold import answer
from tests.unit.storage.test_fold_standing import steps, steps_in_python


class Groups:
    """Groups that may overlap, as near-duplicates and bursts do."""

    digest = "0"

    def __init__(self, groups: Sequence[set[int]]) -> None:
        self.groups = groups

    def members(self, item: int) -> Items:
        return np.array(sorted(set().union(*(g for g in self.groups if item in g))), dtype=np.int64)

    def members_of(self, items: Sequence[int]) -> Items:
        return np.array(sorted({m for item in items for m in self.members(item).tolist()}), dtype=np.int64)


groups_of_items = st.lists(st.sets(st.integers(0, 6), min_size=2, max_size=4), max_size=4).map(Groups)


def plainly(log: Sequence[AnswerRecord], groups: Groups | None) -> dict[int, bool]:
    """The repeats by their definition: whether each repeats an item with an answer other than a skip."""
    undone = {a.undoes for a in log}
    counted = [a for a in log if a.answer != "undo" and a.id not in undone and a.purpose != "audit"]
    asked = {a.item for a in counted if a.purpose != "decision"}
    said: dict[int, dict[str, str]] = {item: {} for item in asked}
    for a in counted:
        if a.item in asked and a.purpose != "decision":
            said[a.item][a.annotator] = a.answer
    for a in counted:
        if a.item in asked and a.purpose == "decision":
            said[a.item] = {"decision": a.answer}
    answered = sorted(item for item, words in said.items() if set(words.values()) != {"skip"})
    if groups is None:
        return {}
    own = set(groups.members_of(answered).tolist())
    return {member: member in own for member in groups.members_of(sorted(asked)).tolist()}


def read(standing: Standing) -> dict[int, bool]:
    """The same of what the fold gives."""
    assert np.all(np.diff(standing.repeats) > 0)
    return dict(zip(standing.repeats.tolist(), standing.repeats_answered.tolist(), strict=True))


def n_open(log: Sequence[AnswerRecord], groups: Groups | None) -> int:
    """How many of the repeats have no answer, by definition."""
    undone = {a.undoes for a in log}
    answered = {a.item for a in log if a.answer != "undo" and a.id not in undone}
    return len(set(plainly(log, groups)) - answered)


@given(steps=steps, known=st.lists(groups_of_items | st.none(), min_size=1, max_size=3))
def test_repeats_are_what_the_definition_says_whenever_groups_are_found(steps: Any, known: Any) -> None:
    """Answers, undos, decisions and audits in any order; groups are found, found again and put aside."""
    state, log, groups = LabelState(1), [], None
    for place, (who, word, item, purpose, target, reads) in enumerate(steps):
        if place % 3 == 0:
            groups = known[place // 3 % len(known)]
            state.regroup(groups)
        undone = {a.undoes for a in log}
        there = [a for a in log if a.answer != "undo" and a.id not in undone]
        if word == "undo":
            if not there:
                continue
            before = there[target % len(there)]
            record = answer(len(log) + 1, "undo", before.item, before.annotator, undoes=before.id)
        else:
            record = answer(len(log) + 1, word, item, who, purpose=purpose)
        log.append(record)
        state.apply(record)
        if reads == "supposing":
            for supposed in VOTES:
                for trains in (True, False):
                    one = answer(len(log) + 1, supposed, item, who, purpose="train" if trains else "audit")
                    standing = state.supposing(item, who, supposed, trains=trains)
                    assert read(standing) == plainly([*log, one], groups)
                    assert standing.counts.repeats == n_open([*log, one], groups)
        assert state.counts.repeats == n_open(log, groups)
        if reads != "nothing":
            standing = state.standing()
            assert standing.groups is groups
            assert read(standing) == plainly(log, groups)
    assert read(state.standing()) == plainly(log, groups)


def test_an_answer_costs_as_much_as_its_group_whatever_the_number_of_labels() -> None:
    """Neither supposing nor applying an answer goes through all groups that have labels."""
    cost = []
    for n_labels in (300, 3_000):
        state = LabelState(1).fold(answer(item + 1, "no", 10 * item) for item in range(n_labels))
        groups = Groups([set(range(first, first + 5)) for first in (0, 70)])
        state.regroup(groups)

        def once_more(state: LabelState = state) -> None:
            state.supposing(71, "Bob", "yes")
            state.apply(answer(state.seq + 1, "skip", 71, "Bob"))
            state.apply(answer(state.seq + 1, "undo", 71, "Bob", undoes=f"answer-{state.seq}"))
            state.standing("Bob")

        once_more()
        cost.append(steps_in_python(once_more))
    assert cost[0] == cost[1]
