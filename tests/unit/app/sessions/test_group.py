"""One press answers a whole burst: each item is stored on its own."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace

import pytest

from closecall.app.api.cards import card_of, submit
from closecall.app.sessions.answers import read_answer
from closecall.app.sessions.group import MOST, SHOWN, Group
from closecall.storage import LabelState
from tests.projects import (
    answer,
    find_groups,
    label,
    labeled,
    new_project,
    open_workspace,
    reply_lost,
    shown_to,
    verified,
    wait_for_index,
)


@pytest.fixture
def grouped(project):
    """A project whose pool has bursts of six."""
    wait_for_index(project, "margin-index")
    find_groups(project, 6, "bursts")
    return project


def session_of(project, name="ada"):
    return project.session(project.log.start_session(1, name, "margin-index", seed=5).id)


def drawn(session):
    """The card, once the pictures of the group and what may follow are there."""
    until = time.monotonic() + 300
    card = card_of(session)
    while card["next_is_coming"] or (card["group"] and card["group"]["is_coming"]):
        assert time.monotonic() < until
        card = card_of(session)
    return card


def members(card):
    return [member["id"] for member in card["group"]["members"]]


def stored(project):
    return [(a.item, a.answer, a.purpose) for a in project.log.answers_after(1)]


def test_one_press_answers_the_items_shown(grouped):
    """All in one transaction; the next item is selected by a model that has learned from all."""
    session = session_of(grouped)
    label(session, 3)
    before = len(stored(grouped))
    card = drawn(session)
    own, others = card["item"]["id"], members(card)
    assert card["group"]["selection"] == card["item"]["selection"]
    assert sorted([own, *others]) == grouped.duplicates.current.members(own).tolist()
    assert all(member["src"].startswith("data:image/") for member in card["group"]["members"])
    given = answer(card, "no", group=others, next=None)
    after = submit(session, [given])
    assert after["acked"] == [given["id"]]
    assert after["item"]["id"] not in session.concept.standing().repeats
    assert session.shown.n_labels == before + 6
    assert stored(grouped)[before:] == [(item, "no", "train") for item in [*sorted(others), own]]
    assert set(others) <= set(session.concept.standing().labels.items.tolist())
    assert after["strip"][-1]["item"] == own
    label(session, 3)
    verified(grouped)


def test_an_answer_that_is_sent_again_is_stored_once(grouped):
    """With those about the others, even after one of them was undone."""
    session = session_of(grouped)
    card = drawn(session)
    given = answer(card, "yes", group=members(card))
    submit(session, [given])
    assert len(stored(grouped)) == 6
    assert submit(session, [given])["acked"] == [given["id"]]
    other = grouped.log.recent_answers(1, 2)[1]
    submit(session, [answer(card, "undo", selection=None, item=other.item, undoes=other.id)])
    assert submit(session, [given])["acked"] == [given["id"]]
    assert len(stored(grouped)) == 7
    assert session.concept.counts().yes == 5


def test_a_press_whose_reply_was_lost_is_in_doubt_until_it_is_sent_again(grouped, monkeypatch):
    """The browser sends only the press again, and nothing about the other items stays in doubt."""
    session = session_of(grouped)
    card = drawn(session)
    given = answer(card, "yes", group=members(card))
    with reply_lost(grouped, monkeypatch):
        session.store([given])
    assert grouped.intake.is_in_doubt
    after = submit(session, [given])
    assert after["acked"] == [given["id"]]
    assert after["item"]["selection"] != card["item"]["selection"]
    assert len(stored(grouped)) == 6
    assert not grouped.intake.is_in_doubt


def test_each_is_undone_and_corrected_singly(grouped):
    """The view stays, whatever becomes of the other items."""
    session = session_of(grouped)
    card = drawn(session)
    given = answer(card, "yes", group=members(card))
    submit(session, [given])
    ids = {a.item: a.id for a in grouped.log.answers_after(1)}
    other, another = members(card)[:2]
    in_view = session.shown.item
    after = submit(session, [answer(card, "undo", selection=None, item=other, undoes=ids[other])])
    after = submit(session, [answer(card, "no", selection=None, item=another, corrects=ids[another])])
    assert after["item"]["id"] == in_view
    counts = session.concept.counts()
    assert (counts.yes, counts.no) == (4, 1)
    verified(grouped)


def undo_of(given):
    """What the browser sends on U, whether or not the press was acknowledged."""
    changes = {"id": str(uuid.uuid4()), "answer": "undo", "selection": None, "undoes": given["id"]}
    return {name: value for name, value in given.items() if name not in ("group", "next")} | changes


@pytest.mark.parametrize("when", ["acknowledged", "not acknowledged", "sent again"])
def test_one_undo_takes_back_the_whole_press(grouped, when):
    """Whether the server has the press at that time or not; the item comes back, and with it the group."""
    session = session_of(grouped)
    card = drawn(session)
    given = answer(card, "yes", group=members(card))
    undo = undo_of(given)
    if when != "not acknowledged":
        strip = submit(session, [given])["strip"]
        assert strip[-1]["answer_id"] == given["id"]
        assert {entry["along"] for entry in strip[:-1]} == {given["id"]}
    for _ in range(2):
        after = submit(session, [undo] if when == "acknowledged" else [given, undo])
        assert undo["id"] in after["acked"]
        assert not after["refused"]
        assert after["item"]["id"] == card["item"]["id"]
        assert session.concept.counts().answered == 0
        assert not after["strip"]
    assert len(stored(grouped)) == 12
    assert members(drawn(session)) == members(card)
    verified(grouped)


def test_an_undo_after_a_restart_takes_back_the_whole_press(tmp_path):
    """Even if the items are no longer in one group; what remains in the strip is as before the press."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        find_groups(project, 6, "bursts")
        session = labeled(project, 2)
        before, strip = session.concept.counts(), card_of(session)["strip"]
        card = drawn(session)
        given = answer(card, "yes", group=members(card))
        assert submit(session, [given])["acked"]
        key, session_id = project.key, session.id
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        find_groups(project, 2, "near")
        session = project.session(session_id)
        last = card_of(session)["strip"][-1]
        undo = undo_of({**given, "item": last["item"], "id": last["answer_id"]})
        after = submit(session, [undo])
        assert after["acked"] == [undo["id"]]
        assert after["item"]["id"] == card["item"]["id"]
        assert after["strip"] == strip
        assert session.concept.counts() == before
        verified(project)


