"""What a sequence of answers means: the fold, the database's views and a plain model must say the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from closecall.storage import AnswerRecord, Database, LabelLog, LabelState, StorageError
from closecall.storage.records import ANSWERS
from tests.scale import examples
from tests.storage_kit import make_concept, sit_down

_names = count()


@pytest.fixture(scope="module")
def database(where_for_all: Path | str) -> Iterator[Database]:
    """One database for the whole file; every example takes a concept of its own."""
    with Database.open(where_for_all, create=True) as opened:
        yield opened


def answer(seq: int, word: str, item: int = 1, annotator: str = "Ada", **fields: Any) -> AnswerRecord:
    """An answer as the log hands it out."""
    given = {
        "id": f"answer-{seq}",
        "concept_id": 1,
        "session_id": f"session-{annotator}",
        "annotator": annotator,
        "item": item,
        "answer": word,
        "browser_time": 0,
        "seq": seq,
    }
    return AnswerRecord(**(given | fields))


def test_majority_trains_and_ties_stay_out() -> None:
    """Two against one is a label, one against one is none."""
    state = LabelState(1).fold([answer(1, "yes"), answer(2, "no", annotator="Bob")])
    assert (state.status(1), len(state.labels())) == ("tied", 0)
    state.apply(answer(3, "yes", annotator="Cleo"))
    assert (state.status(1), state.labels().yes.tolist()) == ("yes", [True])


def test_a_decision_outranks_all_votes_until_it_is_undone() -> None:
    """It trains, whatever the majority says, and leaves what each annotator said as it is."""
    state = LabelState(1).fold([answer(1, "yes"), answer(2, "yes", annotator="Bob")])
    state.apply(answer(3, "no", annotator="Ada", purpose="decision"))
    assert (state.status(1), state.labels().yes.tolist()) == ("no", [False])
    assert state.votes(1) == {"Ada": "yes", "Bob": "yes"}
    state.apply(answer(4, "yes", annotator="Cleo"))
    assert state.status(1) == "no"
    state.apply(answer(5, "undo", undoes="answer-3"))
    assert (state.status(1), state.labels().yes.tolist()) == ("yes", [True])


def test_a_decision_about_the_audit_does_not_train() -> None:
    """It makes the audit's truth better, and nothing else."""
    state = LabelState(1).fold([answer(1, "yes", purpose="audit"), answer(2, "no", annotator="Bob")])
    state.apply(answer(3, "no", annotator="Cleo", purpose="decision"))
    assert (state.status(1), len(state.labels())) == ("no", 0)
    assert state.audit_labels().yes.tolist() == [False]


def test_an_item_is_wanted_until_enough_people_have_labeled_it() -> None:
    """By those who did not answer it; skips are no labels, and what is decided is done."""
    state = LabelState(1).fold([answer(1, "yes", 1), answer(2, "no", 2), answer(3, "skip", 3)])
    assert state.wanted(2, "Ada").tolist() == []
    assert state.wanted(2, "Bob").tolist() == [1, 2]
    state.apply(answer(4, "skip", 1, annotator="Bob"))
    assert (state.wanted(2, "Bob").tolist(), state.wanted(2, "Cleo").tolist()) == ([2], [1, 2])
    state.apply(answer(5, "no", 1, annotator="Cleo"))
    assert state.wanted(2, "Dan").tolist() == [2]
    assert state.wanted(3, "Dan").tolist() == [1, 2]
    state.apply(answer(6, "no", 1, annotator="Ada", purpose="decision"))
    assert state.wanted(3, "Dan").tolist() == [2]


def test_a_second_answer_of_the_same_person_replaces_the_first() -> None:
    """Nobody votes twice, and a skip after a yes withdraws the yes."""
    state = LabelState(1).fold([answer(1, "no"), answer(2, "yes"), answer(3, "no", annotator="Bob")])
    assert state.status(1) == "tied"
    state.apply(answer(4, "skip"))
    assert (state.status(1), state.votes(1)) == ("no", {"Ada": "skip", "Bob": "no"})


def test_undo_brings_back_what_was_said_before() -> None:
    """Undoing a correction leaves the answer that it corrected; undoing that too leaves nothing."""
    state = LabelState(1).fold([answer(1, "yes"), answer(2, "no", corrects="answer-1")])
    assert len(state.answered_items()) == len(state.labels()) == 1
    state.apply(answer(3, "undo", undoes="answer-2"))
    assert state.status(1) == "yes"
    state.apply(answer(4, "undo", undoes="answer-1"))
    assert (state.status(1), state.counts.answered, len(state.answered_items()), len(state.labels())) == (
        None,
        0,
        0,
        0,
    )


def test_unsure_and_skip_are_answered_but_do_not_train() -> None:
    """They are told apart, keep their items away, and are no labels."""
    state = LabelState(1).fold([answer(1, "unsure", 5), answer(2, "skip", 3), answer(3, "yes", 4)])
    assert (state.status(5), state.status(3)) == ("unsure", "skip")
    assert state.answered_items().tolist() == [3, 4, 5]
    assert state.standing().skipped.tolist() == [3]
    assert state.labels().items.tolist() == [4]


def test_audit_answers_never_train() -> None:
    """An audit's answer counts as answered, and is kept out of training."""
    state = LabelState(1).fold([answer(1, "yes", purpose="audit")])
    assert (state.status(1), state.counts.labels, len(state.labels())) == ("yes", 0, 0)


def test_applying_an_answer_again_changes_nothing() -> None:
    """Whoever follows the log may see a row twice."""
    state = LabelState(1)
    assert state.apply(answer(1, "yes"))
    assert not state.apply(answer(1, "no"))
    assert state.status(1) == "yes"


