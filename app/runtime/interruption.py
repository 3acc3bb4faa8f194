"""Messages for commands that were stopped with Ctrl+C. They tell whether finished work is kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

EXIT_STOPPED = 130
"""Exit code of an interrupted command."""

RESUMES = "Finished work is kept, and the same command continues from there."
STARTS_OVER = "The same command starts from the beginning."
NEEDS_NEW_FOLDER = "The same command starts from the beginning; with --out, it needs a new folder."

P = ParamSpec("P")
R = TypeVar("R")


def if_stopped(sentence: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for a command, which makes the command print `sentence` when it is stopped."""

    def decorate(command: Callable[P, R]) -> Callable[P, R]:
        @wraps(command)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return command(*args, **kwargs)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(sentence) from None

        return run

    return decorate
