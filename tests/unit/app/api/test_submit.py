"""Answers reach whom they were given to, whatever is in view by the time they arrive."""

from __future__ import annotations

import pytest

from closecall.app.api.cards import card_of
from closecall.app.api.submit import take
from closecall.app.projects.roles import Person
from tests.projects import answer, label, new_project, open_workspace

ADA = Person("Ada", is_owner=True)


@pytest.fixture
def project(tmp_path):
    with open_workspace(tmp_path) as workspace:
        yield new_project(workspace)


def in_session(session, card, word, **changes):
    return answer(card, word, session=session.id, **changes)


def test_an_answer_that_arrives_on_decide_is_no_decision(project):
    """What waited in the queue, and what takes it back, was for Label: a decision outranks votes."""
    session = project.session(None, None, "Ada")
    card = label(session, 2)
    given = in_session(session, card, "yes")
    decisions = project.decisions(session)
    assert take(project, decisions, [given], ADA)["acked"] == [given["id"]]
    undo = in_session(session, card, "undo", selection=None, undoes=given["id"])
    assert take(project, decisions, [undo], ADA)["acked"] == [undo["id"]]
    again = in_session(session, card_of(session), "no")
    take(project, decisions, [again], ADA)
    correction = in_session(session, card, "unsure", selection=None, corrects=again["id"])
    take(project, decisions, [correction], ADA)
    assert {project.log.answer(sent["id"]).purpose for sent in (given, undo, again, correction)} == {"train"}
    assert project.log.answer(given["id"]).selection_id == given["selection"]


def test_what_takes_back_a_decision_is_one(project):
    """An undo on Decide names the decision, and no selection."""
    session, other = (project.session(None, None, name) for name in ("Ada", "Bob"))
    card = label(session, 2)
    vote = in_session(session, card, "yes")
    take(project, session, [vote], ADA)
    contra = answer(card, "no", selection=None, session=other.id)
    take(project, other, [contra], Person("Bob", is_owner=True))
    decisions = project.decisions(session)
    decided = in_session(session, card_of(decisions), "no")
    assert take(project, decisions, [decided], ADA)["acked"] == [decided["id"]]
    undo = in_session(session, card, "undo", selection=None, undoes=decided["id"])
    card = take(project, decisions, [undo], ADA)
    assert card["acked"] == [undo["id"]]
    assert card["item"]["id"] == vote["item"]
    assert project.log.answer(undo["id"]).purpose == "decision"


def test_a_correction_of_a_decision_that_arrives_on_label_stays_a_decision(project):
    """The queue is one for both pages: what waited when Label opened was given on Decide."""
    session, other = (project.session(None, None, name) for name in ("Ada", "Bob"))
    card = label(session, 2)
    take(project, session, [in_session(session, card, "yes")], ADA)
    take(project, other, [answer(card, "no", selection=None, session=other.id)], Person("Bob", is_owner=True))
    decisions = project.decisions(session)
    decided = in_session(session, card_of(decisions), "no")
    take(project, decisions, [decided], ADA)
    correction = in_session(session, card, "yes", selection=None, corrects=decided["id"])
    assert take(project, session, [correction], ADA)["acked"] == [correction["id"]]
    assert project.log.answer(correction["id"]).purpose == "decision"


def test_the_log_is_read_once_for_each_answer(project, monkeypatch):
    """Checks, training, look-ahead and figures share what was read; a page drawn again reads nothing."""
    session, bob = project.session(None, None, "Bob"), Person("Bob")
    label(session, 12)
    read, reads = project.log.answers_after, []
    monkeypatch.setattr(project.log, "answers_after", lambda *which: reads.append(which) or read(*which))
    for _ in range(3):
        card = card_of(session)
        for given in ([in_session(session, card, "no")], []):
            take(project, session, given, bob)
            assert session.item_view.ahead.wait(60)
    assert len(reads) == 3
