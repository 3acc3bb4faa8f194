"""How pages say what went wrong, and go on by themselves once it has passed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import streamlit as st

from closecall.app.pages.markdown import literal
from closecall.app.pages.state import state
from closecall.app.runtime.event_log import tell
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from closecall.app.components import Component

RETRY_SECONDS = 3

WAITS = "waits"
"""Names, in the session state, that a page waits until the database can be asked again."""


def show_problem(error: Exception | str, *, waits: bool = False) -> None:
    """The sentence, as text. Where the page `waits`, it asks again in a few seconds, if that may help."""
    _tell_of(error)
    st.error(literal(str(error)))
    if waits and isinstance(error, StorageError) and error.passes:
        state[WAITS] = False
        _try_again()


def _tell_of(error: Exception | str) -> None:
    kind = error.kind if isinstance(error, StorageError) else "input"
    tell("problem shown", logging.WARNING, kind=kind)


@st.fragment(run_every=RETRY_SECONDS)
def _try_again() -> None:
    if state.pop(WAITS, False):
        st.rerun()
    state[WAITS] = True


def shown_or_kept(key: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """What `make` gives; where the database can't be asked, what it gave before, and why.

    So the part of the page that keeps what is not saved yet stays, and hands it over again. None where there
    is nothing to show, and the page says so.
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
    """Show what `shown_or_kept` gives by the component."""
    if (shown := shown_or_kept(key, make)) is not None:
        component.show(shown, key=key)


def on_script_error(error: Exception) -> bool:
    """What a page did not expect, where it is one of ours: a sentence, and no exception's name."""
    is_ours = isinstance(error, (InputError, StorageError))
    if is_ours:
        show_problem(error)
    return is_ours