def test_an_undo_among_classes_takes_back_the_whole_press(grouped):
    """The answers about the other items are about one concept, as the press was."""
    other = grouped.add_concept("Is this a 3?")
    session = session_of(grouped)
    card = drawn(session)
    given = answer(card, "yes", group=members(card))
    submit(session, [given])
    undo = undo_of(given) | {"session": session.id, "classes": [1, other.id], "concept": None}
    assert submit(grouped.classes(session), [undo])["acked"] == [undo["id"]]
    assert session.concept.counts().answered == 0


def test_an_undo_leaves_what_else_was_answered_since(grouped):
    """By somebody else, by the same person in another way, or undone before."""
    ada, bob = session_of(grouped), session_of(grouped, "bob")
    card = drawn(ada)
    others = members(card)
    given = answer(card, "yes", group=others)
    submit(ada, [given])
    ids = {a.item: a.id for a in grouped.log.answers_after(1)}
    for session, item in ((bob, others[0]), (ada, others[1])):
        submit(session, [answer(card, "no", item=item, selection=shown_to(session, item))])
    single = undo_of({**given, "item": others[2], "id": ids[others[2]]})
    correction = answer(card, "no", selection=None, item=others[3], corrects=ids[others[3]])
    assert submit(ada, [single, correction])["acked"] == [single["id"], correction["id"]]
    undo = undo_of(given)
    for _ in range(2):
        assert submit(ada, [undo])["acked"] == [undo["id"]]
    state = ada.concept.catch_up()
    votes = {item: dict(state.votes(item)) for item in [card["item"]["id"], *others]}
    no = {"ada": "no"}
    assert list(votes.values()) == [{}, {"bob": "no"}, no, {}, no, {}]
    again = undo_of(given)
    assert [refusal["id"] for refusal in submit(ada, [again])["refused"]] == [again["id"]]
    verified(grouped)


