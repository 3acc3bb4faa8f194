"""The labeling card: the one part of the page that changes with every answer.

A Streamlit component (version 2): its scripts run in the page itself, inside a shadow root. It is written as
small ES modules and handed to Streamlit as one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

FOLDER = Path(__file__).parent
MODULES = ("dom.js", "queue.js", "notes.js", "strip.js", "card.js")
"""In the order of their imports."""

STYLES = ("card.css", "stage.css", "margin.css", "layouts.css")
"""In the order in which one outranks the other."""

_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default)", re.MULTILINE)


def script() -> str:
    """The modules as one: imports between them fall away, the default export stays."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", _read(name))) for name in MODULES)


def style() -> str:
    """The style sheets as one."""
    return "\n".join(_read(name) for name in STYLES)


def label_card(payload: Mapping[str, Any], *, key: str) -> None:
    """Show the card with `payload`, as `LabelingSession.card` returns it.

    The answers that wait in the browser are found by `answers_of` in the run that they cause.
    """
    _renderer()(data=dict(payload), key=key, on_pending_change=_nothing)


def answers_of(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the browser last sent for a card, from its entry in the session state."""
    pending = state.get("pending")
    return [answer for answer in pending if isinstance(answer, dict)] if isinstance(pending, list) else []


@cache
def _renderer() -> ComponentRenderer:
    import streamlit as st

    return st.components.v2.component("marginalia_card", html=_read("card.html"), css=style(), js=script())


def _read(name: str) -> str:
    return (FOLDER / name).read_text("utf-8")


def _nothing() -> None:
    """Streamlit keeps only state that has a callback."""
