"""Show errors on a page, and rerun the page if the error may be temporary."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import streamlit as st

from closecall.app.display.phrases import as_sentence
from closecall.app.pages.markdown import literal
from closecall.app.pages.state import state
from closecall.app.runtime.event_log import emit
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from closecall.app.components import Component

RETRY_SECONDS = 3

WAITS = "waits"
"""Key in Streamlit's session state: whether `_try_again` has run once. Its second run reruns the page."""


def show_problem(error: Exception | str, *, waits: bool = False) -> None:
    """Show the error as plain text. If `waits` and the error may be temporary, rerun the page soon."""
    _tell_of(error)
    st.error(literal(as_sentence(str(error))))
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
    """Return the result of `make` or, after a StorageError, the previous result with the error as message.

    The previous result keeps the component on the page, so that it can send its unsaved answers again. After
    an InputError, or if there is no previous result, show the problem and return None.
    """
    kept = ("shown", key)
    try:
        shown = state[kept] = make()
    except StorageError as error:
        before: dict[str, Any] | None = state.get(kept)
        if before is not None:
            _tell_of(error)
            return {**before, "acked": [], "refused": [], "message": as_sentence(str(error))}
        show_problem(error, waits=True)
    except InputError as error:
        state.pop(kept, None)
        show_problem(error)
    else:
        return shown
    return None


def show_or_keep(component: Component, key: str, make: Callable[[], dict[str, Any]]) -> None:
    """Show the result of `shown_or_kept` in the component, unless the result is None."""
    if (shown := shown_or_kept(key, make)) is not None:
        component.show(shown, key=key)


def on_script_error(error: Exception) -> bool:
    """Show the error if it is an InputError or a StorageError; return whether it was shown.

    Streamlit calls this with errors that no page caught.
    """
    is_ours = isinstance(error, (InputError, StorageError))
    if is_ours:
        show_problem(error)
    return is_ours
