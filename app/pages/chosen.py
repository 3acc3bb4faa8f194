"""The project, question and session that the page's address names."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import streamlit as st

from closecall.app.display.phrases import name_of_question
from closecall.app.pages.browser import browser_at_page
from closecall.app.pages.person import name_at_page, sign_in_page
from closecall.app.pages.presence import note_use
from closecall.app.pages.problems import show_problem
from closecall.app.pages.state import show_value, state
from closecall.app.pages.wanted import ask_for_name_first
from closecall.app.projects.roles import SOMEBODY
from closecall.app.sessions.reset import replacement_of
from closecall.app.sessions.workspace import current
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from closecall.app.projects.project import Project
    from closecall.app.projects.roles import Person
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.registry import OpenProject


WAITING = "waiting"
"""Key in Streamlit's session state: the `SimilarSession` that this browser tab used last."""


def opened() -> tuple[OpenProject, LabelingSession] | None:
    """Return the project and session that the address names.

    If they can't be used, show the problem and return None.
    """
    try:
        project = chosen_project()
        _leave_others(project)
        session = chosen_session(project)
        _tell_of_reset(project, session)
    except (InputError, StorageError) as error:
        show_problem(error, waits=True)
        st.page_link("start.py", label="Back to the projects")
        return None
    return project, session


def _tell_of_reset(project: OpenProject, session: LabelingSession) -> None:
    """If the session's question was reset, say so, and show the button that leads to the new question."""
    fresh = replacement_of(project, session.concept.record) if session.concept.is_replaced else None
    if fresh is None:
        return

    def go_on() -> None:
        person = person_at(project)
        open_session(project, project.session_of(person, None, fresh.id, browser_at_page()))

    with st.container(key="reset", horizontal=True, vertical_alignment="center"):
        st.caption("This question was reset. This page is about the old one.")
        st.button("Go to the new question", on_click=go_on, type="tertiary")


def _leave_others(project: OpenProject) -> None:
    """If the tab has a `SimilarSession` of another project, leave it. Its builds can then be abandoned."""
    before = state.get(WAITING)
    if before is not None and before.session.project is not project:
        before.leave()
        del state[WAITING]


def chosen_project() -> OpenProject:
    """Return the project that the address names.

    If the address names no project, return the tab's previous project or, if there is none, the server's
    default project.

    Raises
    ------
    InputError
        If there is no such project, or the person may not enter it.
    StorageError
        If the project's database can't be used.
    """
    key = chosen_key()
    if key is None:
        st.switch_page("start.py")
    roles = current().roles_in(key)
    if roles.are_named and name_at_page() == SOMEBODY:
        state["project"] = key
        ask_for_name_first(sign_in_page())
    roles.person(name_at_page())
    project = current().project(key)
    state["project"] = key
    put_into_address("project", key)
    return project


def chosen_key() -> str | None:
    """Return the key of the project that `chosen_project` opens, or None if there is none."""
    key: str | None = st.query_params.get("project") or state.get("project") or current().landing
    return key


def person_at(project: Project) -> Person:
    """Return the person at the page, with their rights in this project."""
    return project.roles.person(name_at_page())


def chosen_session(project: OpenProject) -> LabelingSession:
    """Return the session that the address names, or another session of the same person.

    If the address names no session, return the tab's last session with the picked question. If there is no
    such session, return an older session of the person or a new session. Nobody gets another person's
    session. The returned session is put into the address, so that a reload of the page or a restarted server
    can resume it. If the address names a session that can't be used, another session replaces it. Until the
    browser has the new address, its requests still name the unusable session; they get the new session, too.
    """
    person = person_at(project)
    sessions = state.setdefault(("sessions", person.name), {})
    concept = state.get(("concept", project.key))
    wanted = st.query_params.get("session") or sessions.get((project.key, concept))
    before, after = state.get(("opened", project.key), (None, None))
    if before is not None and wanted == before:
        wanted = after
    elif before is not None:
        del state["opened", project.key]
    known = project.known_session(wanted, person) if wanted else None
    browser = browser_at_page()
    session = known or project.session_of(person, wanted, concept, browser)
    if wanted is not None and session.id != wanted:
        state["opened", project.key] = (wanted, session.id)
    sessions[project.key, session.concept.record.id] = session.id
    sessions[project.key, None] = session.id
    put_into_address("session", session.id)
    session.use_in(browser)
    note_use(project, session)
    return session


def open_session(project: OpenProject, session: LabelingSession) -> None:
    """Switch to this session. Call it from a widget's callback.

    Until the browser has the new address, its requests name the old session; they get the new session, too.
    """
    state["opened", project.key] = (st.query_params.get("session"), session.id)
    state["concept", project.key] = session.concept.record.id
    put_into_address("session", session.id)


def put_into_address(name: str, value: str) -> None:
    """Set a parameter of the address, unless it has this value already.

    Each write sends a message to the browser.
    """
    if st.query_params.get(name) != value:
        st.query_params[name] = value


def pick_concept(project: OpenProject, session: LabelingSession, *, archived: bool = False) -> None:
    """Show the picker of questions, with archived questions if `archived`.

    Picking a question opens a session of the person for this question.
    """
    offered = [*project.concepts(archived=archived), session.concept.record]
    concepts = {concept.id: concept for concept in offered}

    labeled_now = {concept.id for concept in project.concepts()}

    names = {
        number: name_of_question(concept, concepts.values(), labeled_now)
        for number, concept in concepts.items()
    }
    # The browser sends the question's name. After a reset, the new question has this name, hence another key.
    key = f"question-{crc32(repr(names).encode()):08x}"

    def picked() -> None:
        state["concept", project.key] = state[key]
        st.query_params.pop("session", None)

    shown = show_value(key, session.concept.record.id)
    st.selectbox(
        "Question",
        list(concepts),
        list(concepts).index(shown),
        format_func=names.__getitem__,
        key=key,
        on_change=picked,
        label_visibility="collapsed",
        width=230,
    )
