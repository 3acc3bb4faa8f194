"""The Progress page: advice on when to stop, the learning curve, and the audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from closecall.app.api.progress import progress
from closecall.app.components import PROGRESS
from closecall.app.exchange.rows import exported
from closecall.app.pages.chosen import opened, person_at, pick_concept
from closecall.app.pages.fragment import fragment
from closecall.app.pages.problems import show_problem
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.registry import OpenProject


def main() -> None:
    """Open the project and session that the address names; show the progress of the session's question."""
    if (found := opened()) is None:
        return
    project, session = found
    with st.container(key="toolbar", horizontal=True, vertical_alignment="center"):
        pick_concept(project, session, archived=True)
        offer_export(project, session)
    with st.container(key="progress"):
        show_progress(session)


def offer_export(project: OpenProject, session: LabelingSession) -> None:
    """Offer owners the labels of the session's question as a CSV file."""
    try:
        if not person_at(project).is_owner:
            return
    except InputError as error:
        show_problem(error)
        return
    concept = session.concept.record

    def labels() -> bytes:
        with exported(project, concept, "csv", log=False) as file:
            return file.read()

    st.download_button(
        "Export labels",
        labels,
        file_name=f"{project.key}-labels.csv",
        mime="text/csv",
        on_click="ignore",
        help="The labels of this question as CSV. At the command line, closecall export has other formats.",
    )


@fragment
def show_progress(session: LabelingSession) -> None:
    """Handle the browser's request about the audit, and show the current state."""
    key = f"progress-{session.id}"
    sent = st.session_state.get(key, {})
    share = sent.get("share")
    try:
        person = person_at(session.project)
        if isinstance(share, int | float):
            session.set_audit_share(share, by=person)
        page = progress(session) | {"is_owner": person.is_owner}
    except (InputError, StorageError) as error:
        show_problem(error, waits=True)
    else:
        # The beat changes the payload. With an unchanged payload, Streamlit would not run the component, and
        # the component would stop polling.
        PROGRESS.show({**page, "beat": sent.get("beat")}, key=key)


main()
