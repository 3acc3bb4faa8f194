"""The addresses and keys with which cards on pages use the HTTP API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from closecall.app.api.views import name_of
from closecall.app.pages.person import name_at_page
from closecall.app.sessions.grid import GridSession

if TYPE_CHECKING:
    from closecall.app.api.cards import View
    from closecall.app.sessions.registry import OpenProject


def session_address(project: OpenProject, session_id: str) -> str:
    """Return the address of a session in the HTTP API, relative to the pages."""
    return f"api/v1/projects/{quote(project.key, safe='')}/sessions/{quote(session_id, safe='')}"


def way_of(project: OpenProject, view: View) -> dict[str, Any] | None:
    """Return the address and the key with which a card sends answers; None if the view has no HTTP routes."""
    name = name_of(view)
    if name is None:
        return None
    return {
        "address": session_address(project, view.id),
        "key": project.page_keys.make(name_at_page()),
        "changes": project.news.changes,
        "view": name,
        "size": view.size if isinstance(view, GridSession) else None,
    }
