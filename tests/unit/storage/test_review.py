from __future__ import annotations

import numpy as np
import pytest

from closecall.storage import Database
from closecall.storage.review import CODES, STATUS_CODES, UNKNOWN, AnswerTable, Detail, details_of
from tests.scale import scaled
from tests.storage_kit import Annotator, make_concept, sit_down


@pytest.fixture
def database(where):
    with Database.open(where, create=True) as opened:
        yield opened


@pytest.fixture
def ada(database) -> Annotator:
    return sit_down(database, make_concept(database))


def table_of(annotator: Annotator) -> AnswerTable:
    return AnswerTable(annotator.session.concept_id).follow(annotator.log.database)


def says(table: AnswerTable) -> list[tuple[int, str, str]]:
    """Item, annotator and answer of the answers in force."""
    answers = table.answers()
    words = {code: word for word, code in CODES.items()}
    rows = np.flatnonzero(answers.in_force)
    who = [answers.annotators[answers.annotator[row]] for row in rows]
    return [
        (int(answers.item[row]), name, words[answers.word[row]]) for row, name in zip(rows, who, strict=True)
    ]


def test_each_answer_is_a_row(ada):
    """With what the log says of it, in the log's order; an unknown duration has a sign of its own."""
    first = ada.says("yes", 7, time_taken_ms=400)
    second = ada.says("no", 3, time_taken_ms=None, corrects=None, browser_time=1_700_000_009_000)
    answers = table_of(ada).answers()
    assert answers.ids == [first.id, second.id]
    assert answers.seq.tolist() == [first.seq, second.seq]
    assert answers.item.tolist() == [7, 3]
    assert answers.taken.tolist() == [400, UNKNOWN]
    assert answers.time.tolist() == [first.browser_time, 1_700_000_009_000]
    assert len(answers) == 2


def test_a_correction_takes_the_place_of_what_it_corrects_until_it_is_undone(ada):
    """The old answer stays in the table, out of force, and comes back."""
    first = ada.says("yes", 7)
    correction = ada.says("no", 7, corrects=first.id)
    table = table_of(ada)
    assert says(table) == [(7, "Ada", "no")]
    assert table.answers().is_correction.tolist() == [False, True]
    assert table.standing(7, "Ada") == correction.id
    ada.undoes(correction)
    assert says(table.follow(ada.log.database)) == [(7, "Ada", "yes")]
    assert table.standing(7, "Ada") == first.id
    assert table.answers().of(7).tolist() == [0, 1, 2]


def test_an_earlier_answer_can_be_undone_after_it_was_replaced(ada):
    """Then the later one stays in force."""
    first = ada.says("yes", 7)
    later = ada.says("skip", 7)
    ada.undoes(first)
    table = table_of(ada)
    assert says(table) == [(7, "Ada", "skip")]
    ada.undoes(later)
    assert says(table.follow(ada.log.database)) == []
    assert table.standing(7, "Ada") is None


def test_each_annotator_has_an_answer_of_their_own(ada, database):
    """About the same item; another concept's answers are not in the table."""
    lin = Annotator(ada.log, ada.log.start_session(ada.session.concept_id, "Lin", "random"))
    other = sit_down(database, make_concept(database, "nine"), "Ada")
    ada.says("yes", 7)
    other.says("skip", 7)
    lin.says("no", 7)
    assert says(table_of(ada)) == [(7, "Ada", "yes"), (7, "Lin", "no")]


@pytest.mark.parametrize("seed", range(scaled(quick=3, all=5)))
def test_it_agrees_with_the_fold_of_the_log(ada, seed):
    """After any sequence of answers, corrections and undos, however it was read."""
    rng = np.random.default_rng(seed)
    people = [ada, Annotator(ada.log, ada.log.start_session(ada.session.concept_id, "Lin", "random"))]
    standing: dict[int, list] = {0: [], 1: []}
    table = AnswerTable(ada.session.concept_id)
    for turn in range(120):
        who = int(rng.integers(2))
        mine = standing[who]
        if mine and rng.random() < 0.3:
            people[who].undoes(mine.pop(int(rng.integers(len(mine)))))
        else:
            word = ("yes", "no", "unsure", "skip")[rng.integers(4)]
            mine.append(people[who].says(word, int(rng.integers(12))))
        if turn % 7 == 0:
            table.follow(ada.log.database)
    table.follow(ada.log.database)
    state = ada.log.state(ada.session.concept_id)
    expected = {(item, name, word) for item in range(12) for name, word in state.votes(item).items()}
    assert set(says(table)) == expected
    assert len(says(table)) == len(expected)
    items = table.answers().items
    statuses = {code: status for status, code in STATUS_CODES.items()}
    found = {int(item): statuses[code] for item, code in zip(items.item, items.status, strict=True)}
    assert found == {item: state.status(item) for item in range(12) if state.status(item)}
    for item, contested, last in zip(items.item, items.is_contested, items.last, strict=True):
        assert contested == ({"yes", "no"} <= set(state.votes(item).values()))
        assert table.answers().in_force[table.answers().seq == last].all()


def test_what_was_handed_out_does_not_change(ada):
    """Who reads the columns is not disturbed by who writes the log."""
    first = ada.says("yes", 7)
    table = table_of(ada)
    before = table.answers()
    ada.undoes(first)
    table.follow(ada.log.database)
    assert (len(before), before.in_force.tolist()) == (1, [True])
    assert len(table.answers()) == 2
    with pytest.raises(ValueError, match="read-only"):
        before.item[0] = 3


def test_details_tell_rounds_and_what_was_undone(ada, database):
    """A correction and an undo have no selection of their own."""
    shown = ada.is_shown(7, round=12)
    first = ada.says("yes", 7, selection_id=shown.id)
    second = ada.says("no", 7, corrects=first.id)
    third = ada.undoes(second)
    assert details_of(database, [first.seq, second.seq, third.seq]) == {
        first.seq: Detail(None, 12, "margin-index"),
        second.seq: Detail(None, None, None),
        third.seq: Detail(second.id, None, None),
    }


def test_the_table_of_an_empty_log_is_empty(ada, database):
    """No rows, nothing in force, no items."""
    table = table_of(ada)
    assert (len(table.answers()), says(table), len(table.answers().items.item)) == (0, [], 0)
    assert details_of(database, []) == {}
