"""The Map page: the pool's items in the plane, coloured by the question's hyperplane."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import streamlit as st

from closecall.app.api.map import LiveMap, is_mapped
from closecall.app.components import MAP
from closecall.app.engine.lasso import Lasso
from closecall.app.pages.chosen import opened, person_at, pick_concept
from closecall.app.pages.find import open_lasso
from closecall.app.pages.fragment import fragment
from closecall.app.pages.problems import show_problem
from closecall.app.pages.state import state
from closecall.app.sessions.autopilot import is_autopilot
from closecall.app.sessions.workspace import current
from closecall.core.errors import InputError
from closecall.storage import StorageError

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.registry import OpenProject

VIEWED = "viewed map"
"""Key in Streamlit's session state: the `LiveMap` that this browser tab used last."""


def main() -> None:
    """Open the project and session that the address names, and show the map of the project's pool."""
    if (found := opened()) is None:
        return
    project, session = found
    with st.container(key="toolbar", horizontal=True, vertical_alignment="center"):
        pick_concept(project, session, archived=True)
    with st.container(key="map"):
        if is_mapped(current(), project.key):
            show_map(project, session)
        else:
            st.title("There is no map yet", anchor=False)
            st.markdown("Make one with this command, then reload the page. It needs the extra `[map]`.")
            pool = shlex.quote(str(project.pool_path)) if person_at(project).is_owner else "POOL"
            st.code(f"closecall pool map {pool}", language=None)


@fragment
def show_map(project: OpenProject, session: LabelingSession) -> None:
    """Show the map; the browser requests the map's state and tiles from the routes of `app.server.map`.

    If the browser sends a lasso, show the enclosed items on the Label page.
    """
    key, refused = f"map-{session.id}", None
    sent = state.get(key, {})
    if sent.get("lasso") is not None:
        try:
            project.enclosed(session).look_in(Lasso.of(sent["lasso"]))
        except (InputError, StorageError) as error:
            refused = str(error)
        else:
            open_lasso()
            st.switch_page("label.py", query_params={"project": project.key, "session": session.id})
    try:
        state[VIEWED] = LiveMap.of(session)  # this reference keeps the map in memory
        page = state[VIEWED].about()
    except (InputError, StorageError) as error:
        show_problem(error, waits=True)
    else:
        own = {"offers_grid": offers_grid(project, session), "refused": refused, "beat": sent.get("beat")}
        MAP.show({**page, **own}, key=key)


def offers_grid(project: OpenProject, session: LabelingSession) -> bool:
    """Return whether the items in a lasso can be shown and answered on the Label page."""
    question = session.concept.record.id
    is_active = any(concept.id == question for concept in project.concepts())
    return is_active and not is_autopilot(session)


main()
