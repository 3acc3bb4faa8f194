"""Finding items by name: the button that begins it, and the search in the address."""

from __future__ import annotations

import streamlit as st

from app.pages.chosen import put_into_address

IN_ADDRESS = "find"
"""The address's parameter that says what is searched for; empty as long as nothing is."""


def wanted_search() -> str | None:
    """What to find by name; None where that was not asked for."""
    wanted: str | None = st.query_params.get(IN_ADDRESS, st.session_state.get(IN_ADDRESS))
    return wanted


def is_finding() -> bool:
    """Whether items found by name are shown."""
    return wanted_search() is not None


def keep_search(text: str) -> None:
    """Let a reload, and the way back from another page, lead to this search."""
    st.session_state[IN_ADDRESS] = text
    put_into_address(IN_ADDRESS, text)


def close_find() -> None:
    """Back to what was shown before."""
    st.session_state.pop(IN_ADDRESS, None)
    st.query_params.pop(IN_ADDRESS, None)


def offer_find() -> None:
    """A button that begins the search, or ends it."""
    with st.container(key="find", width="content"):
        if is_finding():
            st.button("End search", icon=":material/close:", on_click=close_find)
        else:
            what = "Items by a part of their names (/)"
            st.button("Find", icon=":material/search:", help=what, on_click=keep_search, args=("",))
