"""The browser at the page, by which people without a name are told apart."""

from __future__ import annotations

import re

import streamlit as st

from closecall.app.pages.state import state
from closecall.storage import new_id

COOKIE = "closecall_browser"
"""Cookie with the browser's id, which is random. `components/presence` sets it."""

KEY = "browser"
"""Key in Streamlit's session state: the browser's id."""


def browser_at_page() -> str:
    """Return the browser's id.

    Without the cookie, for example on the first page that the browser opens, the id is new.
    """
    if KEY not in state:
        kept = st.context.cookies.get(COOKIE) or ""
        state[KEY] = kept if re.fullmatch("[0-9a-f-]{36}", kept) else new_id()
    browser: str = state[KEY]
    return browser
