"""The People page: who labels, inter-annotator agreement, and adjudication."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from closecall.app.api.people import team
from closecall.app.api.submit import take
from closecall.app.components import LABEL, PEOPLE, answers_of
from closecall.app.pages.chosen import opened, person_at, pick_concept, put_into_address
from closecall.app.pages.fragment import fragment
from closecall.app.pages.http import way_of
from closecall.app.pages.problems import show_or_keep, show_problem
from closecall.app.pages.state import show_value
from closecall.app.pages.toolbar import fold_on_phones
from closecall.app.sessions.review_query import zone_named
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.registry import OpenProject

VIEWS = {"people": "People", "decide": "Decide"}
"""Titles of the views, by their name in the address."""


def main() -> None:
    """Open the project and session that the address names, and show the people who label the question."""
    if (found := opened()) is None:
        return
    project, session = found
    is_owner = person_at(project).is_owner
    with st.container(key="toolbar", horizontal=True, vertical_alignment="center"):
        pick_concept(project, session, archived=True)
        view = pick_view() if is_owner else "people"
        if view == "decide":
            fold_on_phones(f"decide-{session.id}")
    with st.container(key="card" if view == "decide" else "team"):
        if view == "decide":
            show_decisions(project, session)
        else:
            show_people(session)


def pick_view() -> str:
    """Show the picker of views and return the chosen view. The page's address stores the choice."""

    def picked() -> None:
        put_into_address("view", st.session_state["people-view"] or view)

    asked = st.query_params.get("view")
    view = asked if asked in VIEWS else "people"
    st.segmented_control(
        "View",
        list(VIEWS),
        format_func=VIEWS.__getitem__,
        default=show_value("people-view", view),
        key="people-view",
        on_change=picked,
        label_visibility="collapsed",
    )
    return view


@fragment
def show_people(session: LabelingSession) -> None:
    """Show each annotator's statistics and the agreement between annotators."""
    try:
        page = team(session, person_at(session.project), zone_named(st.context.timezone))
    except (InputError, StorageError) as error:
        show_problem(error, waits=True)
    else:
        PEOPLE.show(page, key=f"people-{session.id}")


@fragment
def show_decisions(project: OpenProject, session: LabelingSession) -> None:
    """Store decisions, and show the next contested item."""
    key = f"decide-{session.id}"
    person = person_at(project)

    def card() -> dict[str, Any]:
        person.require_owner("decide")
        view = project.decisions(session)
        way = way_of(project, view)  # before the card, so that no change is missed
        shown = take(project, view, answers_of(st.session_state.get(key, {})), person)
        return shown | {"http": way}

    show_or_keep(LABEL, key, card)


main()
