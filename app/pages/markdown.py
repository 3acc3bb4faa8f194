"""Text for Streamlit's places that take Markdown: names, paths and sentences stay what they are."""

from __future__ import annotations

SIGNS = frozenset("\\`*_{}[]()#+-.!|<>~:$&=\"'@/")
"""What may mean something to Markdown, its extensions, or HTML."""


def literal(text: str) -> str:
    """`text` so that Markdown shows it as it is, on one line."""
    return "".join(f"\\{sign}" if sign in SIGNS else sign for sign in " ".join(text.split()))
