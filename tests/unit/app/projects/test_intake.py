"""What may be stored: answers about items of the pool that somebody was asked about, each one once."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import closecall.app
from closecall.app.api.cards import card_of, submit
from closecall.app.api.submit import take
from closecall.app.projects.roles import Person
from closecall.app.sessions.blind.begin import begin
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.review import Review
from closecall.app.sessions.similar.query import Like
from closecall.storage import AppendResult, StorageError
from tests.projects import (
    answer,
    correct,
    label,
    labeled,
    new_project,
    open_workspace,
    shown_to,
    truth_word,
    wait_for_index,
)

ADA = Person("ada", is_owner=True)
VIEWS = ("one", "grid", "found", "similar", "classes", "blind")


@pytest.fixture
def project(tmp_path) -> Iterator[OpenProject]:
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        project.add_concept("Is this a 3?")
        wait_for_index(project, LabelingSession.DEFAULT)
        yield project


@pytest.fixture
def ada(project) -> LabelingSession:
    """Has labeled enough for a hyperplane."""
    return labeled(project, 0)


def seen_as(name: str, session: LabelingSession) -> Any:
    """A view of the session."""
    project = session.project
    if name == "grid":
        return project.grid(session)
    if name == "found":
        project.found(session).look_for("1")
        return project.found(session)
    if name == "similar":
        project.similar_to(session).look_for(Like())
        return project.similar_to(session)
    if name == "classes":
        return project.classes(session)
    return begin(session, ["exhaustive", "random"]) if name == "blind" else session


def answers_to(card: dict[str, Any], word: str = "no") -> list[dict[str, Any]]:
    """What a browser says of what is in view: of one item, or of the first three of many."""
    more: dict[str, Any] = {"session": card["session"]}
    if "classes" in card:
        more |= {"classes": [its["concept"] for its in card["classes"]], "concept": None}
    if "cells" not in card:
        return [answer(card, word, **more)]
    free = [cell for cell in card["cells"] if cell["selection"]][:3]
    return [answer({"item": cell}, word, **more) for cell in free]


@contextmanager
def lost_reply(project: OpenProject) -> Iterator[None]:
    """The log stores what it is given, and its first reply gets lost."""
    append, lost_so_far = project.log.append_answers, []

    def broken(*words: Any, **more: Any) -> AppendResult:
        result = append(*words, **more)
        if not lost_so_far:
            lost_so_far.append(result)
            raise StorageError("the server does not answer", "unreachable")
        return result

    with pytest.MonkeyPatch.context() as lost:
        lost.setattr(project.log, "append_answers", broken)
        yield


def said(project: OpenProject) -> list[tuple[int, int, str]]:
    """All answers in the log: concept, item and word."""
    return [(row.answer.concept_id, row.answer.item, row.answer.answer) for row in project.log.log_rows()]


@pytest.mark.parametrize("name", VIEWS)
def test_after_a_lost_reply_each_view_goes_on(project, ada, name):
    """Sent again, the answers are acknowledged, stored once, and what follows them can be answered."""
    view = seen_as(name, ada)
    given = answers_to(card_of(view))
    with lost_reply(project):
        failed = take(project, view, given, ADA)
    assert (failed["acked"], failed["refused"]) == ([], [])
    assert failed["message"] == "The server does not answer"
    stored = said(project)
    card = take(project, view, given, ADA)
    assert set(card["acked"]) == {one["id"] for one in given}
    assert said(project)[: len(stored)] == stored
    assert said(project).count(stored[-1]) == 1
    following = answers_to(card)
    assert not {one["selection"] for one in following} & {one["selection"] for one in given}
    after = take(project, view, following, ADA)
    assert set(after["acked"]) == {one["id"] for one in following}
    assert after["refused"] == []


@pytest.mark.parametrize("name", ["one", "classes"])
def test_after_a_lost_reply_an_undo_brings_the_item_back(project, ada, name):
    view = seen_as(name, ada)
    (given,) = answers_to(card_of(view))
    take(project, view, [given], ADA)
    undo = given | {"id": str(uuid.uuid4()), "answer": "undo", "selection": None, "undoes": given["id"]}
    with lost_reply(project):
        take(project, view, [undo], ADA)
    card = take(project, view, [undo], ADA)
    assert card["acked"] == [undo["id"]]
    assert card["item"]["id"] == given["item"]
    (again,) = answers_to(card)
    assert take(project, view, [again], ADA)["acked"] == [again["id"]]


def test_after_a_lost_reply_decisions_go_on(project, ada):
    """What is decided is asked no more."""
    bob = project.session(annotator="bob")
    items = ada.concept.standing().labels.items[:2].tolist()
    for item in items:
        other = "no" if truth_word(project, item) == "yes" else "yes"
        correct(Review(bob), [answer({"item": {"id": item, "selection": None}}, other, session=bob.id)])
    decisions = project.decisions(ada)
    card = take(project, decisions, [], ADA)
    assert card["notes"]["waiting"] == 2
    given = answer(card, "yes", session=ada.id)
    with lost_reply(project):
        take(project, decisions, [given], ADA)
    card = take(project, decisions, [given], ADA)
    assert card["acked"] == [given["id"]]
    assert card["notes"]["waiting"] == 1
    assert card["item"]["id"] != given["item"]


def items_that_cannot_be_asked(project: OpenProject) -> dict[str, int]:
    """Ids that no answer may be about, and what is said of them."""
    assert project.pool is not None
    held_out = int(project.pool.held_out.ids[0])
    return {
        f"Item {held_out} is held out and is never asked about": held_out,
        "There is no item 1000000000 in the pool": 10**9,
        f"There is no item {2**63 - 1} in the pool": 2**63 - 1,
    }


@pytest.mark.parametrize("name", VIEWS)
def test_no_view_stores_an_answer_about_an_item_that_nobody_was_asked_about(project, ada, name):
    """Whatever the item's id: the answer is refused in one sentence, and others go on labeling."""
    view = seen_as(name, ada)
    before = said(project)
    left = sorted({*project.pool.ids.tolist()} - set(ada.concept.standing().answered.tolist()))
    impossible = [*items_that_cannot_be_asked(project).values(), left[0], -1, -(2**63), 2**63, 10**30]
    template = answers_to(card_of(view))[0]
    for item in impossible:
        hostile = template | {"id": str(uuid.uuid4()), "item": item, "selection": None}
        card = take(project, view, [hostile], ADA)
        assert card["acked"] == []
        (refused,) = card["refused"]
        assert refused["id"] == hostile["id"]
        assert len(refused["reason"].split(". ")) == 1
    assert said(project) == before
    bob = project.session(annotator="bob")
    n_labels = len(bob.concept.standing().labels)
    label(bob, 1)
    assert len(bob.concept.standing().labels) == n_labels + 1


