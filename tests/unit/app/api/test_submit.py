"""Answers reach whom they were given to, whatever is in view by the time they arrive."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

import pytest

from closecall.app.api.cards import card_of
from closecall.app.api.submit import take
from closecall.app.projects.roles import Person
from closecall.app.sessions.blind.begin import begin
from closecall.app.sessions.review import Asked, Review
from closecall.storage import new_id
from tests.projects import answer, correct, label, new_project, open_workspace

ADA = Person("Ada", is_owner=True)


@pytest.fixture
def project(tmp_path):
    with open_workspace(tmp_path) as workspace:
        yield new_project(workspace)


def in_session(session, card, word, **changes):
    return answer(card, word, session=session.id, **changes)


def decided_by_ada(project):
    """Ada says yes, Bob says no, and Ada decides no: her session, the card of the item, and her decision."""
    session, bobs = (project.session(None, None, name) for name in ("Ada", "Bob"))
    card = label(session, 2)
    take(project, session, [in_session(session, card, "yes")], ADA)
    take(project, bobs, [answer(card, "no", selection=None, session=bobs.id)], Person("Bob", is_owner=True))
    decisions = project.decisions(session)
    decided = in_session(session, card_of(decisions), "no")
    assert take(project, decisions, [decided], ADA)["acked"] == [decided["id"]]
    return session, card, decided


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
    session, card, decided = decided_by_ada(project)
    undo = in_session(session, card, "undo", selection=None, undoes=decided["id"])
    card = take(project, project.decisions(session), [undo], ADA)
    assert card["acked"] == [undo["id"]]
    assert card["item"]["id"] == decided["item"]
    assert project.log.answer(undo["id"]).purpose == "decision"


def test_a_correction_of_a_decision_that_arrives_on_label_stays_a_decision(project):
    """The queue is one for both pages: what waited when Label opened was given on Decide."""
    session, card, decided = decided_by_ada(project)
    correction = in_session(session, card, "yes", selection=None, corrects=decided["id"])
    assert take(project, session, [correction], ADA)["acked"] == [correction["id"]]
    assert project.log.answer(correction["id"]).purpose == "decision"


def test_a_press_of_a_class_that_arrives_on_review_is_about_all_classes(project):
    """A yes to another class is a no to the question that is reviewed."""
    session, other = project.session(None, None, "Ada"), project.add_concept("Is this a 1?")
    card = take(project, project.classes(session), [], ADA)
    classes = [choice["concept"] for choice in card["classes"]]
    press = in_session(session, card, "yes", classes=classes, concept=other.id)
    assert correct(Review(session, ADA), [press])["acked"] == [press["id"]]
    words = {concept: project.live_concept(concept).catch_up().status(press["item"]) for concept in classes}
    assert words == {session.concept.record.id: "no", other.id: "yes"}


def test_a_decision_that_arrives_on_review_stays_one(project):
    """And what takes it back or corrects it; an annotator's is refused there as on Decide."""
    session, bobs = (project.session(None, None, name) for name in ("Ada", "Bob"))
    card = label(session, 2)
    take(project, session, [in_session(session, card, "yes")], ADA)
    take(project, bobs, [answer(card, "no", selection=None, session=bobs.id)], Person("Bob", is_owner=True))
    decided = in_session(session, card_of(project.decisions(session)), "no")
    about = {"item": decided["item"], "selection": None}
    changed = in_session(session, card, "yes", corrects=decided["id"]) | about
    undo = in_session(session, card, "undo", undoes=changed["id"]) | about
    sent = [decided, changed, undo]
    refused = correct(Review(session, Person("Ada")), sent)["refused"]
    assert {refusal["reason"] for refusal in refused} == {"Only an owner may decide, but Ada is not one"}
    assert correct(Review(session, ADA), sent)["acked"] == [one["id"] for one in sent]
    assert {project.log.answer(one["id"]).purpose for one in sent} == {"decision"}
    assert session.concept.catch_up().status(decided["item"]) == "no"


def test_a_decision_made_earlier_is_corrected_on_review(project):
    """Its row says who decided; the decision changes, although its owner has a vote, too."""
    session, card, decided = decided_by_ada(project)
    review = Review(session, ADA)
    page = review.page(Asked.of({"view": "all"}), UTC)
    (row,) = (row for row in page["rows"] if row["item"] == decided["item"])
    assert [event["annotator"] for event in row["events"]] == ["Ada", "Bob", "Ada (decision)"]
    assert [event["decides"] for event in row["events"]] == [None, None, "Ada"]
    about = {"item": decided["item"], "selection": None}
    changed = in_session(session, card, "yes", corrects=decided["id"]) | about
    assert correct(review, [changed])["acked"] == [changed["id"]]
    assert session.concept.catch_up().status(decided["item"]) == "yes"
    assert project.log.answer(changed["id"]).purpose == "decision"


