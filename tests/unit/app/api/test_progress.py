"""How far the labeling is: milestones from the log, advice, and what the audit says, for the page."""

from __future__ import annotations

import json
import threading
import time
from itertools import pairwise

import numpy as np
import pytest

from closecall.app.api.cards import card_of, submit
from closecall.app.api.progress import progress
from closecall.app.engine.concept import LiveConcept
from closecall.app.sessions.labeling import LabelingSession
from closecall.core.evaluation.rank import margins_of
from closecall.core.evaluation.stopping import LEAST_GROWTH, is_checkpoint
from closecall.core.pool.build import build
from closecall.core.sources import source_from
from closecall.storage import LabelState
from tests.projects import N_ITEMS, answer, label, new_project, open_workspace, wait_for_index
from tests.waiting import until


@pytest.fixture
def session(workspace) -> LabelingSession:
    return begun(new_project(workspace))


def begun(project) -> LabelingSession:
    wait_for_index(project, LabelingSession.DEFAULT)
    return project.session(project.log.start_session(1, "ada", LabelingSession.DEFAULT, seed=5).id)


def settled(session) -> dict:
    """The page, as soon as all milestones are known."""
    page = progress(session)
    while page["is_coming"]:
        time.sleep(0.01)
        page = progress(session)
    return page


def test_without_answers_there_is_nothing_to_tell(session):
    page = settled(session)
    assert page["milestones"] == []
    assert page["course"] == {"when": [], "yes": [], "no": []}
    assert not page["advice"]["stop"]
    assert page["audit"] == page["audit"] | {"share": 0, "judged": None, "drawn": 0}
    json.dumps(page, allow_nan=False)


def test_milestones_come_with_a_quarter_more_labels(session):
    label(session, 80)
    reached = [one["labels"] for one in settled(session)["milestones"]]
    assert reached[0] == LEAST_GROWTH
    assert len(reached) >= 3
    for before, after in pairwise(reached):
        assert is_checkpoint(before, after)
        assert not is_checkpoint(before, after - 1)


def test_a_milestone_is_told_as_it_was_then(session):
    """Items within the margin by brute force; the first milestone agrees with none before."""
    label(session, LEAST_GROWTH)
    page = settled(session)
    pool, standing = session.project.pool, session.concept.standing()
    hyperplane = session.concept.train(pool, standing).hyperplane
    free = np.setdiff1d(pool.ids, standing.answered)
    within = int(np.count_nonzero(margins_of(pool.rows_of(free), hyperplane) < 1))
    (milestone,) = page["milestones"]
    assert milestone["within_margin"] == within
    assert milestone["agreement"] is None
    assert 0 <= milestone["cross_validated"] <= 1
    assert milestone["held_out"] == pytest.approx(session.shown.accuracy, abs=0.1)
    label(session, 30)
    after = settled(session)["milestones"]
    assert after[0] == milestone
    assert -1 <= after[1]["agreement"] <= 1


def test_the_course_follows_the_answers(session):
    """An undo is seen, too; of a long course some places are told, the last one among them."""
    card = card_of(session)
    given = answer(card, "yes")
    submit(session, [given])
    card = submit(session, [answer(card, "undo", selection=None, undoes=given["id"])])
    submit(session, [answer(card, "no")])
    course = settled(session)["course"]
    assert (course["yes"], course["no"]) == ([1, 0, 0], [0, 0, 1])
    label(session, 170)
    page = settled(session)
    assert len(page["course"]["when"]) <= 160
    assert page["course"]["yes"][-1] == page["counts"]["yes"]
    assert page["course"]["no"][-1] == page["counts"]["no"]


def test_after_a_restart_the_same_is_told(tmp_path):
    """Nothing of it is stored: it all follows from the log."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        session = project.session()
        session.set_audit_share(0.3)
        label(session, 90)
        before, folder = settled(session), project.folder
    with open_workspace(tmp_path) as workspace:
        after = settled(workspace.project(folder.name).session())
    assert after == before
    assert len(before["milestones"]) >= 2


def test_a_pool_that_has_grown_is_measured_before_and_after_a_restart_alike(tmp_path):
    """They follow from the labels and the pool: the former milestones are measured on the new items, too."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        session, folder = project.session(), project.folder
        label(session, 90)
        before = settled(session)
        build(source_from(f"digits:{2 * N_ITEMS}"), project.pool.path)
        until(lambda: len(project.pool) > N_ITEMS and project.pool.complete)
        grown, pool = settled(session), project.pool
        newest = session.concept.milestones.reached[-1]
        within = margins_of(pool.rows_of(np.setdiff1d(pool.ids, newest.answered)), newest.hyperplane) < 1
    with open_workspace(tmp_path) as workspace:
        after = settled(workspace.project(folder.name).session())
    assert after == grown
    assert grown["milestones"][-1]["within_margin"] == np.count_nonzero(within)
    for name in ("labels", "cross_validated"):
        assert [one[name] for one in grown["milestones"]] == [one[name] for one in before["milestones"]]


