"""The label log: what is accepted, what is refused, and what is read back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.engine import Engine

from closecall.storage import Database, LabelLog, SelectionRecord, StorageError, new_id, rows
from closecall.storage.records import AnswerRecord
from tests.storage_kit import Annotator, count_rows, make_concept, sit_down


@pytest.fixture
def database(where: Path | str) -> Iterator[Database]:
    """An empty label database."""
    with Database.open(where, create=True) as opened:
        yield opened


@pytest.fixture
def ada(database: Database) -> Annotator:
    """Somebody at a concept."""
    return sit_down(database, make_concept(database))


def refusal(annotator: Annotator, record: AnswerRecord) -> str:
    """Why the answer is refused, which it must be, leaving no trace."""
    before = annotator.log.position()
    result = annotator.send(record)
    assert not result.accepted
    assert not result.known
    assert annotator.log.position() == before
    return result.refused[0].kind


def test_an_answer_sent_again_is_acknowledged_and_stored_once(ada: Annotator) -> None:
    """A lost acknowledgement costs nothing: not even its times need to be the same, nor whether it trains."""
    record = ada.record("yes", 5)
    ada.send(record)
    again = ada.send(record, replace(record, browser_time=1, time_taken_ms=None, purpose="audit"))
    twice = ada.record("no", 6)
    result = ada.send(twice, twice)
    assert ([a.id for a in result.accepted], result.known, result.refused) == ([twice.id], (), ())
    assert (again.acknowledged, again.refused) == ((record.id, record.id), ())
    assert len(list(ada.log.answers_after(ada.session.concept_id))) == 2


@pytest.mark.parametrize(
    "change",
    [{"item": 6}, {"answer": "no"}, {"annotator": "Bob"}, {"purpose": "decision"}],
    ids=lambda change: next(iter(change)),
)
def test_an_id_never_means_two_things(ada: Annotator, change: dict[str, Any]) -> None:
    """The first meaning stays; the second is refused, not silently dropped or overwritten."""
    record = ada.says("yes", 5)
    assert refusal(ada, replace(record, **change)) == "conflict"
    assert ada.log.answer(record.id) == record


def test_a_bad_answer_does_not_hold_up_the_good_ones(ada: Annotator) -> None:
    """What can be stored of a batch is, in its order."""
    good = [ada.record("yes", 1), ada.record("no", 2)]
    result = ada.send(good[0], ada.record("maybe", 3), good[1])
    assert [a.id for a in result.accepted] == [a.id for a in good]
    assert [r.kind for r in result.refused] == ["malformed"]
    assert [a.item for a in ada.log.answers_after(ada.session.concept_id)] == [1, 2]


@pytest.mark.parametrize(
    "bad",
    [
        {"id": "short"},
        {"id": None},
        {"id": "x" * 65},
        {"id": "a'; DROP TABLE answers"},
        {"item": -1},
        {"item": 1.5},
        {"item": True},
        {"item": [1]},
        {"item": 2**70},
        {"answer": "YES"},
        {"answer": None},
        {"answer": "undo"},
        {"undoes": "answer-00001"},
        {"browser_time": "now"},
        {"time_taken_ms": 0.5},
        {"session_id": None},
        {"session_id": {}},
        {"concept_id": "1"},
        {"annotator": 7},
        {"purpose": "fun"},
    ],
    ids=str,
)
def test_malformed_answers_are_refused(ada: Annotator, bad: dict[str, Any]) -> None:
    """Whatever a browser sends, the answer is a reason and never an exception."""
    assert refusal(ada, ada.record(**({"answer": "yes", "item": 5} | bad))) == "malformed"


def test_answers_refer_to_what_exists(ada: Annotator, database: Database) -> None:
    """Unknown sessions, concepts, selections and answers are told apart."""
    assert refusal(ada, ada.record("yes", 1, session_id=new_id())) == "unknown-session"
    assert refusal(ada, ada.record("yes", 1, concept_id=77)) == "unknown-concept"
    assert refusal(ada, ada.record("yes", 1, selection_id=new_id())) == "unknown-selection"
    assert refusal(ada, ada.record("undo", 1, undoes=new_id())) == "unknown-answer"
    assert refusal(ada, ada.record("yes", 1, corrects=new_id())) == "unknown-answer"
    assert refusal(ada, ada.record("yes", 1, annotator="Bob")) == "not-yours"


def test_an_answer_lands_on_the_item_that_was_shown(ada: Annotator) -> None:
    """An answer to a selection is about that selection's item, or refused."""
    selection = ada.is_shown(5)
    assert refusal(ada, ada.record("yes", 6, selection_id=selection.id)) == "wrong-item"
    assert ada.says("yes", 5, selection_id=selection.id).item == 5


