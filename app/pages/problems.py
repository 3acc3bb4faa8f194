"""Show what went wrong, and retry once it may have passed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import streamlit as st

from closecall.app.pages.markdown import literal
from closecall.app.pages.state import state
from closecall.app.runtime.event_log import emit
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from closecall.app.components import Component

RETRY_SECONDS = 3

WAITS = "waits"
"""Session-state key: whether the page waits for the database."""


def show_problem(error: Exception | str, *, waits: bool = False) -> None:
    """Show the sentence as plain text. If the page `waits`, retry every few seconds where that may help."""
    _tell_of(error)
    st.error(literal(str(error)))
    if waits and isinstance(error, StorageError) and error.passes:
        state[WAITS] = False
        _try_again()


def _tell_of(error: Exception | str) -> None:
    kind = error.kind if isinstance(error, StorageError) else "input"
    emit("problem shown", logging.WARNING, kind=kind)


@st.fragment(run_every=RETRY_SECONDS)
def _try_again() -> None:
    if state.pop(WAITS, False):
        st.rerun()
    state[WAITS] = True


def shown_or_kept(key: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """Return the result of `make` or, if the database can't be reached, the previous result and why.

    The component that holds unsaved answers thus stays on the page and sends them again. Return None, after
    showing the problem, if there is no previous result.
    """
    kept = ("shown", key)
    try:
        shown = state[kept] = make()
    except StorageError as error:
        before: dict[str, Any] | None = state.get(kept)
        if before is not None:
            _tell_of(error)
            return {**before, "acked": [], "refused": [], "message": str(error)}
        show_problem(error, waits=True)
    except InputError as error:
        state.pop(kept, None)
        show_problem(error)
    else:
        return shown
    return None


def show_or_keep(component: Component, key: str, make: Callable[[], dict[str, Any]]) -> None:
    """Show the result of `shown_or_kept` in the component."""
    if (shown := shown_or_kept(key, make)) is not None:
        component.show(shown, key=key)


def on_script_error(error: Exception) -> bool:
    """Show an unexpected error of ours as a sentence; return whether it was ours."""
    is_ours = isinstance(error, (InputError, StorageError))
    if is_ours:
        show_problem(error)
    return is_ours
