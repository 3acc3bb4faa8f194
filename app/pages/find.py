"""Find items by name: the button that starts a search, and the search text in the address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from closecall.app.pages.chosen import put_into_address
from closecall.core.errors import InputError

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.name_search import FoundSession
    from closecall.app.sessions.registry import OpenProject

IN_ADDRESS = "find"
"""Name of the address parameter that has the search text, which is empty before a text is entered."""

TAKEN_UP = "found"
"""Key in Streamlit's session state: id of the session whose search was already read from the address."""


def is_finding() -> bool:
    """Return whether the page shows items found by name.

    The address is read only once, because later requests may have an outdated address.
    """
    return st.session_state.setdefault(IN_ADDRESS, st.query_params.get(IN_ADDRESS)) is not None


def chosen_search(project: OpenProject, session: LabelingSession) -> FoundSession:
    """Return the search for the text in the address.

    Raises
    ------
    InputError
        If the text can't be searched for.
    """
    found = project.found(session)
    if st.session_state.get(TAKEN_UP) != found.id:
        st.session_state[TAKEN_UP] = found.id
        try:
            found.go_to(st.session_state[IN_ADDRESS])
        except InputError:
            close_find()
            raise
    keep_search(found.text)
    return found


def keep_search(text: str) -> None:
    """Keep the search text, so that it is still there after a reload or a visit to another page."""
    st.session_state[IN_ADDRESS] = text
    put_into_address(IN_ADDRESS, text)


def open_find() -> None:
    """Start an empty search."""
    st.session_state.pop(TAKEN_UP, None)
    keep_search("")


def close_find() -> None:
    """Return to the previous view."""
    st.session_state[IN_ADDRESS] = None
    st.query_params.pop(IN_ADDRESS, None)


def offer_find() -> None:
    """Show the button that starts or ends the search."""
    with st.container(key="find", width="content"):
        if is_finding():
            st.button("End search", icon=":material/close:", on_click=close_find)
        else:
            what = "Find items by part of their name (/)"
            st.button("Find", icon=":material/search:", help=what, on_click=open_find)
