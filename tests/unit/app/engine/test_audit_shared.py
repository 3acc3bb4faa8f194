"""Items of an audit that several people answer: each counts once, by the draw that put it there."""

from __future__ import annotations

import pytest

from closecall.app.api.cards import card_of, submit
from closecall.app.api.progress import progress
from closecall.app.engine.leases import LEASE_SECONDS, Leases
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.registry import OpenProject
from tests.projects import answer, label, labeled, new_project, open_workspace, truth_word, wait_for_index
from tests.unit.app.engine.test_audit import label_to_an_audit, verify
from tests.unit.app.engine.test_leases import Clock


@pytest.fixture
def project(tmp_path, monkeypatch) -> OpenProject:
    monkeypatch.setattr("closecall.app.indexes.strategies.CHEAP_SECONDS", float("inf"))
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        wait_for_index(project, LabelingSession.DEFAULT)
        yield project


class Ticking(Clock):
    """No two things happen at the same time."""

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture
def clock(project) -> Ticking:
    clock = Ticking()
    project.leases = Leases(clock=clock)
    return clock


@pytest.fixture
def ada(project, clock) -> LabelingSession:
    """Has labeled enough for a hyperplane."""
    return labeled(project, 10)


@pytest.fixture
def bob(project, clock) -> LabelingSession:
    return project.session(project.log.start_session(1, "bob", LabelingSession.DEFAULT, seed=6).id)


def found(session: LabelingSession, text: str) -> list[dict]:
    """The cells of what is found by name, and can be answered."""
    search = session.project.found(session)
    search.look_for(text)
    return [cell for cell in card_of(search)["cells"] if cell["selection"]]


def test_a_further_persons_answer_to_an_audited_item_is_a_vote_about_it(project, ada, bob):
    """A second answer that agrees changes nothing in the audit's estimate; a tie is no answer."""
    ada.set_audit_share(1.0)
    label(ada, 30)
    before = ada.concept.audit.judge(project.pool)
    ada.set_audit_share(0.0)
    project.set_overlap(2, 1.0)
    audited = set(ada.concept.standing().audited.tolist())
    label(bob, 1)
    while bob.in_view().item not in audited:
        label(bob, 1)
    label(bob, 1)
    assert repr(ada.concept.audit.judge(project.pool)) == repr(before)  # estimates may be NaN
    while (shown := bob.in_view()).item not in audited:
        label(bob, 1)
    other = "no" if truth_word(project, shown.item) == "yes" else "yes"
    submit(bob, [answer({"item": {"id": shown.item, "selection": shown.id}}, other)])
    assert ada.concept.audit.judge(project.pool).answers == before.answers - 1
    assert progress(ada)["audit"]["judged"]["answers"] == before.answers - 1
    assert verify(project.folder)["problems"] == []


def test_a_late_answer_to_an_item_that_was_audited_meanwhile_is_a_vote_about_it(project, ada, bob, clock):
    """It was found before the draw. She would have answered it in any case, so the audit passes over it."""
    shown = {cell["id"]: cell for cell in found(ada, "1")}
    assert ada.item_view.ahead.wait(60)  # what looks ahead renews her leases
    clock.now += LEASE_SECONDS + 1
    bob.set_audit_share(1.0)
    label(bob, 1)
    while not shown.keys() & set(bob.concept.standing().audited.tolist()):
        label(bob, 1)
    before = bob.concept.audit.judge(project.pool)
    (item,) = shown.keys() & set(bob.concept.standing().audited.tolist())
    submit(ada, [answer({"item": shown[item]}, truth_word(project, item))])
    assert ada.concept.catch_up().votes(item).keys() == {"ada", "bob"}
    assert ada.concept.audit.passed() == (item,)
    assert ada.concept.audit.judge(project.pool).answers == before.answers - 1
    assert verify(project.folder)["problems"] == []


def test_a_late_answer_for_the_audit_to_an_item_that_trains_is_no_sample(project, ada, bob, clock):
    """The item counts as asked for: it stands for no other, and is known to be a yes or a no."""
    ada.set_audit_share(0.5)
    label(ada, 20)
    drawn = label_to_an_audit(ada)
    before, item = ada.concept.audit.judge(project.pool), drawn["item"]["id"]
    assert ada.item_view.ahead.wait(60)  # what looks ahead renews her leases
    clock.now += LEASE_SECONDS + 1
    (cell,) = [cell for cell in found(bob, drawn["item"]["alt"]) if cell["id"] == item]
    submit(bob, [answer({"item": cell}, truth_word(project, item))])
    submit(ada, [answer(drawn, truth_word(project, item))])
    standing = ada.concept.standing()
    assert item in standing.labels.items
    assert item in standing.audited
    assert ada.concept.audit.judge(project.pool).answers == before.answers
    assert progress(ada)["audit"]["judged"]["answers"] == before.answers
    assert verify(project.folder)["problems"] == []


def test_an_answer_for_the_audit_whose_draw_has_none_is_no_sample(project, ada):
    """The draw's answer was refused, but another one in the same message counts as the audit's, too."""
    ada.set_audit_share(0.5)
    label(ada, 20)
    drawn = label_to_an_audit(ada)
    before, item = ada.concept.audit.judge(project.pool), drawn["item"]["id"]
    (cell,) = [cell for cell in found(ada, drawn["item"]["alt"]) if cell["id"] == item]
    word = truth_word(project, item)
    card = submit(ada, [answer(drawn, word, browser_time=10**30), answer({"item": cell}, word)])
    assert (len(card["refused"]), len(card["acked"])) == (1, 1)
    assert item in ada.concept.standing().audited
    assert ada.concept.audit.judge(project.pool).answers == before.answers
    assert verify(project.folder)["problems"] == []
