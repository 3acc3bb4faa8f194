"""Whatever a user can mend is said in one plain sentence, with exit code 2 and without a traceback."""

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
"""What a file system reports that is about the names and the disk that a user gave."""


class PlainErrors(click.Group):
    """A group of commands that turn what a user can mend into one sentence on stderr and exit code 2."""

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
            click.echo("Stopped. What was finished is kept; the same command goes on from there.", err=True)
            sys.exit(130)


def _refuse(sentence: str) -> NoReturn:
    click.echo(f"Error: {sentence}", err=True)
    sys.exit(EXIT_BAD_INPUT)
