"""Checking a selection against a scan of the whole pool."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.app.api.cards import card_of, submit
from closecall.app.engine.exclusion import excluded_items
from closecall.app.sessions.full_scan_check import Check, compare
from closecall.core.errors import InputError
from closecall.core.evaluation.rank import scores_of
from closecall.core.learning.round import Labels, learn
from tests.projects import answer, label, new_project, open_workspace, wait_for_index


@pytest.fixture
def session(tmp_path, request):
    """A session with 12 labels, of random items or of the strategy that the test names."""
    strategy = getattr(request, "param", "random")
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        wait_for_index(project, strategy)
        session = project.session(project.log.start_session(1, "ada", strategy, seed=5).id)
        label(session, 12)
        yield session


def by_hand(session, key=np.abs):
    """Every item that may be chosen, by a key of wᵀx + b, smallest first, with what the labels now give."""
    pool, standing = session.project.pool, session.concept.standing()
    record = session.concept.record
    labels = Labels.of(pool, standing.labels.items, standing.labels.yes)
    hyperplane = learn(labels, C=record.c, class_weight=record.class_weight).hyperplane
    free = np.setdiff1d(pool.ids, excluded_items(standing, (), include_skipped=False))
    keys = key(scores_of(pool.rows_of(free), hyperplane))
    order = np.argsort(keys, kind="stable")
    return free[order], keys[order]


def test_the_rank_is_what_sorting_all_items_gives(session):
    """Also of items far from the best; the best is the scan's own."""
    ranks = []
    times = session.project.indexes.full_scan
    times.note_use()
    times.measure(session.project.pool)
    label(session, 1)
    for _ in range(8):
        shown = session.shown
        items, margins = by_hand(session)
        found = compare(session, shown.id)
        assert not found.by_score
        assert found.rank == items.tolist().index(shown.item)
        assert found.items == len(items)
        assert found.value == pytest.approx(margins[found.rank], abs=1e-9)
        assert found.best == pytest.approx(margins[0], abs=1e-9)
        assert found.selection_ms == shown.selection_ms
        assert found.full_scan_ms == card_of(session)["notes"]["full_scan_ms"]
        ranks.append(found.rank)
        label(session, 1)
    assert max(ranks) > 0


@pytest.mark.parametrize("session", ["likely-positive"], indirect=True)
def test_likely_positives_are_checked_by_their_scores(session):
    """Nearly always, no item has a larger one."""
    ranks = []
    for _ in range(8):
        shown = session.shown
        items, scores = by_hand(session, np.negative)
        found = compare(session, shown.id)
        assert found.by_score
        assert found.rank == items.tolist().index(shown.item)
        assert found.items == len(items)
        assert found.value == pytest.approx(-scores[found.rank], abs=1e-9)
        assert found.best == pytest.approx(-scores[0], abs=1e-9)
        ranks.append(found.rank)
        label(session, 1)
    assert ranks.count(0) >= 7


def test_later_answers_do_not_change_the_hyperplane_that_it_is_checked_by(session):
    """Neither those of others, nor a correction, nor an undo that shows the item once more."""
    shown = session.shown
    before = compare(session, shown.id)
    last = session.project.log.recent_answers(1, 1)[0]
    other = session.project.session(session.project.log.start_session(1, "lin", "random").id)
    label(other, 3)
    fix = "no" if last.answer == "yes" else "yes"
    submit(session, [answer(card_of(session), fix, selection=None, item=last.item, corrects=last.id)])
    after = compare(session, shown.id)
    assert (after.rank, after.items, after.best) == (before.rank, before.items, before.best)
    given = answer(card_of(session), "yes")
    submit(session, [given])
    submit(
        session, [answer(card_of(session), "undo", selection=None, item=given["item"], undoes=given["id"])]
    )
    again = compare(session, session.shown.id)
    assert (again.rank, again.items, again.best) == (before.rank, before.items, before.best)


def test_what_can_not_be_checked_says_why(session):
    """Before there is a hyperplane, and for selections of others."""
    project, other = session.project, session.project.add_concept("Is it a 3?")
    beginner = project.session(project.log.start_session(other.id, "lin", "random").id)
    card_of(beginner)
    with pytest.raises(InputError, match="first yes and no"):
        compare(beginner, beginner.shown.id)
    with pytest.raises(InputError, match="no selection"):
        compare(beginner, session.shown.id)


def test_a_check_is_said_when_it_is_done(session):
    """Until then it is coming; what hinders it is one sentence."""
    check = Check(session, session.shown.id)
    assert check.state() == {"selection": session.shown.id, "is_coming": True, "problem": None}
    check.start(session.project.executor)
    assert check.wait(30)
    said = check.state()
    assert (said["is_coming"], said["problem"]) == (False, None)
    assert said["rank"] == compare(session, session.shown.id).rank
    wrong = Check(session, "no such selection")
    wrong.start(session.project.executor)
    assert wrong.wait(30)
    assert "no selection" in wrong.state()["problem"]


@pytest.mark.parametrize("session", ["mixture"], indirect=True)
def test_random_items_of_a_mixture_are_said_to_need_no_nearness(session):
    """Their rank says nothing about the index."""
    told = set()
    for _ in range(16):
        part = session.shown.parameters["part"]
        assert compare(session, session.shown.id).is_apart == (part == "random")
        told.add(part)
        label(session, 1)
    assert {"random", "margin"} <= told
