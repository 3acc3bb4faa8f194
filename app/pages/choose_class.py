"""The picker of the class that means yes, for items of known class."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

NO_CLASS = "No class"


def choose_class(classes: Sequence[str], key: str) -> str | None:
    """Show the picker if there are classes, and return the class that means yes.

    The result is None if the user leaves the choice to the question, and "" if no class means yes.
    """
    if not classes:
        return None
    return st.selectbox(
        "Class that means yes",
        ["", *classes],
        index=None,
        placeholder="The one in the question",
        format_func=lambda name: name or NO_CLASS,
        key=key,
        help="Its items are the true answers: they measure accuracy, and the autopilot knows them.",
    )
