from __future__ import annotations

import math
import threading
from itertools import pairwise

import pytest

from closecall.app.api.cards import card_of, submit
from closecall.app.display.strategy_labels import all_labels
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError
from closecall.core.selection import STRATEGIES, make_strategy
from closecall.storage import StorageError
from tests.projects import (
    answer,
    label,
    label_with_memory,
    new_project,
    open_workspace,
    reply_lost,
    shown_to,
    truth_word,
    wait_for_index,
)
from tests.scale import thorough
from tests.unit.app.engine.test_audit import verify


@pytest.fixture
def session(project) -> LabelingSession:
    return project.session()


def stored(project: OpenProject) -> list[tuple[int, str]]:
    concept = project.concepts()[0]
    return [(a.item, a.answer) for a in project.log.answers_after(concept.id)]


def test_items_come_at_random_until_there_is_a_yes_and_a_no(session):
    """Before the first yes and the first no there is no hyperplane; from then on there is one."""
    card = card_of(session)
    assert card["notes"]["why"] == "random-start"
    assert card["notes"]["margin"] is None
    card = submit(session, [answer(card, "yes")])
    assert card["notes"]["why"] == "random-start"
    card = submit(session, [answer(card, "no")])
    assert card["notes"]["why"] == "strategy"
    assert card["notes"]["margin"] >= 0
    assert card["notes"]["retrain_ms"] > 0


def test_no_item_comes_twice(session):
    """What was answered, skipped ones included, is never shown again."""
    card, seen = card_of(session), []
    for word in ["yes", "no", "skip", "unsure"] * 6:
        seen.append(card["item"]["id"])
        card = submit(session, [answer(card, word)])
    assert len(set(seen)) == len(seen)


def test_of_two_answers_to_one_view_in_a_message_the_first_counts(project, session):
    """A queue that two windows filled holds both; the second one is refused, and nothing of it is stored."""
    card = card_of(session)
    first, second = answer(card, "yes"), answer(card, "no")
    after = submit(session, [first, second])
    assert after["acked"] == [first["id"]]
    (refused,) = after["refused"]
    assert refused["id"] == second["id"]
    assert refused["reason"].startswith("Your answer was not stored: its item was answered already")
    assert [row.answer.id for row in project.log.log_rows()] == [first["id"]]


def test_an_answer_that_was_stored_unheard_is_gone_on_from(project, session, monkeypatch):
    """The database had it when the connection broke: sent again it is known, and the next item comes."""
    first = answer(card_of(session), "yes")
    with reply_lost(project, monkeypatch):
        submit(session, [first])
    card = submit(session, [first])
    assert card["acked"] == [first["id"]]
    assert card["item"]["id"] != first["item"]
    assert submit(session, [first])["item"] == card["item"]
    assert stored(project) == [(first["item"], "yes")]


def test_an_answer_sent_again_is_stored_once_and_acknowledged_again(project, session):
    """The browser may send its queue as often as it likes."""
    first = answer(card_of(session), "yes")
    assert submit(session, [first])["acked"] == [first["id"]]
    again = submit(session, [first, first])
    assert set(again["acked"]) == {first["id"]}
    assert stored(project) == [(first["item"], "yes")]


def test_a_second_answer_to_what_was_shown_once_is_refused(project, session):
    """Two windows on one session cannot both answer the same card."""
    card = card_of(session)
    mine, other = answer(card, "yes"), answer(card, "no")
    submit(session, [mine])
    late = submit(session, [other])
    assert late["acked"] == []
    assert late["refused"][0]["id"] == other["id"]
    assert stored(project) == [(mine["item"], "yes")]


def test_undo_brings_the_item_back(project, session):
    """After an undo the item is in view again with its own numbers, and its label does not train."""
    card = label(session, 5)
    given = answer(card, "yes")
    submit(session, [given])
    undone = submit(session, [answer(card, "undo", selection=None, undoes=given["id"])])
    assert undone["item"]["id"] == given["item"]
    assert undone["notes"]["margin"] == card["notes"]["margin"]
    state = session.concept.catch_up()
    assert given["item"] not in state.labels().items
    submit(session, [answer(undone, "no")])
    assert state.status(given["item"]) == "no"


def test_a_correction_changes_the_label_and_leaves_the_item_in_view(session):
    """Correcting an earlier answer retrains; the image that the person looks at stays."""
    card = card_of(session)
    given = answer(card, "yes")
    after = submit(session, [given])
    corrected = submit(session, [answer(card, "no", corrects=given["id"])])
    assert corrected["item"] == after["item"]
    assert session.concept.catch_up().status(given["item"]) == "no"
    assert corrected["strip"][-1]["answer"] == "no"


