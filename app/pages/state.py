"""State of a browser tab, which is kept between runs of its pages."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, TypeVar, cast

import streamlit as st

Value = TypeVar("Value")

state = cast(MutableMapping[Any, Any], st.session_state)
"""Streamlit's session state, typed to allow tuples as keys, which can't clash with the keys of widgets."""


def show_value(key: str, value: Value) -> Value:
    """Make the control with this key show a value when the page comes to it; return the value.

    A control that shows the value already is left alone. Otherwise, a run that began before a person chose
    something else would send the old value to the browser, which would then undo the choice.

    Pass the value to the control, too. If the next run begins at once, Streamlit may drop what this run sends
    to the browser. The browser then shows the control with its own initial value.
    """
    if key not in state or state[key] != value:
        state[key] = value
    return value
