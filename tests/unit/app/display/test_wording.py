from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
SOURCES = [
    path
    for folder in ("app", "storage")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".js", ".html", ".css")
]

FORMER = (
    "People an item",
    "people an item is for",
    ">An hour<",
    ">In all<",
    "Agreement of two",
    "Go on: it is still learning",
    "are too few to tell",
    "they contradict each other)",
    "Left open whether",
    "may end otherwise",
    "before it can be told",
    "more tell more",
    "the surer",
    "whose choice this is",
    "The pool grows:",
    "The server does not answer",
    "Trying again…",
    "is empty: name it",
    "holds no images",
    "it says no of",
    "can say one thing",
    "may have 200 characters",
    "} characters, this one has {",
    "a part of a name.",
    "Here they are like",
    "those that are right",
    "those that are a yes",
    "What holds for all",
    ", by metric`",
    "surely gains",
    "A pool that is there",
    "Start afresh",
    "} hyperplanes trained again",
)
"""Wordings that readers stumbled on, or pieces of them."""


@pytest.mark.parametrize("former", FORMER)
def test_a_former_wording_does_not_return(former):
    """Pages and messages use none of the phrases that were replaced by plainer ones."""
    assert SOURCES
    assert [str(path.relative_to(ROOT)) for path in SOURCES if former in path.read_text("utf-8")] == []