def test_an_answer_to_what_was_shown_is_refused_where_the_pool_lacks_the_item(project, ada):
    """So for a correction, too, and for a decision: one sentence says why."""
    bob = project.session(annotator="bob")
    for reason, item in items_that_cannot_be_asked(project).items():
        about = {"item": {"id": item, "selection": shown_to(bob, item)}}
        card = take(project, bob, [answer(about, "yes", session=bob.id)], Person("bob"))
        assert [refused["reason"] for refused in card["refused"]] == [reason]


def test_who_reviews_may_join_what_others_said(project, ada):
    """Review's answers name no selection; also where the others' answer was taken back meanwhile."""
    bob = project.session(annotator="bob")
    item = int(ada.concept.standing().labels.items[0])
    joined = answer({"item": {"id": item, "selection": None}}, "unsure", session=bob.id)
    assert take(project, bob, [joined], Person("bob", is_owner=True))["acked"] == [joined["id"]]
    card = card_of(ada)
    given = answer(card, "yes")
    submit(ada, [given])
    submit(ada, [answer(card, "undo", selection=None, undoes=given["id"])])
    late = answer({"item": {"id": given["item"], "selection": None}}, "no", session=bob.id)
    assert take(project, bob, [late], Person("bob", is_owner=True))["acked"] == [late["id"]]


def test_an_undo_that_undoes_nothing_keeps_no_item_from_others(project, ada):
    """It names items as it likes: none of them is leased to its sender."""
    free = ada.project.leases.held(but_for={ada.id})
    for item in (int(project.pool.ids[0]), 10**9, 2**63 - 1):
        hostile = answer(
            {"item": {"id": item, "selection": None}}, "undo", undoes=str(uuid.uuid4()), session=ada.id
        )
        assert take(project, ada, [hostile], ADA)["refused"]
    hand = in_hand(project, ada)
    assert project.leases.held(but_for={"nobody"}) == tuple(sorted({*free, *hand}))


def in_hand(project: OpenProject, session: LabelingSession) -> set[int]:
    card = card_of(session)
    while card["next_is_coming"]:
        card = card_of(session)
    assert session.item_view.ahead is not None
    return {card["item"]["id"], *session.item_view.ahead.items}


def test_without_a_pool_an_answer_waits_in_the_browser(tmp_path):
    """It is neither stored nor refused, the reason is on the card, and it is stored once the pool is back."""
    with open_workspace(tmp_path) as workspace:
        folder = new_project(workspace).folder
        session = workspace.project(folder.name).session(annotator="ada")
        given = answer(card_of(session), "no", session=session.id)
    pool = next((tmp_path / "pools").iterdir())
    hidden = pool.rename(pool.with_suffix(".hidden"))
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(folder.name)
        session = project.session(session.id)
        for name in ("one", "grid", "found", "similar"):
            card = take(project, seen_as(name, session), [given], ADA)
            assert (card["acked"], card["refused"], said(project)) == ([], [], [])
            assert "once the pool can be read" in card["message"]
        hidden.rename(pool)
        while project.pool is None:
            time.sleep(0.01)
        assert take(project, session, [given], ADA)["acked"] == [given["id"]]


def test_what_only_an_owner_may_say_is_refused_and_holds_up_nothing_else(project, ada):
    """So where somebody is no owner any more, and the browser still has what they decided."""
    bob, person = project.session(annotator="bob"), Person("bob")
    item = int(ada.concept.standing().labels.items[0])
    about = {"item": {"id": item, "selection": None}}
    decided = answer(about, "yes", session=bob.id, selection=f"decide {item} x 0")
    joined = answer(about, "no", session=bob.id)
    own = answer(card_of(bob), "no", session=bob.id)
    card = take(project, bob, [decided, joined, own], person)
    assert card["acked"] == [own["id"]]
    reasons = {refused["id"]: refused["reason"] for refused in card["refused"]}
    assert reasons == {
        decided["id"]: "Only an owner may decide, but bob is not one",
        joined["id"]: f"Item {item} has no answer of yours: an owner decides about others'",
    }
    corrected = answer(about, "yes", session=bob.id, item=own["item"], corrects=own["id"])
    assert take(project, bob, [corrected], person)["acked"] == [corrected["id"]]


def test_every_view_stores_through_the_intake():
    """What goes past it is checked against no pool; a bench, which makes its own log, may do so."""
    folder = Path(closecall.app.__file__).parent
    modules = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")}
    users = {name for name, path in modules.items() if "append_answers(" in path.read_text("utf-8")}
    assert users == {"projects/intake.py", "experiments/bench/projects.py"}