@pytest.mark.thorough
def test_where_predictions_are_stable_the_card_says_that_one_may_stop(session):
    """The advice is that of the progress page, and stands in the margin of the labeling page."""
    card = card_of(session)
    assert card["notes"]["advice"] is None
    for _ in range(12):
        card = label(session, 25)
        advice = settled(session)["advice"]
        assert card_of(session)["notes"]["advice"] == (advice["reason"] if advice["stop"] else None)
    assert advice["stop"], advice


def test_the_audit_is_judged_by_its_answers(workspace):
    """Precision, recall and prevalence hold the truth, and an audit of every item tells it exactly."""
    session = begun(new_project(workspace, n_items=110))
    label(session, 30)
    session.set_audit_share(1.0)
    assert settled(session)["audit"]["judged"] is None
    label(session, card_of(session)["notes"]["counts"]["left"])
    audit = settled(session)["audit"]
    judged, pool, standing = audit["judged"], session.project.pool, session.concept.standing()
    hyperplane = session.concept.train(pool, standing).hyperplane
    truth = pool.truth(pool.ids) == pool.classes.index("7")
    rest = ~np.isin(pool.ids, standing.labels.items)
    predicted = pool.scores(hyperplane) > 0
    assert audit["drawn"] == judged["answers"] == np.count_nonzero(rest)
    exactly = {
        "precision": truth[rest & predicted].mean(),
        "recall": predicted[rest & truth].mean(),
        "found": (predicted | ~rest)[truth].mean(),
        "prevalence": truth.mean(),
    }
    for name, share in exactly.items():
        assert judged[name]["estimate"] == pytest.approx(share)
        assert judged[name]["low"] == pytest.approx(share) == judged[name]["high"]


def test_an_answer_that_comes_while_a_milestone_is_computed_is_not_left_out(session, monkeypatch):
    """The course has it at once, and the page asks again until the milestone is there, too."""
    milestones = session.concept.milestones
    compute, is_read = milestones._milestone, threading.Event()

    def late(*given):
        assert is_read.wait(30)
        return compute(*given)

    monkeypatch.setattr(milestones, "_milestone", late)
    label(session, LEAST_GROWTH)
    page = progress(session)
    assert (page["milestones"], page["is_coming"]) == ([], True)
    label(session, 1)
    page = progress(session)
    assert page["course"]["yes"][-1] + page["course"]["no"][-1] == LEAST_GROWTH + 1
    assert (page["milestones"], page["is_coming"]) == ([], True)
    is_read.set()
    assert [one["labels"] for one in settled(session)["milestones"]] == [LEAST_GROWTH]


def test_answers_from_before_the_pool_join_the_course_once_it_is_there(session):
    """Until then nothing is known of which items have rows, so that none may be trained on."""
    label(session, LEAST_GROWTH)
    before, project = settled(session), session.project
    pool = project.pool
    snapshot = [None]
    concept = LiveConcept(
        session.concept.record, project.log, project.concept_store, lambda: snapshot[0], project.background
    )
    assert concept.counts().labels == LEAST_GROWTH
    assert concept.milestones.course(9) == []
    snapshot[0] = pool
    concept.watch(pool)
    while concept.milestones.is_computing:
        time.sleep(0.01)
    assert [one.checkpoint.n_labels for one in concept.milestones.reached] == [LEAST_GROWTH]
    assert [when for when, _ in concept.milestones.course(160)] == before["course"]["when"]


def test_a_pool_that_grows_leaves_the_course_as_it_was(session):
    """The log is folded again, since it may name items that were not there before."""
    label(session, LEAST_GROWTH + 5)
    before, concept = settled(session), session.concept
    with concept.lock:
        concept._state = LabelState(concept.record.id, concept.has_row)
    assert concept.counts().labels == LEAST_GROWTH + 5
    assert settled(session) == before
