"""Notice when a session's page is closed, so that its items are free for other sessions at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from closecall.app.components import PRESENCE
from closecall.app.pages.browser import browser_at_page
from closecall.app.pages.http import session_address
from closecall.app.pages.person import name_at_page
from closecall.app.pages.state import state
from closecall.app.pages.wanted import VISITED

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.registry import OpenProject

SIGNED_OUT = """<script>
  new BroadcastChannel("closecall tabs").postMessage("signed out");
</script>"""

NOW, BEFORE = "session in use", "session in use before"
"""Keys in Streamlit's session state: what this run of the page uses, and what the run before has used.

They are the project, the session, and `News.changes` of the project before the page was made.
"""


def begin_run() -> None:
    """Note that this run has not used a session yet. Call this before the page runs."""
    state[NOW] = None


def note_use(project: OpenProject, session: LabelingSession) -> None:
    """Note that the page uses this session."""
    state[NOW] = project, session, project.news.changes


def end_run() -> None:
    """If this run has not used the previous run's session, leave that session.

    Also let the browser watch whether the tab is closed, and keep its id. Call this after the page has run.
    """
    now, before = state[NOW], state.get(BEFORE)
    # The card on the Label page hears of changes by itself.
    follows = state.get(VISITED) != ""
    about: dict[str, Any] = {"address": None, "key": "", "changes": 0, "left": None, "follows": follows}
    about["browser"] = browser_at_page()
    if before is not None and (now is None or now[1].id != before[1].id):
        project, session, _ = before
        project.close_page(session)
        about["left"] = session_address(project, session.id)
    state[BEFORE] = now
    if now is not None:
        project, session, changes = now
        key = project.page_keys.make(name_at_page())
        about |= {"address": session_address(project, session.id), "key": key, "changes": changes}
    PRESENCE.show(about, key=PRESENCE.name)


def end_other_tabs() -> None:
    """Make the browser's other tabs ask to sign in, too.

    On the page where a person signs out, this does nothing. At that time, the browser still has the cookie:
    a message would make the other tabs load again and sign in again, and it would make this page load again,
    which interrupts its redirection to the provider. The next page sends the message.
    """
    if BEFORE not in state:  # nobody was signed in on this page
        st.html(SIGNED_OUT, unsafe_allow_javascript=True)
