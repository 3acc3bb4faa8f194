"""Compare texts that people type without regard to letter case, spaces and the encoding of accents."""

from __future__ import annotations

from unicodedata import normalize


def folded(text: str) -> str:
    """Return a text in lower case and in Unicode normal form C, with single spaces."""
    return normalize("NFC", normalize("NFC", " ".join(text.split())).casefold())
