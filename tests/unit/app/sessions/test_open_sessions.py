"""Sessions that nobody is at are let go; who comes back goes on, and no session ever has two objects."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import closecall.app.sessions.open_sessions
from closecall.app.engine.leases import Leases
from closecall.app.sessions.open_sessions import KEPT_SECONDS, OpenSessions
from closecall.app.sessions.registry import OpenProject
from tests.projects import answer, label, new_project, open_workspace, truth_word


class Clock:
    """Time that passes when the test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def project(tmp_path: Path) -> Iterator[OpenProject]:
    with open_workspace(tmp_path) as workspace:
        yield new_project(workspace)


@pytest.fixture
def clock(project: OpenProject) -> Clock:
    """Of the project's sessions and leases."""
    clock = Clock()
    project._sessions, project.leases = OpenSessions(clock), Leases(clock=clock)
    return clock


def test_what_nobody_asks_for_is_let_go_and_goes_on_where_it_was(project: OpenProject, clock: Clock) -> None:
    """Session, views and leases go after an hour; the session comes back with the item that was in view."""
    session = project.session(annotator="Ada")
    label(session, 3)
    project.grid(session), project.found(session), project.similar_to(session), project.decisions(session)
    name, shown = session.id, session.shown
    assert session.item_view.ahead is not None
    session.item_view.ahead.wait(60)
    gone = weakref.ref(session)
    del session
    clock.now += KEPT_SECONDS + 1
    other = project.session(annotator="Bob")
    gc.collect()
    assert gone() is None
    project.session(annotator="Cleo")
    assert name not in project.leases._held
    back = project.session(name)
    assert (back.shown, back.history[-1].round) == (shown, 4)
    assert project.session(other.id) is other


def test_who_names_another_question_gets_a_session_of_it(project: OpenProject, clock: Clock) -> None:
    """Whether the named session is open or not."""
    name, other = project.session(annotator="Ada").id, project.add_concept("Is this a 3?").id
    for _ in range(2):
        found = project.session(name, other, "Ada")
        assert (found.concept.record.id, found.annotator) == (other, "Ada")
        clock.now += KEPT_SECONDS + 1
        project.session(annotator="Bob")
        gc.collect()


def test_an_object_that_a_page_holds_stays_the_only_one(project: OpenProject, clock: Clock) -> None:
    """However long nobody asked for it: a second one would number the same session's rounds, too."""
    session = project.session(annotator="Ada")
    grid = project.grid(session)
    clock.now += KEPT_SECONDS + 1
    project.session(annotator="Bob")
    gc.collect()
    again = project.session(session.id)
    assert again is session
    assert project.grid(again) is grid


def test_sessions_that_come_and_go_store_each_answer_once(
    project: OpenProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two windows a session, each let go at once: each round has one number, and each answer is there."""
    monkeypatch.setattr(closecall.app.sessions.open_sessions, "KEPT_SECONDS", 0.0)
    names = [project.session(annotator=who).id for who in ("Ada", "Bob", "Cleo")]
    sent: list[str] = []
    failed: list[BaseException] = []

    def window(name: str) -> None:
        try:
            for _ in range(6):
                session = project.session(name)
                with session.lock:
                    shown = session.in_view()
                    assert shown is not None
                    given = answer(
                        {"item": {"id": shown.item, "selection": shown.id}}, truth_word(project, shown.item)
                    )
                    outcome = session.store([given])
                assert not outcome.refused
                sent.extend(outcome.acked)
                del session
                gc.collect(0)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=window, args=(name,)) for name in names for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    concept = project.concepts()[0].id
    assert sorted(stored.id for stored in project.log.answers_after(concept)) == sorted(sent)
    rounds = Counter((record.session_id, record.round) for record in project.log.selections(concept))
    assert set(rounds.values()) == {1}
    assert len(sent) == 36


def test_who_comes_back_goes_on_in_the_session_with_the_last_answer(project: OpenProject) -> None:
    """Not in the empty session of a second tab; that one is used while the other is in use."""
    answered = project.session(annotator="Ada")
    label(answered, 3)
    answered.touch()
    empty = project.session(annotator="Ada")
    assert empty is not answered
    project.close_page(empty)
    assert project.session(annotator="Ada") is empty
    empty.touch()
    project.close_page(answered)
    assert project.session(annotator="Ada") is answered
    project.close_page(empty)
    assert project.session(annotator="Ada") is answered
    assert project.session(annotator="Bob") not in (answered, empty)
