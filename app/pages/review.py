"""The Review page, which lists the answers to a question, likely mistakes first, and corrects them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from closecall.app.api.submit import settle
from closecall.app.components import REVIEW, answers_of
from closecall.app.pages.chosen import opened, person_at, pick_concept
from closecall.app.pages.fragment import fragment
from closecall.app.pages.problems import show_or_keep
from closecall.app.pages.state import state
from closecall.app.sessions.review import Asked, Review
from closecall.app.sessions.review_query import zone_named

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.registry import OpenProject


def main() -> None:
    """Open the project and session that the address names; show the answers to the session's question."""
    if (found := opened()) is None:
        return
    project, session = found
    with st.container(key="reviewed"):
        pick_concept(project, session, archived=True)
    with st.container(key="review"):
        show_review(project, session)


@fragment
def show_review(project: OpenProject, session: LabelingSession) -> None:
    """Store the browser's corrections, and show the page of answers that the browser requests."""
    key = f"review-{session.id}"
    sent = state.get(key, {})
    if ("review", session.id) not in state or not sent:  # the page has just been opened
        state["review", session.id] = Review(session, person_at(project))
    review: Review = state["review", session.id]

    def page() -> dict[str, Any]:
        settled = settle(project, review, answers_of(sent), person_at(project))
        return {**review.page(Asked.of(sent.get("asked")), zone_named(st.context.timezone)), **settled}

    show_or_keep(REVIEW, key, page)


main()
