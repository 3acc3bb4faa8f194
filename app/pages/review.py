"""The review page: every answer to a question, likely mistakes first; corrected where it is listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from app.components import REVIEW, answers_of
from app.finding import zone_named
from app.pages.chosen import chosen_project, chosen_session, pick_concept
from app.review import Asked, Review
from core.errors import InputError
from storage.errors import StorageError

if TYPE_CHECKING:
    from app.service import LabelingSession


def main() -> None:
    """Open the project and session that the address names, and show the answers to its question."""
    try:
        project = chosen_project()
        session = chosen_session(project)
    except (InputError, StorageError) as error:
        st.error(str(error))
        st.page_link("start.py", label="Back to the projects")
        return
    with st.container(key="reviewed"):
        pick_concept(project, session, put_away=True)
    with st.container(key="review"):
        show_review(session)


@st.fragment
def show_review(session: LabelingSession) -> None:
    """Take the browser's corrections, and show what it asks for."""
    key = f"review-{session.id}"
    said = st.session_state.get(key, {})
    if ("review", session.id) not in st.session_state:
        st.session_state["review", session.id] = Review(session)
    review: Review = st.session_state["review", session.id]
    try:
        settled = review.submit(answers_of(said))
        page = review.page(Asked.of(said.get("asked")), zone_named(st.context.timezone))
    except (InputError, StorageError) as error:
        st.error(str(error))
    else:
        REVIEW.show({**page, **settled}, key=key)


main()
