"""Find items by name, by words or in a lasso: the buttons of a search, and the search in the address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from closecall.app.pages.chosen import put_into_address
from closecall.app.sessions.word_search import WordSession, can_describe
from closecall.core.errors import InputError

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.lasso import LassoSession
    from closecall.app.sessions.name_search import FoundSession
    from closecall.app.sessions.registry import OpenProject

IN_ADDRESS = "find"
"""Name of the address parameter that has the search text, which is empty before a text is entered."""

EXCLUDED = "not"
"""Address parameter of a search by words: what is not wanted."""

WAY = "by"
"""Address parameter that is `WORDS` in a search by words, and `LASSO` in a lasso; by name, it is missing."""

WORDS = "words"

LASSO = "lasso"

TAKEN_UP = "found"
"""Key in Streamlit's session state: the session and way of the search already read from the address."""


def is_finding() -> bool:
    """Return whether the page shows the items of a search."""
    return _from_address(IN_ADDRESS) is not None


def is_by_words(project: OpenProject) -> bool:
    """Return whether the search is by words; without a text model, it is always by name."""
    return _from_address(WAY) == WORDS and can_describe(project.pool)


def is_in_lasso() -> bool:
    """Return whether the page shows the items in a lasso on the map."""
    return is_finding() and _from_address(WAY) == LASSO


def _from_address(name: str) -> str | None:
    """Return a parameter of the address. It is read only once: later requests may have an old address."""
    value: str | None = st.session_state.setdefault(name, st.query_params.get(name))
    return value


def chosen_search(
    project: OpenProject, session: LabelingSession
) -> FoundSession | WordSession | LassoSession | None:
    """Return the search that the address names; None if it names a lasso and the session has none.

    Raises
    ------
    InputError
        If the text can't be searched for.
    """
    if is_in_lasso():
        return chosen_lasso(project, session)
    by_words = is_by_words(project)
    found = project.described(session) if by_words else project.found(session)
    taken_up, text = (found.id, by_words), _from_address(IN_ADDRESS) or ""
    if st.session_state.get(TAKEN_UP) != taken_up:
        st.session_state[TAKEN_UP] = taken_up
        try:
            if isinstance(found, WordSession):
                found.go_to(text, _from_address(EXCLUDED) or "")
            else:
                found.go_to(text)
        except InputError:
            close_find()
            raise
    keep_search(found)
    return found


def chosen_lasso(project: OpenProject, session: LabelingSession) -> LassoSession | None:
    """Return the session's view of a lasso. If no lasso was drawn in this session, end the search."""
    enclosed = project.enclosed(session)
    if enclosed.lasso is None:
        close_find()
        return None
    _put(IN_ADDRESS, "")
    _put(WAY, LASSO)
    return enclosed


def keep_search(found: FoundSession | WordSession) -> None:
    """Keep the search, so that it is still there after a reload or a visit to another page."""
    _put(IN_ADDRESS, found.text)
    if isinstance(found, WordSession):
        _put(WAY, WORDS)
        _put(EXCLUDED, found.excluded or None)
    else:
        _put(EXCLUDED, None)


def _put(name: str, value: str | None) -> None:
    """Set a parameter of the address, or remove it if `value` is None."""
    st.session_state[name] = value
    if value is None:
        st.query_params.pop(name, None)
    else:
        put_into_address(name, value)


def open_find() -> None:
    """Start an empty search."""
    st.session_state.pop(TAKEN_UP, None)
    _put(IN_ADDRESS, "")


def open_lasso() -> None:
    """Let the Label page show the items in the session's lasso when it runs next."""
    st.session_state.update({IN_ADDRESS: "", WAY: LASSO})


def close_find() -> None:
    """Return to the previous view. The choice between name and words is kept for the next search."""
    if is_in_lasso():
        _put(WAY, None)
    _put(IN_ADDRESS, None)
    _put(EXCLUDED, None)
    st.query_params.pop(WAY, None)


def offer_find(project: OpenProject) -> None:
    """Show the button that starts or ends a search and, during a search, the choice of name or words."""
    offers_words = can_describe(project.pool)
    # The scripts look for the button that starts a search by this key.
    with st.container(key="end-find" if is_finding() else "find", width="content"):
        if is_in_lasso():
            st.button("Leave lasso", icon=":material/close:", on_click=close_find)
        elif is_finding():
            st.button("End search", icon=":material/close:", on_click=close_find)
        else:
            what = "part of their name or by words" if offers_words else "part of their name"
            st.button("Find", icon=":material/search:", help=f"Find items by {what} (/)", on_click=open_find)
    if is_finding() and offers_words and not is_in_lasso():
        pick_way(project)


def pick_way(project: OpenProject) -> None:
    """Show the choice between a search by name and a search by words."""
    ways = {"name": "By name", WORDS: "By words"}

    def picked() -> None:
        _put(WAY, WORDS if st.session_state["way"] == WORDS else None)

    st.session_state["way"] = WORDS if is_by_words(project) else "name"
    st.segmented_control(
        "Find",
        list(ways),
        format_func=ways.__getitem__,
        key="way",
        on_change=picked,
        required=True,
        label_visibility="collapsed",
    )