def test_undo_and_correction_stay_with_their_item_and_person(ada: Annotator, database: Database) -> None:
    """One cannot undo in another session, nor correct another person's answer, nor move a label."""
    mine = ada.says("yes", 5)
    bob = sit_down(database, make_concept(database, "eight"), "Bob")
    bob = Annotator(bob.log, replace(bob.session, concept_id=ada.session.concept_id))
    assert refusal(bob, bob.record("undo", 5, undoes=mine.id)) == "not-yours"
    assert refusal(bob, bob.record("no", 5, corrects=mine.id)) == "not-yours"
    assert refusal(ada, ada.record("undo", 6, undoes=mine.id)) == "wrong-item"
    assert refusal(ada, ada.record("no", 6, corrects=mine.id)) == "wrong-item"


def test_a_correction_may_come_in_a_later_session(ada: Annotator, database: Database) -> None:
    """Tomorrow one may correct, but not undo, what one answered today."""
    mine = ada.says("yes", 5, selection_id=ada.is_shown(5).id)
    tomorrow = Annotator(ada.log, ada.log.start_session(ada.session.concept_id, "Ada", "h-hash"))
    assert refusal(tomorrow, tomorrow.record("undo", 5, undoes=mine.id)) == "not-yours"
    assert refusal(tomorrow, tomorrow.record("no", 5, selection_id=mine.selection_id)) == "not-yours"
    tomorrow.says("no", 5, corrects=mine.id, selection_id=mine.selection_id)
    assert ada.log.state(ada.session.concept_id).votes(5) == {"Ada": "no"}


def test_a_correction_answers_nobody_elses_selection(ada: Annotator, database: Database) -> None:
    """It may name the selection that was answered, or one of its own session, and no other."""
    concept = ada.session.concept_id
    bob = Annotator(ada.log, ada.log.start_session(concept, "Bob", "h-hash"))
    shown, mine = bob.is_shown(5), ada.says("yes", 5)
    assert refusal(ada, ada.record("no", 5, corrects=mine.id, selection_id=shown.id)) == "not-yours"
    own = ada.is_shown(5)
    ada.says("no", 5, corrects=mine.id, selection_id=own.id)
    assert not ada.log.is_answered(shown.id)
    bob.says("yes", 5, selection_id=shown.id)
    assert ada.log.is_answered(shown.id)


def test_a_selection_is_answered_by_whom_it_was_shown_to(ada: Annotator, database: Database) -> None:
    """Logs of earlier versions have corrections by others that name it: they answer nothing for its owner."""
    bob = Annotator(ada.log, ada.log.start_session(ada.session.concept_id, "Bob", "h-hash"))
    shown, mine = bob.is_shown(5), ada.says("yes", 5)
    correction = ada.says("no", 5, corrects=mine.id)
    with database.write() as connection:
        if connection.dialect.name == "sqlite":
            found = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").all()
            for (name,) in found:
                connection.exec_driver_sql(f"DROP TRIGGER {name}")
        else:
            connection.exec_driver_sql("ALTER TABLE answers DISABLE TRIGGER USER")
        connection.exec_driver_sql(
            f"UPDATE answers SET selection_id = '{shown.id}' WHERE id = '{correction.id}'"
        )
    assert not ada.log.is_answered(shown.id)


def test_an_answer_is_undone_once(ada: Annotator) -> None:
    """A second undo, and an undo of an undo, are refused; the first one sent again is known."""
    mine = ada.says("yes", 5)
    undo = ada.undoes(mine)
    assert refusal(ada, ada.record("undo", 5, undoes=mine.id)) == "already-undone"
    assert refusal(ada, ada.record("undo", 5, undoes=undo.id)) == "not-undoable"
    assert ada.send(undo).acknowledged == (undo.id,)


def test_a_batch_may_refer_to_itself(ada: Annotator) -> None:
    """A queue that waited while offline is stored as it was made: answer, undo, answer again, correct."""
    first = ada.record("yes", 5)
    undo = ada.record("undo", 5, undoes=first.id)
    second = ada.record("no", 5)
    third = ada.record("yes", 5, corrects=second.id)
    assert len(ada.send(first, undo, second, third).accepted) == 4
    assert ada.log.counts(ada.session.concept_id).yes == 1