def test_malformed_answers_are_refused_and_the_rest_is_stored(project, session):
    """One bad answer in the queue holds back none of the others."""
    good = answer(card_of(session), "yes")
    bad = [{"id": "x"}, good | {"id": "no uuid"}, answer(card_of(session), "perhaps")]
    card = submit(session, [*bad, good])
    assert card["acked"] == [good["id"]]
    assert len(card["refused"]) == 3
    assert stored(project) == [(good["item"], "yes")]


QUICK = {"random", "exhaustive", "margin-index", "h-hash", "eh-hash"}


@pytest.mark.parametrize("name", [name if name in QUICK else thorough(name) for name in STRATEGIES])
def test_the_strategy_can_be_changed_in_mid_session(session, name):
    """Every strategy of the picker chooses the item in view as soon as it is picked."""
    label(session, 4)
    while session.concept.train(session.project.pool, session.concept.standing()).hyperplane is None:
        label(session, 1)
    wait_for_index(session.project, name)
    other = "random" if name != "random" else "exhaustive"
    session.set_strategy(other)
    session.set_strategy(name)
    assert card_of(session)["notes"]["strategy"] == name
    assert label(session, 3)["notes"]["strategy"] == name


def test_a_strategy_that_cannot_be_fitted_harms_no_other(session, monkeypatch):
    """An exhaustive scan goes on choosing, the card says why, and other strategies can still be picked."""

    def fail(self, pool, *, progress=None):
        raise InputError("it needs a bigger boat")

    monkeypatch.setattr(STRATEGIES["bh-hash-weighted"], "fit", fail)
    label(session, 12)
    session.set_strategy("bh-hash-weighted")
    while not session.project.indexes.problem:
        threading.Event().wait(0.01)
    card = label(session, 1)
    assert "bigger boat" in card["message"]
    assert card["notes"]["strategy"] == "exhaustive"
    wait_for_index(session.project, "subsample")
    session.set_strategy("subsample")
    assert card_of(session)["notes"]["strategy"] == "subsample"


def test_new_sessions_choose_by_auto(tmp_path):
    """It is the default, and an older session keeps what it chose by."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        older = project.session()
        older.set_strategy("eh-hash-weighted")
        newer = project.session(annotator="ada")
        assert (older.strategy, newer.strategy) == ("eh-hash-weighted", "auto")
        wait_for_index(project, "auto")
        assert label(newer, 12)["notes"]["strategy"] == "auto"
        key, session_id = project.key, older.id
    with open_workspace(tmp_path) as workspace:
        assert workspace.project(key).session(session_id).strategy == "eh-hash-weighted"


def test_a_session_selects_with_what_it_remembers(session, monkeypatch):
    """The log says which hyperplane it was; where selecting is fast, nothing is remembered."""
    monkeypatch.setattr("closecall.app.indexes.strategies.CHEAP_SECONDS", math.inf)
    wait_for_index(session.project, session.strategy)
    session.project.memories.worthwhile_seconds = 60.0  # as where selecting is fast
    label(session, 12)
    label_with_memory(session, 6)
    log = list(session.project.log.selections(session.concept.record.id))
    assert all("remembered" not in selection.parameters for selection in log[:13])
    for before, selection in pairwise(log[13:]):
        assert selection.parameters["remembered"] == before.hyperplane_digest


def test_the_picker_offers_baselines_first():
    """Then the margin index, then the hash families, H-, EH- and BH-Hash first."""
    labels = list(all_labels().values())
    assert labels[:4] == ["Random", "Subsample", "Exhaustive", "Margin index"]
    assert labels[4:7] == ["H-Hash", "EH-Hash", "BH-Hash"]


def test_the_picker_offers_a_researchers_own_strategy(monkeypatch):
    """Whatever the entry points name stands beside the built-in ones."""
    monkeypatch.setattr(
        "closecall.app.display.strategy_labels.strategy_names", lambda: (*STRATEGIES, "my-own")
    )
    assert all_labels()["my-own"] == "My own"


def test_an_unknown_strategy_is_refused(session):
    """The message names what there is."""
    with pytest.raises(InputError, match="eh-hash-weighted"):
        session.set_strategy("psychic")


def test_the_session_goes_on_where_the_log_ends(tmp_path):
    """After a restart the same image is in view, and labels, counts and strategy are as before."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        session = project.session()
        session.set_strategy("exhaustive")
        before = label(session, 6)
        key, session_id = project.key, session.id
    with open_workspace(tmp_path) as workspace:
        after = card_of(workspace.project(key).session(session_id))
    assert after["item"] == before["item"]
    assert after["notes"]["counts"] == before["notes"]["counts"]
    assert after["notes"]["strategy"] == before["notes"]["strategy"]
    assert [a["answer_id"] for a in after["strip"]] == [a["answer_id"] for a in before["strip"]]


