"""The link from an item to similar items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.similar.query import Like

if TYPE_CHECKING:
    from closecall.app.api.cards import View
    from closecall.app.sessions.registry import OpenProject

IN_ADDRESS = "like"
"""Name of the address parameter that has the query of Find similar."""

TAKEN_UP = "similar"
"""Key in Streamlit's session state: id of the session whose query was already read from the address."""


def offer_similar(project: OpenProject, view: View) -> None:
    """Show a button that searches for items similar to the item in view, if the view shows only one item."""
    if not isinstance(view, LabelingSession):
        return
    with st.container(key="to-similar", width="content"):
        if st.button("Similar", icon=":material/image_search:", help="Items that are like this one"):
            shown = view.in_view()
            if shown is not None:
                project.similar_to(view).look_for(Like(item=shown.item))
                st.session_state[TAKEN_UP] = view.id
            st.switch_page("similar.py", query_params={"project": project.key, "session": view.id})