def test_an_answer_along_with_another_shares_its_fate(ada: Annotator) -> None:
    """It is stored before the other one, or refused where the other is refused, malformed or missing."""
    shown = ada.is_shown(5)
    leader = ada.record("yes", 5, selection_id=shown.id)
    along = ada.record("yes", 6)
    for wrong in (replace(leader, item=7), replace(leader, browser_time="soon"), None):
        batch = [along] if wrong is None else [along, wrong]
        result = ada.log.append_answers(batch, along={along.id: leader.id})
        assert not result.accepted
        assert {refused.id for refused in result.refused} == {answer.id for answer in batch}
    for _ in range(2):
        result = ada.log.append_answers([along, leader], along={along.id: leader.id})
        assert result.acknowledged == (along.id, leader.id)
    undo, undo_along = (ada.record("undo", one.item, undoes=one.id) for one in (leader, along))
    for _ in range(2):
        result = ada.log.append_answers([undo_along, undo], along={undo_along.id: undo.id})
        assert result.acknowledged == (undo_along.id, undo.id)
    late = ada.record("no", 8)
    conflict = replace(leader, answer="no")
    assert not ada.log.append_answers([late, conflict], along={late.id: leader.id}).accepted
    assert ada.log.labels(ada.session.concept_id).items.size == 0


def test_a_clock_set_back_loses_no_answer(database: Database, ada: Annotator) -> None:
    """Order is the log's; a negative duration is stored as unknown."""
    times = iter([3_600_000, 0])
    log = LabelLog(database, clock=lambda: next(times))
    later, earlier = ada.record("yes", 5, browser_time=9), ada.record("no", 5, time_taken_ms=-4)
    log.append_answers([later])
    log.append_answers([earlier])
    stored = list(log.answers_after(ada.session.concept_id))
    assert [(a.id, a.server_time, a.time_taken_ms) for a in stored] == [
        (later.id, 3_600_000, 700),
        (earlier.id, 0, None),
    ]
    assert log.state(ada.session.concept_id).status(5) == "no"


def test_who_was_sent_something_ahead_lately_still_has_it_in_hand(database: Database, ada: Annotator) -> None:
    """However long ago the round began: a slow server looks ahead late."""
    now = iter([1_000, 90_000])
    log = LabelLog(database, clock=lambda: next(now))
    shown = log.record_selection(_selection(ada, 5, round=1))
    ahead = _selection(ada, 6, round=2, parameters={"supposed": {"selection": shown.id}})
    log.foresee([ahead])
    assert [record.id for record in log.in_hand(60_000)] == [shown.id, ahead.id]
    assert log.in_hand(90_001) == []


def _selection(ada: Annotator, item: int, **values: Any) -> SelectionRecord:
    own = {"session_id": ada.session.id, "concept_id": ada.session.concept_id, "item": item}
    numbers = {"why": "strategy", "strategy": "random", "seed": 0, "pool_version": 1, "items_total": 100}
    return SelectionRecord(**own, **numbers, **values)


def test_a_selection_comes_back_as_it_was_recorded(ada: Annotator) -> None:
    """Nothing of what a replay needs is lost on the way through the database."""
    record = SelectionRecord(
        session_id=ada.session.id,
        concept_id=ada.session.concept_id,
        round=4,
        item=2**40,
        why="skipped-again",
        strategy="eh-hash",
        seed=2**40,
        pool_version=21,
        items_total=1_000_000,
        parameters={"rank": 8, "structure": "orders"},
        probability=0.125,
        margin=1e-17,
        selection_ms=1.25,
        items_scored=500,
        retrain_ms=3.5,
        n_labels=12,
        hyperplane_digest="0123456789abcdef",
        trained_through=12,
        examples_through=2,
        c=0.3,
        class_weight="balanced",
        leased=(3, 1, 2),
        accuracy=0.9,
    )
    stored = ada.log.record_selection(record)
    assert replace(stored, seq=0, created=0) == record
    assert ada.log.selection(record.id) == stored
    assert ada.log.last_selection(ada.session.id) == stored


@pytest.mark.parametrize(
    "bad",
    [{"why": "whim"}, {"probability": 0.0}, {"margin": -1.0}, {"item": -1}, {"session_id": "no-such-one"}],
)
def test_impossible_selections_are_refused(ada: Annotator, bad: dict[str, Any]) -> None:
    """The schema itself knows what cannot be."""
    with pytest.raises(StorageError) as caught:
        ada.is_shown(**({"item": 5} | bad))
    assert caught.value.kind == "invalid"


