"""The field for a folder on the server's machine, with folders to choose from below it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import streamlit as st

from closecall.app.pages.markdown import literal
from closecall.app.pages.pool_sources import Field
from closecall.app.pages.state import state
from closecall.app.projects.folders import Contents, existing_path, look_into, offer

CHOSEN, COUNTED = "chosen folder", "counted images"
"""Keys in Streamlit's session state: for each field, its text when the whole page ran last; the last folder
whose images were counted, with the count.
"""


def choose_folder(field: Field, recent: Callable[[], Sequence[str]]) -> str:
    """Show the field, and return its text. While a person types, only the field itself is drawn again.

    `recent` returns folders to offer while the field is empty.
    """
    key = f"path-{field.name}"
    state[CHOSEN, key] = state.get(key) or ""
    _field(field, key, recent)
    return str(state.get(key) or "")


@st.fragment
def _field(field: Field, key: str, recent: Callable[[], Sequence[str]]) -> None:
    picker = f"pick-{key}"

    def picked() -> None:
        if state[picker] is not None:
            state[key] = state[picker]
            state[picker] = None

    text: str = st.text_input(
        field.label, placeholder=field.placeholder, help=field.hint, key=key, live=True, autocomplete="off"
    )
    if counted := counted_images(text):
        st.caption(literal(counted.in_words()))
    offered = offer(text, recent())
    if offered.folders:
        st.pills(
            literal(offered.title),
            offered.folders,
            # Recent folders are shown with their paths. The title says where all other folders are.
            format_func=literal if not text.strip() else lambda path: literal(Path(path).name),
            key=picker,
            on_change=picked,
        )
    is_new = text != state[CHOSEN, key]
    if is_new and (counted is not None or not text):
        st.rerun(scope="app")  # the rest of the form depends on the folder


def counted_images(text: str) -> Contents | None:
    """Return the number of images in a folder, or None if there is no such folder. Cache the last result."""
    path = existing_path(text.strip())
    if path is None or not path.is_absolute() or not path.is_dir():
        return None
    known: tuple[Path, Contents] | None = state.get(COUNTED)
    if known is None or known[0] != path:
        known = state[COUNTED] = path, look_into(path)
    return known[1]
