"""The progress page: whether to stop, how the labeling went, and what the audit says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from app.components import PROGRESS
from app.pages.chosen import chosen_project, chosen_session, pick_concept
from app.progress import progress
from core.errors import InputError
from storage.errors import StorageError

if TYPE_CHECKING:
    from app.service import LabelingSession


def main() -> None:
    """Open the project and session that the address names, and show how far its question is."""
    try:
        project = chosen_project()
        session = chosen_session(project)
    except (InputError, StorageError) as error:
        st.error(str(error))
        st.page_link("start.py", label="Back to the projects")
        return
    with st.container(key="toolbar", horizontal=True, vertical_alignment="center"):
        pick_concept(project, session, put_away=True)
    with st.container(key="progress"):
        show_progress(session)


@st.fragment
def show_progress(session: LabelingSession) -> None:
    """Take what the browser asks of the audit, and show how things stand."""
    key = f"progress-{session.id}"
    share = st.session_state.get(key, {}).get("share")
    try:
        if isinstance(share, int | float):
            session.set_audit_share(share)
        page = progress(session)
    except (InputError, StorageError) as error:
        st.error(str(error))
    else:
        PROGRESS.show(page, key=key)


main()
