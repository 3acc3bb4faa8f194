"""Uploaded images in a backup, in a table that only backups have."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from closecall.storage import sqlite
from closecall.storage.errors import StorageError

MAX_BYTES = 32 * 1024 * 1024
"""Maximum size of an image, and of its features, in bytes. Every valid upload is smaller."""

DIGEST = re.compile("[0-9a-f]{32}")
"""Pattern of an upload's digest. Only texts that match it become part of a path."""

_TABLE = "carried_uploads"
_MADE_BY = (
    f"CREATE TABLE {_TABLE} "
    "(digest TEXT PRIMARY KEY, image BLOB NOT NULL, feature BLOB NOT NULL, feature_digest TEXT NOT NULL)"
)


class Upload(NamedTuple):
    """Uploaded image, with its digest, and its features as little-endian float32."""

    digest: str
    image: bytes
    feature: bytes


def digest_of(content: bytes) -> str:
    """Return the digest of the content: 32 hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def write(file: Path, uploads: Iterable[Upload]) -> None:
    """Replace the uploads in the backup `file`; `uploads` are read and written one after another.

    Raises
    ------
    StorageError
        If an upload is larger than `MAX_BYTES` or does not match its digest (kind `invalid`), or if the file
        cannot be written (kind `full` or another kind).
    """
    try:
        with closing(sqlite.connect(file, read_only=False)) as connection:
            connection.execute("BEGIN")
            connection.execute(f"DROP TABLE IF EXISTS {_TABLE}")
            is_made = False
            for upload in uploads:
                if not is_made:
                    connection.execute(_MADE_BY)
                    is_made = True
                feature_digest = digest_of(upload.feature)
                row = (upload.digest, upload.image, upload.feature, feature_digest)
                if fault := _fault_of(*row):
                    raise StorageError(f"the upload {upload.digest} can't be backed up: {fault}", "invalid")
                connection.execute(f"INSERT INTO {_TABLE} VALUES (?, ?, ?, ?)", row)
            connection.execute("COMMIT")
    except sqlite.BROKEN as error:
        raise sqlite.explain(error, file) from error


def read(file: Path) -> Iterator[Upload]:
    """Yield the uploads in a backup, in ascending order of their digests. Older backups have no uploads.

    Raises
    ------
    StorageError
        If an upload is too large, has a wrong type, is repeated or does not match its digest (kind
        `corrupt`). The uploads are checked because a backup may come from anywhere.
    """
    part = "CASE WHEN typeof({0}) = 'blob' AND length({0}) <= {1} THEN {0} END"
    name = "CASE WHEN typeof({0}) = 'text' AND length({0}) = 32 THEN {0} END"
    columns = (
        name.format("digest"),
        part.format("image", MAX_BYTES),
        part.format("feature", MAX_BYTES),
        name.format("feature_digest"),
    )
    try:
        with closing(sqlite.connect(file, read_only=True)) as connection:
            if not _is_there(connection, file):
                return
            before = ""
            for row in connection.execute(f"SELECT {', '.join(columns)} FROM {_TABLE} ORDER BY digest"):
                digest, image, feature, feature_digest = row
                fault = _fault_of(digest, image, feature, feature_digest)
                if fault is None and digest <= before:  # the pages of a damaged file may form a cycle
                    fault = "it comes twice"
                if fault is not None:
                    raise StorageError(f"{file} carries a damaged upload, {digest}: {fault}", "corrupt")
                before = digest
                yield Upload(digest, image, feature)
    except sqlite.BROKEN as error:
        raise sqlite.explain(error, file) from error


def remove(file: Path) -> None:
    """Remove the uploads from a backup and free their space, so that only the label database is left."""
    try:
        with closing(sqlite.connect(file, read_only=False)) as connection:
            if _is_there(connection, file):
                connection.execute(f"DROP TABLE {_TABLE}")
                connection.execute("VACUUM")
    except sqlite.BROKEN as error:
        raise sqlite.explain(error, file) from error


def _is_there(connection: sqlite3.Connection, file: Path) -> bool:
    """Return whether the backup has the table that `write` creates.

    Another table or view of the same name is refused without reading it.
    """
    found = connection.execute("SELECT type, sql FROM sqlite_master WHERE name = ?", (_TABLE,)).fetchall()
    if found and found != [("table", _MADE_BY)]:
        raise StorageError(f"{file} carries uploads in a form that this version does not know", "corrupt")
    return bool(found)


def _fault_of(digest: Any, image: Any, feature: Any, feature_digest: Any) -> str | None:
    """Return the reason why an upload is damaged, or None if it is intact."""
    if not (isinstance(digest, str) and DIGEST.fullmatch(digest)):
        return "its digest must be 32 hexadecimal digits"
    for what, content, wanted in (("image", image, digest), ("features", feature, feature_digest)):
        if not isinstance(content, bytes) or len(content) > MAX_BYTES:
            return f"its {what} must be at most {MAX_BYTES:,} bytes"
        if digest_of(content) != wanted:
            return f"the digest of its {what} is another"
    return None
