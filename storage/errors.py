"""What can go wrong with what must not be lost, each told in one sentence."""

from __future__ import annotations

from typing import Literal

Kind = Literal[
    "missing",  # no such file, folder, concept, session
    "exists",  # would overwrite something
    "not-a-database",  # another kind of file, or another program's database
    "corrupt",  # a database, but damaged
    "newer",  # written by a newer version of the program
    "older",  # needs a migration that a read-only opening may not do
    "read-only",  # the file, its folder or its file system cannot be written
    "locked",  # another program holds it for longer than the busy timeout
    "unreachable",  # the server of the database does not answer
    "full",  # no room on the disk
    "invalid",  # a value that the schema does not allow
    "other",  # anything else the database engine reports
]


class StorageError(Exception):
    """The database could not do it. The message is one sentence: what it is about, what is wrong, what helps.

    Parameters
    ----------
    message : str
    kind : str
        One of `Kind`, for callers that react differently: a full disk or a lock passes, a corrupt file stays.
    """

    def __init__(self, message: str, kind: Kind = "other") -> None:
        super().__init__(message)
        self.kind: Kind = kind

    @property
    def passes(self) -> bool:
        """Whether trying again later may succeed without anybody changing the input."""
        return self.kind in ("locked", "unreachable", "full")