def test_arrays_handed_out_do_not_change_later() -> None:
    """Training in another thread goes on with the labels that it was given."""
    state = LabelState(1).fold([answer(1, "yes", 9)])
    labels, answered = state.labels(), state.answered_items()
    state.apply(answer(2, "no", 4))
    assert (labels.items.tolist(), labels.through, answered.tolist()) == ([9], 1, [9])
    assert state.labels().items.tolist() == [4, 9]
    with pytest.raises(ValueError, match="read-only"):
        labels.items[0] = 1


def test_a_log_that_cannot_be_is_refused() -> None:
    """An undo of nothing, or another concept's answer, is an error rather than a wrong label."""
    with pytest.raises(StorageError, match="not in force"):
        LabelState(1).apply(answer(1, "undo", undoes="answer-0"))
    with pytest.raises(StorageError, match="about concept 2"):
        LabelState(1).apply(answer(1, "yes", concept_id=2))


def plainly(answers: list[AnswerRecord]) -> tuple[dict[int, str], dict[int, bool]]:
    """The meaning of a log computed anew from its definition: statuses and training labels by item."""
    undone = {a.undoes for a in answers}
    current: dict[tuple[int, str], AnswerRecord] = {}
    for a in answers:
        if a.answer != "undo" and a.id not in undone:
            current[a.item, "the decision" if a.purpose == "decision" else a.annotator] = a
    statuses, labels = {}, {}
    for item in {item for item, _ in current}:
        said = [a for (i, who), a in current.items() if i == item and who != "the decision"]
        is_audited = any(a.purpose == "audit" for a in said)
        if decision := current.get((item, "the decision")):
            said = [replace(decision, purpose="audit" if is_audited else "train")]
        yes, no = (sum(a.answer == word for a in said) for word in ("yes", "no"))
        if yes != no:
            statuses[item] = "yes" if yes > no else "no"
        elif yes:
            statuses[item] = "tied"
        else:
            statuses[item] = "unsure" if any(a.answer == "unsure" for a in said) else "skip"
        training = [a.answer for a in said if a.purpose == "train"]
        if training.count("yes") != training.count("no"):
            labels[item] = training.count("yes") > training.count("no")
    return statuses, labels


# A step: who, what, about which item, which earlier answer it points at, its purpose, how often it is sent.
_steps = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(ANSWERS),
        st.integers(0, 3),
        st.integers(0, 30),
        st.sampled_from(["train", "train", "train", "audit", "decision"]),
        st.integers(1, 2),
    ),
    max_size=30,
)


@given(steps=_steps, batch=st.integers(1, 7))
@settings(max_examples=examples(60))
def test_fold_views_and_definition_agree(database: Database, steps: list[Any], batch: int) -> None:
    """Whatever is sent, in whatever batches, and sent again: each answer is stored once, and the live fold, a
    fold of the whole log, the SQL views and the definition give the same labels.
    """
    concept = make_concept(database, f"concept {next(_names)}")
    people = [sit_down(database, concept, name) for name in ("Ada", "Bob", "Cleo")]
    log, live = LabelLog(database), LabelState(concept.id)
    sent: list[AnswerRecord] = []
    queue: list[AnswerRecord] = []
    for who, word, item, target, purpose, times in steps:
        fields: dict[str, Any] = {"purpose": purpose}
        if word == "undo":
            if not sent:
                continue
            before = sent[target % len(sent)]
            fields["undoes"], item = before.id, before.item
        elif sent and target % 3 == 0 and sent[-1].item == item:
            fields["corrects"] = sent[-1].id
        record = people[who].record(word, item, **fields)
        sent.append(record)
        queue += [record] * times
    acknowledged: set[str] = set()
    for start in range(0, len(queue), batch):
        result = log.append_answers(queue[start : start + batch])
        acknowledged |= set(result.acknowledged)
        live.fold(log.answers_after(concept.id, live.seq))
    again = log.append_answers(queue)
    assert not again.accepted
    assert {a.id for a in again.known} == acknowledged

    stored = list(log.answers_after(concept.id))
    assert {a.id for a in stored} == acknowledged
    assert [a.id for a in stored] == list(dict.fromkeys(a.id for a in queue if a.id in acknowledged))
    statuses, labels = plainly(stored)
    for state in (live, log.state(concept.id)):
        assert {int(i): state.status(int(i)) for i in state.answered_items()} == statuses
        trained = state.labels()
        assert dict(zip(trained.items.tolist(), trained.yes.tolist(), strict=True)) == labels
        assert state.counts.answered == len(statuses)
        for status in ("yes", "no", "tied", "unsure", "skip"):
            assert getattr(state.counts, status) == list(statuses.values()).count(status)
    with database.read() as connection:
        rows = connection.execute(
            text("SELECT item, status, label FROM current_labels WHERE concept_id = :id"), {"id": concept.id}
        ).all()
    assert {row.item: row.status for row in rows} == statuses
    assert {row.item: row.label == "yes" for row in rows if row.label} == labels


def test_labels_as_of_an_earlier_position(database: Database) -> None:
    """A replay sees what the service saw then, undone since or not."""
    concept = make_concept(database, "earlier")
    ada = sit_down(database, concept)
    first = ada.says("yes", 8)
    second = ada.says("no", 2)
    undo = ada.undoes(first)
    log = ada.log
    assert log.labels(concept.id, through=first.seq).items.tolist() == [8]
    assert log.labels(concept.id, through=second.seq).items.tolist() == [2, 8]
    assert log.labels(concept.id, through=undo.seq).items.tolist() == [2]
    assert np.array_equal(log.answered_items(concept.id), [2])
    assert log.position() == undo.seq
