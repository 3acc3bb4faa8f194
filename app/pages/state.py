"""State of a browser's session between runs of its pages."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, cast

import streamlit as st

state = cast(MutableMapping[Any, Any], st.session_state)
"""Streamlit's session state, with a type that allows tuples as keys: they can't clash with widgets' keys."""
