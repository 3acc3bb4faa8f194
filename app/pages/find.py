"""Finding items by name: the button that begins it, and the search in the address."""

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
"""The address's parameter that says what is searched for; empty as long as nothing is."""

TAKEN_UP = "found"
"""Names, in the session state, whose search began as the address's; the browser asks for later ones."""


def is_finding() -> bool:
    """Whether items found by name are shown.

    The address is asked once: what the browser sends later may be out of date.
    """
    return st.session_state.setdefault(IN_ADDRESS, st.query_params.get(IN_ADDRESS)) is not None


def chosen_search(project: OpenProject, session: LabelingSession) -> FoundSession:
    """What the address says to find.

    Raises
    ------
    InputError
        If nobody can search for that.
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
    """Let a reload, and the way back from another page, lead to this search."""
    st.session_state[IN_ADDRESS] = text
    put_into_address(IN_ADDRESS, text)


def open_find() -> None:
    """Begin an empty search."""
    st.session_state.pop(TAKEN_UP, None)
    keep_search("")


def close_find() -> None:
    """Back to what was shown before."""
    st.session_state[IN_ADDRESS] = None
    st.query_params.pop(IN_ADDRESS, None)


def offer_find() -> None:
    """A button that begins the search, or ends it."""
    with st.container(key="find", width="content"):
        if is_finding():
            st.button("End search", icon=":material/close:", on_click=close_find)
        else:
            what = "Items by a part of their names (/)"
            st.button("Find", icon=":material/search:", help=what, on_click=open_find)
