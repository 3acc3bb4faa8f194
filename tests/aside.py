"""Running what has an event loop of its own where a browser test may have left one in the thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def aside(function: Callable[[], T]) -> T:
    """What `function` returns, or raises, in a thread of its own."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(function).result()
