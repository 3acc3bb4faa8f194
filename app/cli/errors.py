"""Report errors that a user can correct: one plain sentence and exit code 2, without a traceback."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from closecall.app.runtime.interruption import EXIT_STOPPED, STARTS_OVER
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

EXIT_BAD_INPUT = 2

MENDABLE = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EACCES,
    errno.EROFS,
    errno.EPERM,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
)
"""File-system errors that the user can correct with another path, other rights, or more space."""

NUMBERS = {click.IntRange.name: "a whole number", click.FloatRange.name: "a number"}
"""What click's types of ranges take, for its message about a value that is no number at all."""


class PlainErrors(click.Group):
    """A command group that reports errors without a traceback if the user can correct them.

    Such an error is reported in one sentence on stderr, and the exit code is 2. After a mistake in the
    command line, a second sentence names the command that shows the help. Other errors keep their traceback.
    Ctrl+C exits with code 130.
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the options in front of the command, and store the command's full name for error messages."""
        path = self._path(args)
        with _plain_errors(path):
            context = super().make_context(info_name, args, parent, **extra)
        context.obj = path
        return context

    def invoke(self, context: click.Context) -> Any:
        """Run the command."""
        with _plain_errors(context.obj):
            return super().invoke(context)

    def _path(self, words: Sequence[str]) -> str:
        """Return the full name of the command in `words`, such as "closecall pool build".

        Some errors of click do not contain this name.
        """
        path, below = "closecall", self.commands
        for word in words:
            if word not in below:
                break
            path = f"{path} {word}"
            below = getattr(below[word], "commands", None) or getattr(below[word], "others", {})
        return path


@contextmanager
def _plain_errors(path: str) -> Iterator[None]:
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        said = " ".join(error.format_message().split())
        for range_of, number in NUMBERS.items():
            said = said.replace(f"is not a valid {range_of}.", f"is not {number}.")
        end = "" if said.endswith((".", "?")) else "."
        _refuse(f"{said}{end} See {path} --help.")
    except InputError as error:
        _refuse(str(error))
    except StorageError as error:
        _refuse(error.full)
    except OSError as error:
        if error.errno not in MENDABLE:
            raise
        _refuse(f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror))
    except (KeyboardInterrupt, click.Abort) as error:
        click.echo(f"Stopped. {error.args[0] if error.args else STARTS_OVER}", err=True)
        sys.exit(EXIT_STOPPED)


def _refuse(sentence: str) -> NoReturn:
    click.echo(f"Error: {sentence}", err=True)
    sys.exit(EXIT_BAD_INPUT)
