"""Escape text for Streamlit's Markdown, so that names, paths and sentences are shown unchanged."""

from __future__ import annotations

SIGNS = frozenset("\\`*_{}[]()#+-.!|<>~:$&=\"'@/")
"""Characters with a meaning in Markdown, its extensions, or HTML."""


def literal(text: str) -> str:
    """Return `text` escaped, so that Markdown shows it unchanged on one line."""
    return "".join(f"\\{sign}" if sign in SIGNS else sign for sign in " ".join(text.split()))
