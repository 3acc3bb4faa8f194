"""Whether somebody looks at a session: its items are free for others as soon as its page is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from closecall.app.components import PRESENCE
from closecall.app.pages.http import session_address
from closecall.app.pages.person import name_at_page
from closecall.app.pages.state import state

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.registry import OpenProject

SIGNED_OUT = """<script>
  new BroadcastChannel("closecall tabs").postMessage("signed out");
</script>"""

NOW, BEFORE = "session in use", "session in use before"
"""Keys in Streamlit's session state: project and session of this run of the page, and of the run before."""


def begin_run() -> None:
    """Forget the session of the run before. Call this before the page runs."""
    state[NOW] = None


def note_use(project: OpenProject, session: LabelingSession) -> None:
    """Note that the page uses this session."""
    state[NOW] = project, session


def end_run() -> None:
    """Leave the session of the run before, if it is another, and watch the tab. Call this after the page."""
    now, before = state[NOW], state.get(BEFORE)
    about: dict[str, str | None] = {"address": None, "key": "", "left": None}
    if before is not None and (now is None or now[1].id != before[1].id):
        project, session = before
        project.close_page(session)
        about["left"] = session_address(project, session.id)
    state[BEFORE] = now
    if now is not None:
        project, session = now
        key = project.page_keys.make(name_at_page())
        about |= {"address": session_address(project, session.id), "key": key}
    PRESENCE.show(about, key=PRESENCE.name)


def end_other_tabs() -> None:
    """Make the browser's other tabs ask to sign in, too.

    The page on which a person signs out must not do this. Its browser still has the cookie, so the other tabs
    would be signed in again, and a reload of this page would interrupt its way to the provider. The page that
    comes after it tells the other tabs.
    """
    if BEFORE not in state:  # nobody was signed in on this page
        st.html(SIGNED_OUT, unsafe_allow_javascript=True)
