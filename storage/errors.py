"""Errors of the label store, each explained in one sentence."""

from __future__ import annotations

from typing import Literal

Kind = Literal[
    "missing",  # no such file, folder, concept, session
    "exists",  # would overwrite an existing file or row
    "not-a-database",  # another kind of file, or another program's database
    "corrupt",  # a database, but damaged
    "newer",  # written by a newer version of the program
    "older",  # needs a migration that a read-only opening may not do
    "read-only",  # the file, its folder or its file system cannot be written
    "locked",  # another program holds it for longer than the busy timeout
    "unreachable",  # the server of the database does not answer
    "full",  # no room on the disk
    "invalid",  # a value, address or file that is not allowed
    "other",  # anything else the database engine reports
]


class StorageError(Exception):
    """A request that could not be carried out. The message is one sentence: subject, problem and remedy.

    Parameters
    ----------
    message : str
    kind : str
        One of `Kind`, for callers that handle errors differently: a lock may pass, a corrupt file does not.
    """

    def __init__(self, message: str, kind: Kind = "other") -> None:
        super().__init__(message)
        self.kind: Kind = kind

    @property
    def passes(self) -> bool:
        """Return whether a later retry with the same input may succeed."""
        return self.kind in ("locked", "unreachable", "full")
