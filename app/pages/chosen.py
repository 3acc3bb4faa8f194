"""What the address names: a project, a question of it, and the session that works at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from closecall.app.pages.person import name_at_page, sign_in_page
from closecall.app.pages.problems import show_problem
from closecall.app.pages.state import state
from closecall.app.projects.roles import SOMEBODY
from closecall.app.sessions.workspace import current
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from closecall.app.projects.project import Project
    from closecall.app.projects.roles import Person
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.registry import OpenProject


def opened() -> tuple[OpenProject, LabelingSession] | None:
    """The project and the session of the address; None where there are none, and the page says why."""
    try:
        project = chosen_project()
        return project, chosen_session(project)
    except (InputError, StorageError) as error:
        show_problem(error, waits=True)
        st.page_link("start.py", label="Back to the projects")
        return None


def chosen_project() -> OpenProject:
    """The project of the address; else the one before; else the one that the server was started for.

    Raises
    ------
    InputError
        If there is none, or whoever is at the page may not enter.
    """
    workspace = current()
    key = st.query_params.get("project") or state.get("project") or workspace.landing
    if key is None:
        st.switch_page("start.py")
    project = workspace.project(key)
    if project.roles.are_named and name_at_page() == SOMEBODY:
        state["project"] = key
        st.switch_page(sign_in_page())
    person_at(project)
    state["project"] = key
    put_into_address("project", key)
    return project


def person_at(project: Project) -> Person:
    """Who is at the page, and what they may do in this project."""
    return project.roles.person(name_at_page())


def chosen_session(project: OpenProject) -> LabelingSession:
    """The session of the address, so that a reload or another server goes on with it; else a new one.

    Nobody gets another person's. Of an address that names none that is there, or that may be opened, the
    browser may speak again before it knows the new one.
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
    session = project.session_of(person, wanted, concept)
    if wanted is not None and session.id != wanted:
        state["opened", project.key] = (wanted, session.id)
    sessions[project.key, session.concept.record.id] = session.id
    sessions[project.key, None] = session.id
    put_into_address("session", session.id)
    return session


def open_session(project: OpenProject, session: LabelingSession) -> None:
    """Go on with this session instead of the one in the address; for callbacks.

    What the browser sends before it knows still names the other one: until it doesn't, it is overruled.
    """
    state["opened", project.key] = (st.query_params.get("session"), session.id)
    state["concept", project.key] = session.concept.record.id
    put_into_address("session", session.id)


def put_into_address(name: str, value: str) -> None:
    """Each write is a message to the browser, even if nothing changes."""
    if st.query_params.get(name) != value:
        st.query_params[name] = value


def pick_concept(project: OpenProject, session: LabelingSession, *, put_away: bool = False) -> None:
    """The project's questions, and what is put away if asked for; another question is another session."""
    offered = [*project.concepts(put_away=put_away), session.concept.record]
    concepts = {concept.id: concept for concept in offered}

    def named(concept: int) -> str:
        """The browser tells options apart by what they are called: alike questions need their names."""
        question, name = concepts[concept].question, concepts[concept].name
        alike = sum(other.question == question for other in concepts.values())
        if alike == 1:
            return question
        stem = question.strip(" ?")
        return question + name.removeprefix(stem) if name.startswith(stem) else f"{question} ({name})"

    def picked() -> None:
        state["concept", project.key] = state["question"]
        st.query_params.pop("session", None)

    state["question"] = session.concept.record.id
    st.selectbox(
        "Question",
        list(concepts),
        format_func=named,
        key="question",
        on_change=picked,
        label_visibility="collapsed",
        width=230,
    )
