"""A way to end a long computation early: its loops call `go_on`, which may raise an exception.

The caller runs the computation inside `interruptible(check)`. To end the computation, `check` raises an
exception. Loops that run in other threads do not call `check`, so they are not interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


@contextmanager
def interruptible(check: Callable[[], None]) -> Iterator[None]:
    """Let `go_on` call `check` inside this context; an exception that `check` raises ends the computation."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def go_on() -> None:
    """Call the `check` of the innermost `interruptible`, if any; exceptions of `check` are not caught."""
    check = _check.get()
    if check is not None:
        check()