def test_answers_of_a_blind_comparison_that_arrive_on_review_reach_their_sides(project):
    """Whichever side asked; a correction reaches all sides that have an answer about the item."""
    session = project.session(None, None, "Ada")
    label(session, 20)
    blind = begin(session, ["exhaustive", "random"])
    for _ in range(6):
        card = take(project, blind, [], ADA)
        given = answer(card, "no", session=card["session"])
        assert correct(Review(session, ADA), [given])["acked"] == [given["id"]]
    assert set(blind.labels().values()) == {"no"}


def test_a_correction_about_another_question_may_arrive_on_review(project):
    """It is not compared with the answers to the question that is reviewed."""
    session, other = project.session(None, None, "Ada"), project.add_concept("Is this a 1?")
    others = project.session(None, other.id, "Ada")
    card = card_of(others)
    given = in_session(others, card, "yes")
    changed = in_session(others, card, "no", selection=None, corrects=given["id"])
    take(project, others, [given], ADA)
    assert correct(Review(session, ADA), [changed])["acked"] == [changed["id"]]


def test_a_session_that_cannot_be_opened_keeps_no_other_waiting(project):
    """Its strategy may be gone: its answers stay in the browser, and later ones are stored."""
    session = project.session(None, None, "Ada")
    gone = project.log.start_session(1, "Ada", "of-a-plugin").id
    card = card_of(session)
    stuck = answer(card, "no", session=gone)
    given = in_session(session, card, "no")
    again = answer(card, "no", session=gone)
    shown = take(project, session, [stuck, given, again], ADA)
    assert (shown["acked"], shown["refused"]) == ([given["id"]], [])
    assert "of-a-plugin" in shown["message"]


def test_an_answer_sent_again_is_known_although_its_item_has_joined_an_audit(project):
    """Both had the item in view; Bob's answer, for the audit, came between Ada's and its repetition."""
    session, bobs = (project.session(None, None, name) for name in ("Ada", "Bob"))
    given = in_session(session, label(session, 2), "yes")
    assert take(project, session, [given], ADA)["acked"] == [given["id"]]
    stored = project.log.answer(given["id"])
    bobs_own = {"id": new_id(), "session_id": bobs.id, "annotator": "Bob", "selection_id": None}
    project.log.append_answers([replace(stored, **bobs_own, purpose="audit")])
    assert take(project, session, [given], ADA)["acked"] == [given["id"]]
    assert project.log.answer(given["id"]) == stored


@pytest.mark.parametrize("name", ["selection", "undoes", "corrects", "next"])
def test_an_id_that_no_database_takes_keeps_no_other_answer_waiting(project, name):
    """Half a character, say: it is refused, and what follows is stored."""
    session = project.session(None, None, "Ada")
    card = card_of(session)
    for view in (session, project.grid(session), project.decisions(session)):
        odd = in_session(session, card, "no", **{name: "\ud800"})
        given = in_session(session, card, "no")
        card = take(project, view, [odd, given], ADA)
        assert (card["acked"], [refusal["id"] for refusal in card["refused"]]) == ([given["id"]], [odd["id"]])
        card = card_of(session)


def test_an_answer_is_settled_under_the_id_that_was_sent(project):
    """Under another form of it, the browser would send the answer for ever."""
    session = project.session(None, None, "Ada")
    given = in_session(session, card_of(session), "no")
    odd = given | {"id": given["id"].upper().replace("-", "")}
    assert [refusal["id"] for refusal in take(project, session, [odd], ADA)["refused"]] == [odd["id"]]


@pytest.mark.parametrize("together", [True, False])
def test_an_item_leaves_the_audit_with_the_undo_of_its_answer(project, together):
    """What follows the undo trains, also in the same message."""
    session = project.session(None, None, "Ada")
    given = in_session(session, label(session, 2), "no")
    take(project, session, [given], ADA)
    audits = {"id": new_id(), "selection_id": None, "purpose": "audit"}
    project.log.append_answers([replace(project.log.answer(given["id"]), **audits)])
    about = {"item": given["item"], "selection": None}
    undo = in_session(session, card_of(session), "undo", undoes=audits["id"]) | about
    changed = in_session(session, card_of(session), "yes", corrects=given["id"]) | about
    for sent in [[undo, changed]] if together else [[undo], [changed]]:
        assert take(project, session, sent, ADA)["refused"] == []
    assert project.log.answer(changed["id"]).purpose == "train"


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
