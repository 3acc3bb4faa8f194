"""Turn errors that a user can correct into one plain sentence, exit code 2 and no traceback."""

from __future__ import annotations

import errno
import sys
from typing import Any, NoReturn

import click

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
)
"""File-system errors that the user can correct: other paths, other rights, or more space."""


class PlainErrors(click.Group):
    """A command group that reports errors a user can correct in one sentence on stderr, with exit code 2.

    Other errors keep their traceback. Ctrl+C exits with code 130.
    """

    def invoke(self, context: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(context)
        except (InputError, StorageError) as error:
            _refuse(str(error))
        except OSError as error:
            if error.errno not in MENDABLE:
                raise
            _refuse(f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror))
        except KeyboardInterrupt:
            click.echo("Stopped. Finished work is kept; the same command continues from there.", err=True)
            sys.exit(130)


def _refuse(sentence: str) -> NoReturn:
    click.echo(f"Error: {sentence}", err=True)
    sys.exit(EXIT_BAD_INPUT)
