"""Controls for demonstrations: the autopilot and the reset."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import streamlit as st

from closecall.app.display import phrases as words
from closecall.app.pages.browser import browser_at_page
from closecall.app.pages.chosen import open_session, person_at
from closecall.app.pages.problems import show_problem
from closecall.app.pages.state import state
from closecall.app.projects.roles import AUTOPILOT
from closecall.app.sessions import autopilot
from closecall.app.sessions.reset import start_afresh
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.registry import OpenProject


def demo(project: OpenProject, session: LabelingSession) -> None:
    """If the autopilot can answer the question, show owners the controls of the autopilot and the reset."""
    if not (person_at(project).is_owner and autopilot.can_answer(project, session.concept.record)):
        return
    with st.popover("Demo", icon=":material/play_circle:", key=f"demo-{session.id}"):
        if trouble := state.pop(("trouble", session.id), None):
            show_problem(trouble)
        if autopilot.is_autopilot(session):
            leave_autopilot(project, session)
        else:
            offer_autopilot(project, session)
        offer_fresh_start(project, session)
        st.caption("For large figures, press ? on this page.")


def offer_autopilot(project: OpenProject, session: LabelingSession) -> None:
    """Show the autopilot's start button, and the switch that adds its answers to people's labels."""
    st.caption("The autopilot knows the truth and answers for you.")
    st.toggle("Add its answers to the labels here", key="together")

    def watch() -> None:
        person_at(project).require_owner("let the autopilot label")
        concept = session.concept.record
        if not state["together"]:  # read here, because the toggle may have changed since the page was drawn
            concept = autopilot.own_concept(project, concept)
        state["by hand", project.key, session.concept.record.id] = session.id
        before = state.get((AUTOPILOT, project.key, concept.id))
        its_own = project.session(before, concept.id, AUTOPILOT, browser_at_page())
        state[AUTOPILOT, project.key, concept.id] = its_own.id
        its_own.set_strategy(session.strategy)
        open_session(project, its_own)

    action("Watch the autopilot", watch, session)


def leave_autopilot(project: OpenProject, session: LabelingSession) -> None:
    """Show the button that returns to the person's own session."""
    st.caption("The autopilot answers here, under its own name.")

    def leave() -> None:
        concept = autopilot.peoples_concept(project, session.concept.record)
        before = state.get(("by hand", project.key, concept.id))
        person = person_at(project)
        open_session(project, project.session_of(person, before, concept.id, browser_at_page()))

    action("Label by hand again", leave, session)


def offer_fresh_start(project: OpenProject, session: LabelingSession) -> None:
    """Show the button that resets the question, and its confirmation."""
    asked = ("afresh", session.id)

    def ask() -> None:
        state[asked] = True

    def keep_on() -> None:
        state[asked] = False

    def begin() -> None:
        keep_on()
        person = person_at(project)
        fresh = start_afresh(project, session.concept.record, by=person)
        open_session(project, project.session_of(person, None, fresh.id, browser_at_page()))

    if not state.get(asked):
        action("Reset for the next audience…", ask, session)
        return
    st.caption(words.labels_kept(session.concept.counts().answered))
    with st.container(horizontal=True):
        action("Cancel", keep_on, session)
        action("Reset", begin, session)


def action(label: str, act: Callable[[], None], session: LabelingSession) -> None:
    """Show a button that calls `act` and then draws the page again, with the error if `act` failed."""

    def attempt() -> None:
        try:
            act()
        except (InputError, StorageError) as error:
            state["trouble", session.id] = str(error)

    st.button(label, width="stretch", on_click=attempt)
