"""State of a browser tab, which is kept between runs of its pages."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, cast

import streamlit as st

state = cast(MutableMapping[Any, Any], st.session_state)
"""Streamlit's session state, typed to allow tuples as keys, which can't clash with the keys of widgets."""