def test_what_was_shown_survives(ada: Annotator, database: Database) -> None:
    """The last selection is the one in view until an answer that stands refers to it."""
    assert ada.log.last_selection(ada.session.id) is None
    shown = [ada.is_shown(item, round=item) for item in range(5)]
    sit_down(database, make_concept(database, "eight"), "Bob").is_shown(7)
    log = LabelLog(database)
    assert log.last_selection(ada.session.id) == shown[-1]
    assert not log.is_answered(shown[-1].id)
    given = ada.says("yes", 4, selection_id=shown[-1].id)
    assert log.is_answered(shown[-1].id)
    ada.undoes(given)
    assert not log.is_answered(shown[-1].id)
    assert log.recent_selections(ada.session.id, 2) == shown[-2:]
    assert list(log.selections(session_id=ada.session.id, after=shown[1].seq)) == shown[2:]


def test_rounds_are_told_by_their_first_selection(ada: Annotator, database: Database) -> None:
    """However many items a round shows; rounds of other sessions are theirs."""
    firsts = []
    for number in range(1, 5):
        firsts.append(ada.is_shown(10 * number, round=number))
        for more in range(1, number):
            ada.is_shown(10 * number + more, round=number)
    sit_down(database, make_concept(database, "eight"), "Bob").is_shown(7, round=9)
    assert ada.log.recent_rounds(ada.session.id, 10) == firsts
    assert ada.log.recent_rounds(ada.session.id, 2) == firsts[-2:]


def test_sessions_are_found_again_by_id(ada: Annotator) -> None:
    """The id in the address finds the session, with the strategy chosen last."""
    assert ada.log.session(ada.session.id) == ada.session
    assert ada.log.session("no-such-session") is None
    changed = ada.log.update_session(ada.session.id, strategy="bh-hash", parameters={"k": 300})
    assert (changed.strategy, changed.parameters) == ("bh-hash", {"k": 300})
    assert ada.log.sessions() == [changed]
    with pytest.raises(StorageError, match="there is no concept 9"):
        ada.log.start_session(9, "Bob", "random")
    with pytest.raises(StorageError, match="needs a name"):
        ada.log.start_session(1, "  ", "random")


def test_sessions_are_found_by_annotator_and_parameters(ada: Annotator) -> None:
    """A parameter has this value, or is missing."""
    log, made = ada.log, {}
    for name, parameters in (
        ("ada", {}),
        ("ada", {"by": "page"}),
        ("bob", {"by": "page"}),
        ("cleo", {"by": "it"}),
    ):
        record = log.start_session(1, name, "random", parameters=parameters)
        made[record.id] = (name, parameters.get("by"))

    def found(names: list[str], **parameters: str | None) -> list[tuple[str, str | None]]:
        ids = log.sessions_of(names, **parameters) & made.keys()
        return sorted((made[name] for name in ids), key=str)

    assert found(["ada"]) == [("ada", "page"), ("ada", None)]
    assert found(["ada", "bob"], by="page") == [("ada", "page"), ("bob", "page")]
    assert found(["ada", "cleo"], by=None) == [("ada", None)]
    assert found(["cleo"], by="page", more="x") == []


def test_the_strip_shows_the_last_answers_in_force(ada: Annotator, database: Database) -> None:
    """Newest first; what was undone is gone, and a correction stands in its original's place."""
    given = [ada.says("yes", item) for item in range(6)]
    ada.undoes(given[4])
    corrected = ada.says("no", 1, corrects=given[1].id)
    recorrected = ada.says("unsure", 1, corrects=corrected.id)
    concept = ada.session.concept_id
    expected = [given[5], given[3], given[2], recorrected, given[0]]
    assert ada.log.recent_answers(concept, 12) == expected
    assert ada.log.recent_answers(concept, 2) == expected[:2]
    assert ada.log.recent_answers(concept, 12, session_id=ada.session.id, annotator="Ada") == expected
    assert ada.log.recent_answers(concept, 12, annotator="Bob") == []


def test_the_strip_may_be_of_one_purpose(ada: Annotator) -> None:
    """Decisions of a session, say: other answers about their items do not hide them."""
    decision = ada.says("yes", 1, purpose="decision")
    own = ada.says("no", 1)
    concept = ada.session.concept_id
    assert ada.log.recent_answers(concept, 5) == [own]
    assert ada.log.recent_answers(concept, 5, purpose="decision") == [decision]


