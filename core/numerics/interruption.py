"""End a long computation from outside: its loops call `go_on`, which may raise.

The caller that may lose interest in a result wraps the computation in `interruptible`. Its check applies to
the calling thread only, so loops that run in other threads are not interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


@contextmanager
def interruptible(check: Callable[[], None]) -> Iterator[None]:
    """Let loops inside call `check`, whose exception ends them."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def go_on() -> None:
    """Raise whatever the check of the innermost `interruptible` raises; without one, do nothing."""
    check = _check.get()
    if check is not None:
        check()
