"""Errors of the label store, each explained in one sentence."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal[
    "missing",  # no such file, folder, concept, session
    "exists",  # would overwrite an existing file or row
    "not-a-database",  # another kind of file, or another program's database
    "corrupt",  # a database, but damaged
    "newer",  # written by a newer version of the program
    "older",  # needs a migration, which is not possible if the database is opened only for reading
    "read-only",  # the file, its folder or its file system cannot be written
    "locked",  # another program locks the database for longer than the busy timeout
    "unreachable",  # the server of the database does not answer
    "moved",  # another of several servers has the session now
    "full",  # no room on the disk
    "invalid",  # a value, address or file that is not allowed
    "other",  # anything else the database engine reports
]


_AN_ADDRESS = re.compile(r"postgres(?:ql)?(?:\+\w+)?://\S*[^\s:;,.)]")
_UNREACHED = re.compile(r"(the database cannot be reached): .*", re.DOTALL)  # the reason names the server


def without_addresses(sentence: str) -> str:
    """Return the sentence without addresses of databases, for people who don't run the server."""
    return _UNREACHED.sub(r"\1", _AN_ADDRESS.sub("the database", sentence))


class StorageError(Exception):
    """Error for a request that could not be carried out.

    The message is one sentence that names the subject, the problem and a remedy. ``str(error)`` leaves out
    the addresses of databases, because pages show it to people who don't run the server. People who run the
    server see the whole message on the command line (`full`), and in the log, because tracebacks contain it.

    Parameters
    ----------
    message : str
    kind : str
        One of `Kind`, for callers that handle some errors differently. For example, a lock may be released
        soon, but a corrupt file stays corrupt.
    """

    def __init__(self, message: str, kind: Kind = "other") -> None:
        super().__init__(message)
        self.kind: Kind = kind
        if str(self) != message:
            self.add_note(message)

    def __str__(self) -> str:
        """Return the message without addresses of databases."""
        return without_addresses(self.full)

    @property
    def full(self) -> str:
        """Return the message, with addresses of databases."""
        return str(self.args[0])

    @property
    def passes(self) -> bool:
        """Return whether a later retry with the same input may succeed."""
        return self.kind in ("locked", "unreachable", "moved", "full")