def test_the_strip_reads_no_more_answers_than_it_shows(
    ada: Annotator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If none of them is a correction."""
    given = [ada.says("yes", item) for item in range(30)]
    read, converted = rows.answer, []
    monkeypatch.setattr(rows, "answer", lambda values: converted.append(values) or read(values))
    assert ada.log.recent_answers(ada.session.concept_id, 5) == given[:-6:-1]
    assert len(converted) == 5


def test_the_strip_keeps_a_correction_of_what_was_undone(ada: Annotator) -> None:
    """An answer that counts is never missing from the strip."""
    first = ada.says("yes", 1)
    correction = ada.says("no", 1, corrects=first.id)
    ada.undoes(first)
    assert ada.log.recent_answers(ada.session.concept_id, 5) == [correction]


def test_the_flattened_log_tells_everything(ada: Annotator) -> None:
    """Each answer with its selection and what took it back, also as of an earlier position, across pages."""
    selection = ada.is_shown(5)
    given = ada.says("yes", 5, selection_id=selection.id)
    ada.send(*(ada.record("no", item) for item in range(10, 2_500)))
    undo = ada.undoes(given)
    lines = list(ada.log.log_rows())
    assert [line.answer.seq for line in lines] == list(range(1, undo.seq + 1))
    assert (lines[0].concept, lines[0].selection, lines[0].undone_by) == ("seven", selection, undo.id)
    assert next(ada.log.log_rows(through=given.seq)).undone_by is None


@pytest.mark.parametrize("log", ["answers", "selections", "examples"])
@pytest.mark.parametrize(
    "statements",
    [
        {"": "UPDATE {log} SET concept_id = concept_id"},
        {"": "DELETE FROM {log}"},
        {
            "sqlite": "INSERT OR REPLACE INTO {log} SELECT * FROM {log}",
            "postgresql": "TRUNCATE {log} CASCADE",
        },
    ],
    ids=["update", "delete", "replace"],
)
def test_logs_are_append_only(
    database: Database, ada: Annotator, log: str, statements: dict[str, str]
) -> None:
    """The database itself refuses to change, delete or replace a row, whoever asks."""
    from closecall.storage import Concepts

    ada.says("yes", 5, selection_id=ada.is_shown(5).id)
    Concepts(database).add_example(ada.session.concept_id, b"\x89PNG\r\n\x1a\n", True)
    with database.read() as connection:
        statement = statements.get(connection.dialect.name) or statements[""]
    with pytest.raises(StorageError, match="append-only"), database.write() as connection:
        connection.execute(text(statement.format(log=log)))
    assert count_rows(database)[log] == 1


def test_the_latest_accuracy_is_that_of_the_newest_selection_that_has_one(ada: Annotator) -> None:
    """None before there is any; one without truth does not hide an earlier one."""
    concept = ada.session.concept_id
    assert ada.log.latest_accuracy(concept) is None
    for item, accuracy in [(1, 0.5), (2, 0.75), (3, None)]:
        ada.is_shown(item, accuracy=accuracy)
    assert ada.log.latest_accuracy(concept) == 0.75


def test_a_session_finds_its_last_answers_without_reading_those_of_others(tmp_path: Path) -> None:
    """A person with few answers of their own costs no walk through a long log."""
    asked: list[tuple[str, Any]] = []

    def keep(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_others: Any) -> None:
        asked.append((statement, parameters))

    with Database.open(tmp_path / "labels.sqlite", create=True) as database:
        ada = sit_down(database, make_concept(database))
        ada.says("yes", 5)
        event.listen(Engine, "before_cursor_execute", keep)
        try:
            (found,) = ada.log.recent_answers(ada.session.concept_id, 3, session_id=ada.session.id)
        finally:
            event.remove(Engine, "before_cursor_execute", keep)
        statement, parameters = next(query for query in asked if "FROM answers" in query[0])
        with database.read() as connection:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
    assert found.item == 5
    assert "ix_answers_session_id_seq" in str(plan[0])


def test_what_may_yet_be_stored_is_looked_for_at_each_reading(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an append whose outcome is unknown, nobody may rely on what was read before."""
    log = LabelLog(database)
    before = log.newest
    assert log.newest is before
    with monkeypatch.context() as broken:
        broken.setattr("closecall.storage.log.append", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            log.append_answers([], shown=["unknown"])
    assert log.newest is not log.newest
    log.append_answers([], shown=["unknown"])
    assert log.newest is log.newest is not before
