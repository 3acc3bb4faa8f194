"""Query strategies as the page names them."""

from __future__ import annotations

LABELS = {
    "random": "Random",
    "subsample": "Subsample",
    "exhaustive": "Exhaustive",
    "margin-index": "Margin index",
    "h-hash": "H-Hash",
    "eh-hash": "EH-Hash",
    "bh-hash": "BH-Hash",
    "lbh-hash": "LBH-Hash",
    "likely-positive": "Likely positive",
    "mixture": "Mixture",
    "example": "Like the examples",
}
"""Strategies as the page names them."""


def label_of(word: str) -> str:
    """The strategy as the page names it, whatever parameters the word gives it."""
    name = word.partition(":")[0]
    return LABELS.get(name, name.replace("-", " ").capitalize())