def test_what_others_have_or_answered_is_left_out(grouped):
    """On the card, and again when the answer arrives; items of other groups are never answered along."""
    ada, bob = session_of(grouped), session_of(grouped, "bob")
    grouped.set_ask_once(False)
    card = drawn(ada)
    others = members(card)
    ada.project.leases.add(bob.id, [others[0]])
    assert members(drawn(ada)) == others[1:]
    foreign = next(item for item in grouped.pool.ids.tolist() if item not in [card["item"]["id"], *others])
    held_out = int(grouped.pool.held_out.ids[0])
    given = answer(card, "no", group=[*others, foreign, held_out, 10**9, -1])
    assert submit(ada, [given])["acked"] == [given["id"]]
    assert [item for item, *_ in stored(grouped)] == [*others[1:], card["item"]["id"]]
    verified(grouped)


def test_skipped_items_are_answered_along_once_they_may_come_again(grouped):
    """Unless they belong to the audit, whose answers train no model."""
    session = session_of(grouped)
    card = drawn(session)
    others = members(card)
    submit(session, [answer(card, "skip", group=others)])
    session.revisit_skipped()
    audited = shown_to(session, others[0])
    audit = answer({"item": {"id": others[0], "selection": audited}}, "skip")
    with session.concept.lock:
        grouped.log.append_answers([replace(read_answer(audit, session), purpose="audit")])
    again = shown_to(session, card["item"]["id"])
    session.item_view.resume()
    card = drawn(session)
    assert card["item"]["selection"] == again
    assert members(card) == others[1:]
    before = len(stored(grouped))
    submit(session, [answer(card, "no", group=others)])
    assert stored(grouped)[before:] == [(item, "no", "train") for item in [*others[1:], card["item"]["id"]]]
    verified(grouped)


def test_two_presses_that_arrive_together_answer_an_item_once(grouped):
    """The second is about an item that the first one answered along."""
    grouped.set_ask_once(False)
    ada, bob = session_of(grouped), session_of(grouped, "bob")
    card = drawn(ada)
    first = answer(card, "yes", group=members(card))
    again = {**first, "id": str(uuid.uuid4())}
    outcome = submit(ada, [first, again])
    assert outcome["acked"] == [first["id"]]
    assert [refusal["id"] for refusal in outcome["refused"]] == [again["id"]]
    assert len(stored(grouped)) == 6
    card = drawn(bob)
    assert card["item"]["id"] not in [item for item, *_ in stored(grouped)]


@pytest.mark.parametrize("changes", ["unknown selection", "item of another group"])
def test_a_refused_press_stores_nothing(grouped, changes):
    """Neither what it says about the item in view nor what it says about the others; the view stays."""
    session = session_of(grouped)
    card = drawn(session)
    own, others = card["item"]["id"], members(card)
    if changes == "unknown selection":  # an older backup was restored meanwhile
        given = answer(card, "yes", group=others, selection=str(uuid.uuid4()))
    else:
        foreign = next(item for item in grouped.pool.ids.tolist() if item not in [own, *others])
        its_group = grouped.duplicates.current.members(foreign).tolist()
        given = answer(card, "yes", item=foreign, group=its_group)
    outcome = submit(session, [given])
    assert [refusal["id"] for refusal in outcome["refused"]] == [given["id"]]
    assert not stored(grouped)
    assert outcome["item"]["selection"] == card["item"]["selection"]


@pytest.mark.parametrize("listed", ["7", {"7": 1}, [1.5], [True], [None], list(range(MOST + 1))])
def test_a_malformed_list_refuses_the_answer_in_a_sentence(grouped, listed):
    """Nothing is stored."""
    session = session_of(grouped)
    given = answer(card_of(session), "yes", group=listed)
    (refusal,) = submit(session, [given])["refused"]
    assert f"group must be a list of at most {MOST} items" in refusal["reason"]
    assert not stored(grouped)


