"""Sizes of files, for people."""

from __future__ import annotations


def bytes_in_words(n: float) -> str:
    """Return a number of bytes with a decimal unit: "1.5 GB"."""
    if round(n) < 1000:
        return f"{n:.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        n /= 1000
        if n < 999.5 or unit == "GB":
            break
    return f"{n:,.0f} {unit}" if n >= 100 else f"{n:.3g} {unit}"
