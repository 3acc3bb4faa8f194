"""The plain widgets: each press is about what its button was drawn with."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from closecall.app.api import plain
from closecall.app.api.cards import card_of
from closecall.app.api.plain import Drawn, PlainCard
from closecall.app.projects.roles import SOMEBODY, Person
from closecall.storage import StorageError
from tests.projects import answer, new_project, open_workspace

OWNER = Person(SOMEBODY, is_owner=True)


@pytest.fixture
def session(tmp_path):
    with open_workspace(tmp_path) as workspace:
        yield new_project(workspace).session()


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on when it is told to."""

    class Clock:
        now = 1000.0

        def wait(self, seconds=1.0):
            self.now += seconds

    made = Clock()
    monkeypatch.setattr(plain, "time", SimpleNamespace(monotonic=lambda: made.now, time=lambda: made.now))
    return made


@pytest.fixture
def card(session, clock):
    return PlainCard(session.project, session, OWNER)


def seen(card: PlainCard, clock) -> Drawn:
    drawn = card.draw()
    clock.wait()
    return drawn


def stored(session):
    answers = session.project.log.answers_after(session.concept.record.id)
    return [(answer.item, answer.answer) for answer in answers]


def test_a_press_answers_what_was_drawn(session, card, clock):
    """One answer each, on the item of the button, and another item follows."""
    given = []
    for word in ("yes", "no", "skip", "unsure"):
        drawn = seen(card, clock)
        card.press(drawn, word)
        given.append((drawn.card["item"]["id"], word))
    assert stored(session) == given
    assert len({item for item, _ in given}) == 4


def test_a_press_that_arrives_late_lands_on_no_other_item(session, card, clock):
    """The button's item was answered meanwhile: the second press of it changes nothing."""
    drawn = seen(card, clock)
    card.press(drawn, "yes")
    after = seen(card, clock)
    card.press(drawn, "no")
    assert stored(session) == [(drawn.card["item"]["id"], "yes")]
    assert card.draw() is after


def test_presses_too_fast_for_a_person_answer_nothing(session, card, clock):
    """Neither on an image that has just come nor one after the other, as those of a held key."""
    drawn = card.draw()
    clock.wait(plain.SETTLE_SECONDS / 2)
    card.press(drawn, "yes")
    for _ in range(20):
        clock.wait(plain.SETTLE_SECONDS / 2)
        card.press(drawn, "yes")
    assert stored(session) == []
    clock.wait()
    card.press(drawn, "yes")
    assert len(stored(session)) == 1


def test_an_image_may_be_judged_soon_after_it_was_sent(session, card, clock):
    """However long drawing took, and drawn again it isn't new."""
    drawn = card.draw()
    clock.wait()
    drawn.sent()
    clock.wait(plain.SETTLE_SECONDS / 2)
    card.press(drawn, "yes")
    assert stored(session) == []
    clock.wait(plain.SETTLE_SECONDS * 2)
    drawn.sent()
    card.press(drawn, "yes")
    assert len(stored(session)) == 1


def test_undo_takes_back_the_last_answer_and_brings_its_item_back(session, card, clock):
    """As on the card; where there is nothing to take back it does nothing."""
    first = seen(card, clock)
    card.press(first, "undo")
    clock.wait()
    card.press(first, "yes")
    card.press(seen(card, clock), "undo")
    item = first.card["item"]["id"]
    assert stored(session) == [(item, "yes"), (item, "undo")]
    assert card.draw().card["item"]["id"] == item


def test_only_an_owner_undoes_a_decision(session, card, clock):
    """A former owner's is refused with the reason; an owner's is stored as the undo of a decision."""
    first = seen(card, clock)
    card.press(first, "yes")
    session.project.session(annotator="bob").store([answer(first.card, "no", selection=None)])
    decisions = session.project.decisions(session)
    decided = answer(card_of(decisions), "no")
    decisions.store([decided], OWNER)
    formerly = PlainCard(session.project, session, Person(SOMEBODY))
    formerly.press(seen(formerly, clock), "undo")
    assert formerly.message == "Only an owner may decide, but annotator is not one"
    undo = seen(card, clock)
    card.press(undo, "undo")
    stored_undo = session.project.log.answer(undo.undo_id)
    assert (stored_undo.undoes, stored_undo.purpose) == (decided["id"], "decision")


def test_two_windows_store_one_answer(session, card, clock):
    """The second to answer the same image is told; it then sees another one."""
    other = PlainCard(session.project, session, OWNER)
    mine, theirs = seen(card, clock), seen(other, clock)
    card.press(mine, "yes")
    other.press(theirs, "no")
    assert len(stored(session)) == 1
    assert "answered already" in other.message
    assert other.draw().card["item"]["id"] != theirs.card["item"]["id"]


def test_an_answer_that_could_not_be_stored_can_be_pressed_again(session, card, clock, monkeypatch):
    """The reason is told; under its own id it is then stored once."""

    def fail(answers):
        raise StorageError("The disk is full")

    drawn = seen(card, clock)
    with monkeypatch.context() as broken:
        broken.setattr(session, "store", fail)
        card.press(drawn, "yes")
    assert card.message == "The disk is full"
    assert card.draw() is drawn
    clock.wait()
    card.press(drawn, "yes")
    assert stored(session) == [(drawn.card["item"]["id"], "yes")]
    assert card.message == ""