def test_the_audit_and_further_opinions_are_about_one_item(grouped):
    """Answers about near-duplicates of an audited item would train the model that the audit judges."""
    session = labeled(grouped, 3)
    session.set_audit_share(1.0)
    session.item_view.choose()
    card = drawn(session)
    assert session.shown.why == "audit"
    assert card["group"] is None
    before = len(stored(grouped))
    group = grouped.duplicates.current.members(card["item"]["id"]).tolist()
    submit(session, [answer(card, "no", group=group)])
    assert stored(grouped)[before:] == [(card["item"]["id"], "no", "audit")]
    session.set_audit_share(0.0)
    grouped.set_overlap(2, 1.0)
    bob = session_of(grouped, "bob")
    assert bob.in_view().why == "overlap"
    card = drawn(bob)
    assert card["group"] is None
    before = len(stored(grouped))
    group = grouped.duplicates.current.members(card["item"]["id"]).tolist()
    submit(bob, [answer(card, "no", group=group)])
    assert stored(grouped)[before:] == [(card["item"]["id"], "no", "train")]
    verified(grouped)


def test_a_card_looks_at_no_more_of_a_large_group_than_one_press_answers(grouped, monkeypatch):
    """While the pictures are drawn, the browser asks for a card ten times a second."""
    monkeypatch.setattr("closecall.app.sessions.group.MOST", 40)
    find_groups(grouped, 300, "bursts")
    session = session_of(grouped)
    card = drawn(session)
    looked_at = set()
    status = LabelState.status

    def counted(state, item):
        looked_at.add(item)
        return status(state, item)

    monkeypatch.setattr(LabelState, "status", counted)
    assert members(card_of(session)) == members(card)
    assert len(card["group"]["more"]) == 40 - SHOWN
    assert len(looked_at) <= 40 + 1


def everyone(card):
    """The other items that one press answers: those that are shown, and the rest."""
    return [*members(card), *card["group"]["more"]]


def test_one_press_answers_a_burst_of_more_items_than_are_shown(grouped):
    """None remains without an answer and without a question; each is undone singly, or all at once."""
    find_groups(grouped, 60, "bursts")
    session = session_of(grouped)
    card = drawn(session)
    own, others = card["item"]["id"], everyone(card)
    burst = grouped.duplicates.current.members(own).tolist()
    assert card["item"]["alike"] == "One of 60 shots of a burst"
    assert len(members(card)) == SHOWN
    assert sorted([own, *others]) == burst
    given = answer(card, "no", group=others)
    assert submit(session, [given])["acked"] == [given["id"]]
    assert stored(grouped) == [(item, "no", "train") for item in [*sorted(others), own]]
    ids = {a.item: a.id for a in grouped.log.answers_after(1)}
    for item in (others[0], others[-1]):
        submit(session, [answer(card, "undo", selection=None, item=item, undoes=ids[item])])
    assert session.concept.counts().no == 58
    after = submit(session, [undo_of(given)])
    assert after["item"]["id"] == own
    assert {item: session.concept.catch_up().status(item) for item in burst} == dict.fromkeys(burst)
    assert sorted(everyone(drawn(session))) == sorted(others)
    label(session, 3)
    verified(grouped)


def test_an_undo_of_a_long_press_that_is_still_in_the_queue_undoes_all(grouped):
    """Both arrive together, as after a cut line."""
    find_groups(grouped, 60, "bursts")
    session = session_of(grouped)
    card = drawn(session)
    given = answer(card, "yes", group=everyone(card))
    after = submit(session, [given, undo_of(given)])
    assert not after["refused"]
    assert after["item"]["id"] == card["item"]["id"]
    assert len(stored(grouped)) == 120
    assert session.concept.counts().answered == 0
    verified(grouped)


def test_items_that_were_held_while_the_pictures_were_drawn_are_not_answered_unseen(grouped):
    """Even if they are free again by then."""
    ada, bob = session_of(grouped), session_of(grouped, "bob")
    card = drawn(ada)
    others = members(card)
    assert card["group"]["more"] == []
    grouped.leases.add(bob.id, [others[0]])
    ada.group = Group(ada)
    assert everyone(drawn(ada)) == others[1:]
    grouped.leases.leave(bob.id)
    assert everyone(drawn(ada)) == others[1:]
