"""The page that a person requested before giving a name, or before signing in."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from closecall.app.pages.state import state

FILES = {
    "": "label.py",
    "projects": "start.py",
    **{
        name: f"{name}.py"
        for name in ("compare", "similar", "progress", "map", "describe", "review", "people")
    },
}
"""The script of each page, by its path in the address."""

SIGN_IN = "sign-in"
"""Path of the page on which people give their names."""

VISITED, WANTED = "visited page", "wanted page"
"""Keys in Streamlit's session state: the path of the page in view; the path and the address parameters of the
page that the person requested before giving a name.
"""


def everywhere(show: Callable[[], None], title: str) -> list[StreamlitPage]:
    """Return one page for each path; all of them show the same content.

    Streamlit would report a missing page as "not found", and forget the page's address.
    """
    return [
        st.Page(show, title=title, url_path=path or None, default=not path, visibility="hidden")
        for path in (*FILES, SIGN_IN)
    ]


def begin_visit(path: str) -> None:
    """Note which page is in view. Unless it is the sign-in page, forget the wanted page."""
    state[VISITED] = path
    if path != SIGN_IN:
        state.pop(WANTED, None)


def ask_for_name_first(sign_in: StreamlitPage) -> None:
    """Go to the page that asks for a name; `go_to_wanted` returns to the page in view."""
    state[WANTED] = state.get(VISITED, ""), st.query_params.to_dict()
    st.switch_page(sign_in)


def go_to_wanted() -> None:
    """Go to the page that the person requested before giving a name, by default the labeling page."""
    path, parameters = state.pop(WANTED, ("", {}))
    st.switch_page(FILES.get(path, FILES[""]), query_params=parameters)
