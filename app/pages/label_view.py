"""The choice of the Label page's view: one item, a grid, the classes or a search, as the address names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from closecall.app.pages.chosen import put_into_address
from closecall.app.pages.find import chosen_search, close_find, is_finding
from closecall.app.pages.plain import is_wanted as plain_is_wanted
from closecall.app.pages.state import show_value, state
from closecall.app.sessions.autopilot import is_autopilot
from closecall.app.sessions.classes import ClassSession, can_choose
from closecall.app.sessions.grid import LEAST, MOST, USUAL, GridSession
from closecall.core.errors import InputError

if TYPE_CHECKING:
    from closecall.app.api.cards import View
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.registry import OpenProject

CLASSES = "classes"
"""Address parameter that requests the class view."""


def chosen_view(project: OpenProject, session: LabelingSession) -> View:
    """Return the view that the address requests: one item, a grid, the classes, a search or a lasso.

    Raises
    ------
    InputError
        If the address has an invalid size of the grid, or a text that can't be searched for.
    """
    if is_one_at_a_time(session):
        return session
    by_class = classes_are_wanted() and can_choose(session)
    size = None if by_class else wanted_size()
    # The address has this view during a search, too, which leads back to it.
    if by_class:
        show_classes(True)
    elif size:
        show_in_grid(str(size))
    if is_finding() and (found := chosen_search(project, session)):
        return found
    if by_class:
        return project.classes(session)
    if size is None:
        return session
    grid = project.grid(session)
    grid.resize(size)
    return grid


def wanted_size() -> int | None:
    """Return the size of the grid that the address requests, or requested before another page was opened.

    Raises
    ------
    InputError
        If it is not a size that a grid can have.
    """
    wanted = st.query_params.get("grid") or state.get("grid")
    if not wanted:
        return None
    if not (wanted.isdecimal() and len(wanted) < 9 and LEAST <= int(wanted) <= MOST):
        raise InputError(f"grid in the address must be from {LEAST} to {MOST} (items), got {wanted!r:.80}")
    return int(wanted)


def is_one_at_a_time(session: LabelingSession) -> bool:
    """Return whether only one item can be shown, as on the plain card or in the autopilot's session."""
    return plain_is_wanted() or is_autopilot(session)


def show_in_grid(size: str | None) -> None:
    """Show a grid of this size when the page runs next; if `size` is None, show one item."""
    state["grid"] = size
    if size:
        put_into_address("grid", size)
    else:
        st.query_params.pop("grid", None)


def classes_are_wanted() -> bool:
    """Return whether the address requests the class view, or did before another page was opened."""
    return CLASSES in st.query_params or bool(state.get(CLASSES))


def show_classes(wanted: bool) -> None:
    """Show the class view when the page runs next; if not `wanted`, show one item."""
    state[CLASSES] = wanted
    if wanted:
        put_into_address(CLASSES, "1")
    else:
        st.query_params.pop(CLASSES, None)


def pick_view(session: LabelingSession, view: View) -> None:
    """Show the picker of views; none is selected while the items of a search are shown."""

    def picked() -> None:
        size = state.get("size", USUAL)
        show_in_grid(str(size) if state["view"] == "Grid" else None)
        show_classes(state["view"] == "Classes")
        close_find()

    shown = (
        "Grid" if isinstance(view, GridSession) else "Classes" if isinstance(view, ClassSession) else "One"
    )
    st.segmented_control(
        "Show",
        ["One", "Grid", "Classes"] if can_choose(session) else ["One", "Grid"],
        default=show_value("view", None if is_finding() else shown),
        key="view",
        on_change=picked,
        required=not is_finding(),
        label_visibility="collapsed",
    )
