"""The simulated annotator on the page, and starting afresh."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from closecall.app.api.cards import card_of, submit
from closecall.app.projects.questions import copy_concept
from closecall.app.sessions import autopilot, reset
from closecall.app.sessions.reset import start_afresh
from closecall.app.verification.verify import verify_project
from closecall.storage import StorageError
from closecall.storage.archive import Archive
from tests.projects import answer, label, new_project, truth_word


@pytest.fixture
def project(workspace):
    return new_project(workspace)


def seated(project, concept):
    return project.session(None, concept.id, annotator=autopilot.AUTOPILOT)


def test_it_knows_the_answers_to_what_is_in_view_and_to_what_may_follow(project):
    """So the browser never asks for the truth between two answers."""
    session = seated(project, autopilot.own_concept(project, project.concepts()[0]))
    for _ in range(10):
        card = card_of(session)
        while card["next_is_coming"]:
            card = card_of(session)
        said = autopilot.answers(session, card)
        views = [card, *card["next"].values()]
        assert {int(item) for item in said} == {view["item"]["id"] for view in views}
        assert said == {item: truth_word(project, int(item)) for item in said}
        submit(session, [answer(card, said[str(card["item"]["id"])])])


def test_people_are_not_told_the_truth(project):
    """Their cards hold no answers."""
    session = project.session()
    assert autopilot.answers(session, card_of(session)) is None


def test_what_nobody_knows_is_skipped(project, monkeypatch):
    """An item of unknown class gets neither a yes nor a no."""
    session = seated(project, project.concepts()[0])
    card = card_of(session)
    truth = project.pool.truth
    unknown = card["item"]["id"]

    def partly(items):
        found = truth(items).copy()
        found[[int(item) == unknown for item in items]] = -1
        return found

    monkeypatch.setattr(project.pool, "truth", partly)
    assert autopilot.answers(session, card)[str(unknown)] == "skip"


@pytest.mark.parametrize(("question", "can"), [("Is this a 7?", True), ("Is it beautiful?", False)])
def test_it_can_answer_where_the_question_names_a_class(workspace, question, can):
    """Elsewhere nobody knows the truth, and no autopilot is offered."""
    project = new_project(workspace, question)
    assert autopilot.can_answer(project, project.concepts()[0]) is can
    if not can:
        session = seated(project, project.concepts()[0])
        assert autopilot.answers(session, card_of(session)) is None


def test_its_own_labels_are_never_mixed_with_peoples(project):
    """They belong to a concept of their own, which is not offered to people."""
    concept = project.concepts()[0]
    label(project.session(), 5)
    own = autopilot.own_concept(project, concept)
    session = seated(project, own)
    label(session, 7)
    assert project.log.counts(concept.id).labels == 5
    assert project.log.counts(own.id).labels == 7
    assert {a.annotator for a in project.log.answers_after(own.id)} == {autopilot.AUTOPILOT}
    assert project.concepts() == [concept]
    assert autopilot.own_concept(project, concept) == autopilot.own_concept(project, own) == own
    assert autopilot.peoples_concept(project, own) == concept
    assert autopilot.peoples_concept(project, concept) == concept


def test_the_last_news_of_a_reset_comes_when_the_question_is_known_to_be_replaced(project):
    """A page that runs before that would say nothing."""
    concept = project.concepts()[0]
    session = project.session()
    known = []
    project.news.subscribe(
        lambda kind, data: known.append((kind, data.get("concept"), session.concept.is_replaced))
    )
    start_afresh(project, concept)
    assert [told for told in known if told[:2] == ("concept", concept.id)][-1] == (
        "concept",
        concept.id,
        True,
    )


def test_starting_afresh_keeps_the_log(project, capsys):
    """The question is asked again without labels; everything before is replayed by verify, and goes on."""
    concept = project.concepts()[0]
    session = project.session()
    card = label(session, 8)
    fresh = start_afresh(project, concept)
    assert project.concepts() == [fresh]
    assert project.concepts(archived=True) == [concept, fresh]
    assert replace(fresh, id=concept.id, name=concept.name, created=concept.created) == concept
    assert card_of(project.session(None, fresh.id))["notes"]["counts"]["yes"] == 0
    assert card_of(session)["notes"]["is_replaced"]
    assert not card_of(project.session(None, fresh.id))["notes"]["is_replaced"]
    late = answer(card, "no")
    assert submit(session, [late])["acked"] == [late["id"]]
    assert project.log.counts(concept.id).labels == 9
    assert verify_project(project.folder, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["answers"] == 9


def test_starting_afresh_keeps_the_audit_share(project):
    """The next audience is audited, too."""
    concept = project.concepts()[0]
    project.set_audit_share(project.live_concept(concept.id), 0.1)
    fresh = start_afresh(project, concept)
    assert project.live_concept(fresh.id).audit_share == 0.1


def test_starting_afresh_twice_from_the_same_view_changes_nothing_more(project):
    """A second click, or another window: whatever is new already is taken."""
    concept = project.concepts()[0]
    own = autopilot.own_concept(project, concept)
    fresh = start_afresh(project, concept)
    assert start_afresh(project, concept) == start_afresh(project, own) == fresh
    again = start_afresh(project, fresh)
    assert project.concepts() == [again]
    assert [c.name for c in (concept, fresh, again)] == ["Is this a 7", "Is this a 7 (2)", "Is this a 7 (3)"]


@pytest.mark.parametrize("times", [2, 4])
def test_windows_that_start_afresh_at_once_get_the_same_question(project, monkeypatch, times):
    """Each has seen that the question is not replaced yet, before any replaces it."""
    concept = project.concepts()[0]
    together = threading.Barrier(times)
    next_name = reset._next_name

    def named(*of: object) -> str:
        together.wait(timeout=30)
        return next_name(*of)

    monkeypatch.setattr(reset, "_next_name", named)
    with ThreadPoolExecutor(times) as windows:
        fresh = list(windows.map(lambda _: start_afresh(project, concept), range(times)))
    assert project.concepts() == [fresh[0]]
    assert fresh == times * [fresh[0]]
    assert len(project.concepts(archived=True)) == 2


def test_a_question_is_replaced_once(project):
    """The replacement may itself be replaced or archived; then the question may be replaced again."""
    concept = project.concepts()[0]
    fresh = start_afresh(project, concept)
    with pytest.raises(StorageError, match=r"was replaced already, by 'Is this a 7 \(2\)'") as refused:
        copy_concept(project.concept_store, concept, "another", in_its_place=True)
    assert refused.value.kind == "exists"
    assert project.concepts(archived=True) == [concept, fresh]
    Archive(project.log.database).add(fresh.id)
    third = copy_concept(project.concept_store, concept, "another", in_its_place=True)
    assert project.concepts() == [third]


def test_a_reset_question_keeps_its_place(project):
    """It is the one that the next visitor sees, and its key in Classes is the same."""
    concept, other = project.concepts()[0], project.add_concept("Is this a 3?")
    fresh = start_afresh(project, concept)
    assert project.concepts() == [fresh, other]
    assert project.session(annotator="bea").concept.record == fresh


def test_the_start_page_shows_what_is_new(workspace, project):
    """Its counts are the fresh concept's."""
    label(project.session(), 4)
    start_afresh(project, project.concepts()[0])
    summary = next(s for s in workspace.projects() if s.key == project.key)
    assert not summary.has_labels
