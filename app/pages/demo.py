"""For an audience: the autopilot, the check against a full scan, and a fresh start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from app import autopilot, words
from app.afresh import start_afresh
from app.autopilot import AUTOPILOT
from app.full_scan import Check
from app.pages.chosen import open_session
from core.errors import InputError
from storage.errors import StorageError

if TYPE_CHECKING:
    from app.project import Project
    from app.service import LabelingSession


def demo(project: Project, session: LabelingSession) -> None:
    """The autopilot, where the truth is known, and the fresh start."""
    if not autopilot.can_answer(project, session.concept.record):
        return
    with st.popover("Demo", icon=":material/play_circle:", key=f"demo-{session.id}"):
        try:
            if autopilot.is_autopilot(session):
                leave_autopilot(project, session)
            else:
                offer_autopilot(project, session)
            offer_fresh_start(project, session)
        except (InputError, StorageError) as error:
            st.error(str(error))


def offer_autopilot(project: Project, session: LabelingSession) -> None:
    """Let the simulated annotator label, apart from people's labels unless they ask."""
    st.caption("The autopilot knows the truth, and answers for you.")
    together = st.toggle("Add its answers to the labels here", key="together")
    if st.button("Watch the autopilot", width="stretch"):
        concept = session.concept.record
        if not together:
            concept = autopilot.own_concept(project, concept)
        st.session_state["by hand", project.key] = session.id
        flown = st.session_state.get((AUTOPILOT, project.key, concept.id))
        other = project.session(flown, concept.id, AUTOPILOT)
        st.session_state[AUTOPILOT, project.key, concept.id] = other.id
        other.set_strategy(session.strategy)
        open_session(project, other)


def leave_autopilot(project: Project, session: LabelingSession) -> None:
    """Back to one's own labels."""
    st.caption("The autopilot answers here, under its own name.")
    if st.button("Label by hand again", width="stretch"):
        concept = autopilot.peoples_concept(project, session.concept.record)
        before = st.session_state.get(("by hand", project.key))
        open_session(project, project.session(before, concept.id))


def offer_fresh_start(project: Project, session: LabelingSession) -> None:
    """The same question without labels, once it is confirmed."""
    asked = ("afresh", session.id)

    def ask(whether: bool) -> None:
        st.session_state[asked] = whether

    if not st.session_state.get(asked):
        st.button("Start afresh for the next audience…", width="stretch", on_click=ask, args=(True,))
        return
    st.caption(words.put_away(session.concept.catch_up().counts.answered))
    with st.container(horizontal=True):
        st.button("Keep on", width="stretch", on_click=ask, args=(False,))
        if st.button("Start afresh", width="stretch"):
            ask(False)
            fresh = start_afresh(project, session.concept.record)
            open_session(project, project.session(None, fresh.id))


def on_show(
    project: Project, session: LabelingSession, card: dict[str, Any], said: Mapping[str, Any]
) -> dict[str, Any]:
    """The card, with the autopilot's answers where it is its session, and the check that was asked for."""
    return card | {"autopilot": autopilot.answers(session, card), "check": _check(project, session, said)}


def _check(project: Project, session: LabelingSession, said: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is known of the item that the browser asked about last."""
    asked, key = said.get("check"), ("check", session.id)
    check: Check | None = st.session_state.get(key)
    if isinstance(asked, str) and (check is None or check.selection_id != asked):
        check = st.session_state[key] = Check(session, asked)
        check.start(project.executor)
    return check.said() if check else None
