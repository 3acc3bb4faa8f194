"""Waiting for what other threads and processes do."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 300
"""Seconds after which a test fails. On a busy machine much takes long."""


def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    patience = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < patience
        time.sleep(0.005)