def test_who_comes_back_without_an_address_goes_on_with_the_last_session(tmp_path, monkeypatch):
    """After a restart, or a while, that with the last answer; one that somebody is at is left to them."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        session = project.session()
        label(session, 3)
        key = project.key
        empty = project.session()
        assert empty is not session
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        assert project.session().id == session.id
        assert project.session().id == empty.id
        assert project.session().id not in (session.id, empty.id)
        monkeypatch.setattr("closecall.app.sessions.session_state.ATTENDED_SECONDS", 0)
        assert project.session().id == session.id


def test_two_sessions_are_never_shown_the_same_item(project):
    """What one session has in view is leased: another gets something else."""
    one, other = project.session(annotator="ada"), project.session(annotator="bob")
    for _ in range(5):
        assert card_of(one)["item"]["id"] != card_of(other)["item"]["id"]
        label(one, 1)
        label(other, 1)


@pytest.mark.parametrize("name", ["margin-index", "exhaustive", "random", "h-hash-weighted"])
def test_an_index_that_is_behind_its_pool_is_no_end(workspace, monkeypatch, name):
    """Where all that it knows has an answer, what joined the pool since is asked for, and the log holds."""
    project = new_project(workspace)
    n = 12
    behind = make_strategy(name).fit(project.pool.prefix(n))
    monkeypatch.setattr(LabelingSession, "_strategy", lambda *_: behind)
    session = project.session()
    known = project.pool.ids[:n].tolist()
    for number, item in enumerate(known):
        shown = {"item": {"id": item, "selection": shown_to(session, item)}}
        session.store([answer(shown, "yes" if number % 2 else "no")])
    card = label(session, 1)
    assert card["item"]["id"] not in known
    assert session.shown.items_total == len(project.pool)
    assert session.shown.strategy == name
    assert verify(project.folder)["problems"] == []


@pytest.mark.thorough
def test_an_exhausted_pool_says_so_and_skipped_items_come_again_when_asked_for(workspace):
    """The last card is followed by none; revisiting brings the skipped ones, and only those."""
    session = new_project(workspace, n_items=110).session()
    project = session.project
    card, skipped = card_of(session), set()
    for number in range(len(project.pool)):
        word = "skip" if number % 30 == 5 else truth_word(project, card["item"]["id"])
        if word == "skip":
            skipped.add(card["item"]["id"])
        card = submit(session, [answer(card, word)])
    assert card["item"] is None
    assert card["waiting"]["exhausted"]
    session.revisit_skipped()
    seen = set()
    card = card_of(session)
    while card["item"] is not None:
        seen.add(card["item"]["id"])
        card = submit(session, [answer(card, "no")])
    assert seen == skipped


def test_an_answer_is_acknowledged_although_the_next_selection_cannot_be_written(
    project, session, monkeypatch
):
    """A disk that fills up between answer and selection loses nothing; work goes on when there is room."""
    card = label(session, 3)
    given = answer(card, "yes")
    with monkeypatch.context() as full:
        full.setattr(project.log, "record_selection", _refuse)
        card = submit(session, [given])
        assert card["acked"] == [given["id"]]
        assert card["item"] is None
        assert "full" in card["message"]
        card = card_of(session)
        assert card["item"] is None
        assert card["waiting"]["stopped"]
    card = card_of(session)
    assert card["item"]["id"] != given["item"]
    assert card["message"] is None
    assert stored(project)[-1] == (given["item"], "yes")


def _refuse(record):
    raise StorageError("the disk is full", "full")


def test_labels_teach(session):
    """Thirty answers make the held-out accuracy better than always saying no."""
    card = label(session, 30)
    assert card["notes"]["accuracy"] > card["notes"]["always_no"] > 0.8
    assert len(card["history"]["margin"]) > 20


def test_a_folder_that_is_no_project_is_refused(workspace: Workspace):
    """A key cannot lead out of the workspace."""
    for key in ("nothing", "..", "../..", ""):
        with pytest.raises(InputError, match="no project"):
            workspace.project(key)
