"""How much a run of the tests tries: ``--scale=quick`` (the default), ``all`` or ``long``.

Each scale runs what the one before it runs, and more. A test that takes long is marked ``thorough`` (from
``all`` on) or ``long``, and only where another test keeps the same promise in a smaller form. A test that
tries many cases asks `scaled` how many; matrices of parameters mark the combinations that say little new
with `thorough`.
"""

from __future__ import annotations

from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

T = TypeVar("T")

SCALES = ("quick", "all", "long")

EXAMPLES = {"quick": 25, "all": 100, "long": 2000}
"""Of a property which names no number of its own."""

current = "quick"
"""Of this run; set before any test is collected, so that modules may ask while they are imported."""


def choose(scale: str) -> None:
    """Make `scale` that of this run, in which no property fails because the machine is slow or busy."""
    global current
    current = scale
    settings.register_profile(
        scale, max_examples=EXAMPLES[scale], deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile(scale)


def scaled(*, quick: T, all: T, long: T | None = None) -> T:  # noqa: A002
    """Return what the current scale asks for; `long` is as much as `all` where it is not given."""
    return {"quick": quick, "all": all, "long": all if long is None else long}[current]


def examples(n: int) -> int:
    """Return how many examples of a property to try where the scale `all` tries n."""
    return scaled(quick=max(n // 4, 10), all=n, long=20 * n)


def thorough(*values: Any, **options: Any) -> Any:
    """Return a set of parameters that only ``--scale=all`` and ``--scale=long`` try."""
    return pytest.param(*values, marks=pytest.mark.thorough, **options)


def left_out(item: pytest.Item) -> bool:
    """Return whether a test takes longer than the current scale allows."""
    least = (
        "long"
        if item.get_closest_marker("long")
        else "all"
        if item.get_closest_marker("thorough")
        else "quick"
    )
    return SCALES.index(least) > SCALES.index(current)
