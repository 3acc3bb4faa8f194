"""What a selection depends on: whenever it is read, supposed or not, it is what the whole log says."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from closecall.storage import AnswerRecord, LabelState, Standing
from closecall.storage.ascending import joined, without
from closecall.storage.fold import VOTES, status_of
from closecall.storage.records import ANSWERS, STATUSES
from tests.unit.storage.test_fold import answer

PEOPLE = ("Ada", "Bob", "Cleo")

items_of = st.lists(st.integers(0, 12), max_size=12)
steps = st.lists(
    st.tuples(
        st.sampled_from(PEOPLE),
        st.sampled_from(ANSWERS),
        st.integers(0, 4),
        st.sampled_from(["train", "train", "train", "audit", "decision"]),
        st.integers(0, 30),
        st.sampled_from(["nothing", "standing", "supposing"]),
    ),
    max_size=30,
)


def plainly(answers: list[AnswerRecord], who: str, persons: int) -> dict[str, Any]:
    """The standing by its definition, from all answers of a log."""
    undone = {a.undoes for a in answers}
    in_force = [a for a in answers if a.answer != "undo" and a.id not in undone]
    labels, statuses, wanted = {}, {}, []
    for item in {a.item for a in in_force}:
        about = [a for a in in_force if a.item == item]
        votes = {a.annotator: a for a in about if a.purpose != "decision"}
        decisions = [a for a in about if a.purpose == "decision"]
        counted = [decisions[-1]] if decisions else list(votes.values())
        statuses[item] = status_of(**{word: sum(a.answer == word for a in counted) for word in VOTES})
        trains = [a for a in counted if a.purpose == "train"]
        if decisions and all(a.purpose == "train" for a in votes.values()):
            trains = decisions[-1:]
        yes, no = (sum(a.answer == word for a in trains) for word in ("yes", "no"))
        if yes != no:
            labels[item] = yes > no
        labeled = sum(a.answer != "skip" for a in votes.values())
        if not decisions and who not in votes and 0 < labeled < persons:
            wanted.append(item)
    return {
        "labels": labels,
        "answered": sorted(statuses),
        "skipped": sorted(item for item, status in statuses.items() if status == "skip"),
        "audited": sorted({a.item for a in in_force if a.purpose == "audit"}),
        "wanted": sorted(wanted),
        "counts": {
            word: list(statuses.values()).count(word) for word in ("yes", "no", "tied", "unsure", "skip")
        },
    }


def read(standing: Standing) -> dict[str, Any]:
    """The same of what the fold gives."""
    labels, counts = standing.labels, standing.counts
    assert counts.labels == len(labels)
    assert np.all(np.diff(labels.items) > 0)
    return {
        "labels": dict(zip(labels.items.tolist(), labels.yes.tolist(), strict=True)),
        "answered": standing.answered.tolist(),
        "skipped": standing.skipped.tolist(),
        "audited": standing.audited.tolist(),
        "wanted": standing.wanted.tolist(),
        "counts": {word: getattr(counts, word) for word in STATUSES},
    }


@given(steps=steps, persons=st.integers(2, 3))
def test_standing_is_what_the_definition_says_whenever_it_is_read(steps: list[Any], persons: int) -> None:
    """Answers, undos, decisions and audits in any order, read and supposed in between: nothing else changes
    what a selection sees, and a supposed answer leaves no trace.
    """
    state, log = LabelState(1), []
    for who, word, item, purpose, target, reads in steps:
        if word == "undo":
            undone = {a.undoes for a in log}
            open_ones = [a for a in log if a.answer != "undo" and a.id not in undone]
            if not open_ones:
                continue
            before = open_ones[target % len(open_ones)]
            record = answer(len(log) + 1, "undo", before.item, before.annotator, undoes=before.id)
        else:
            record = answer(len(log) + 1, word, item, who, purpose=purpose)
        log.append(record)
        state.apply(record)
        if reads == "supposing":
            for supposed in VOTES:
                trains = purpose != "audit"
                one = answer(len(log) + 1, supposed, item, who, purpose="train" if trains else "audit")
                standing = state.supposing(item, who, supposed, trains=trains, persons=persons)
                assert read(standing) == plainly([*log, one], who, persons)
        if reads != "nothing":
            assert read(state.standing(who, persons)) == plainly(log, who, persons)
    for who in PEOPLE:
        assert read(state.standing(who, persons)) == plainly(log, who, persons)


def steps_in_python(run: Callable[[], object]) -> int:
    """How many lines of Python are run; what the garbage collector would call in between is not counted."""
    lines = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    gc.disable()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
        gc.enable()
    return lines


def test_an_answer_more_costs_the_same_whatever_the_number_of_labels() -> None:
    """Neither what is supposed nor what is answered goes through all labels, for one person or several."""
    cost = []
    for n_labels in (300, 3_000):
        words = ["skip" if item % 50 == 0 else "yes" if item % 3 else "no" for item in range(n_labels)]
        state = LabelState(1).fold(answer(item + 1, word, item) for item, word in enumerate(words))

        def once_more(state: LabelState = state) -> None:
            state.supposing(7, "Bob", "yes", persons=2)
            state.apply(answer(state.seq + 1, "skip", 7, "Bob"))
            state.standing("Bob", 2)

        once_more()
        cost.append(steps_in_python(once_more))
    assert cost[0] == cost[1]


def test_what_an_answer_leaves_alone_stays_the_same_array() -> None:
    """Labels can be compared without reading them: a skip, supposed or said, gives the very same arrays."""
    state = LabelState(1).fold([answer(1, "yes", 3), answer(2, "no", 5)])
    labels = state.labels()
    assert state.supposing(9, "Bob", "skip").labels.items is labels.items
    state.apply(answer(3, "skip", 9))
    assert state.labels().yes is labels.yes


@given(items=items_of, others=items_of)
@example(items=[], others=[3])
def test_joined_and_without_are_union_and_difference(items: list[int], others: list[int]) -> None:
    """Of ascending arrays, empty ones included."""
    one, other = (np.array(sorted(set(some)), dtype=np.int64) for some in (items, others))
    assert joined(one, other).tolist() == sorted({*items, *others})
    assert without(one, other).tolist() == sorted({*items} - {*others})
