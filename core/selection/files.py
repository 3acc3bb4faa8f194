"""An index on disk: a folder with one .npy file per array, and index.json with the checksums of these files.

A new folder is written under a temporary name and then renamed, so an index is never incomplete. When an
index is replaced, the new arrays are stored first, under names that contain their checksums. Then the new
index.json replaces the old index.json, and the old arrays are deleted. The folder therefore always has a
complete index, either the old or the new index, even after a kill or a power cut. Reading verifies every
byte, and maps the arrays into memory instead of copying them.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.files.durable import (
    TEMPORARY,
    Stamp,
    disk_trouble,
    publish_folder,
    stamp_of,
    sync_folder,
    write_array,
    write_bytes,
)
from closecall.core.selection.reader import PoolRows, fingerprint

FORMAT = 1
MANIFEST = "index.json"
_CURE = "build the index again"


def write_index(folder: Path, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Replace the content of `folder` by `header` (plain JSON values) and `arrays`.

    Raises
    ------
    InputError
        If the folder cannot be written.
    """
    with disk_trouble(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(mkdtemp(prefix=f"{folder.name}-", suffix=TEMPORARY, dir=folder.parent))
        try:
            stamps = {name: write_array(temporary / f"{name}.npy", a) for name, a in arrays.items()}
            files = {name: asdict(stamp) for name, stamp in stamps.items()}
            body = {"format": FORMAT, "header": header, "files": files}
            sealed = json.dumps({**body, "checksum": _checksum(body)}, indent=1)
            write_bytes(temporary / MANIFEST, sealed.encode())
            if (folder / MANIFEST).exists():
                _replace(folder, temporary, stamps)
            else:  # nobody can read what an interrupted attempt may have left there
                publish_folder(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def read_index(folder: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the memory-mapped arrays that `write_index` wrote to `folder`.

    Raises
    ------
    InputError
        If there is no index, if it is from a newer version, or if its content does not match its checksums.
    """
    sealed = _sealed(folder)
    while True:
        try:
            return _unsealed(folder, sealed)
        except InputError:
            before, sealed = sealed, _sealed(folder)
            if sealed == before:  # otherwise, the index was replaced in the meantime
                raise


def _sealed(folder: Path) -> bytes:
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise InputError(f"there is no index in {folder}: it has no {MANIFEST}; {_CURE}")
    try:
        return manifest.read_bytes()
    except OSError as error:
        raise InputError(f"{manifest} is damaged: {_CURE}") from error


def _unsealed(folder: Path, sealed: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    manifest = folder / MANIFEST
    try:
        stored = json.loads(sealed)
        newer = stored["format"] > FORMAT
        body = {key: stored[key] for key in ("format", "header", "files")}
        whole = stored["checksum"] == _checksum(body)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{manifest} is damaged: {_CURE}") from error
    if newer:
        raise InputError(
            f"{manifest} has format {stored['format']}, and {FORMAT} is the newest known: {_CURE}"
        )
    if not whole:
        raise InputError(f"{manifest} is damaged: {_CURE}")
    return stored["header"], {name: _read(folder, name, Stamp(**s)) for name, s in stored["files"].items()}


def _replace(folder: Path, temporary: Path, stamps: dict[str, Stamp]) -> None:
    """Replace the index in `folder` by the index in `temporary`, and delete the old arrays."""
    new = {name: folder / _replacement(name, stamp) for name, stamp in stamps.items()}
    for name, path in new.items():
        (temporary / f"{name}.npy").replace(path)
    sync_folder(folder)
    (temporary / MANIFEST).replace(folder / MANIFEST)
    sync_folder(folder)
    for left in set(folder.iterdir()) - {folder / MANIFEST, *new.values()}:
        with suppress(OSError):  # some systems forbid deleting a file that is mapped into memory
            left.unlink()


def _replacement(name: str, stamp: Stamp) -> str:
    """Return a file name, with the checksum, for an array that replaces an earlier array."""
    return f"{name}-{stamp.checksum[:16]}.npy"


def header_of(pool: PoolRows) -> dict[str, Any]:
    """Return the header fields by which `covered_rows` recognizes the pool of an index."""
    return {"rows": len(pool), "pool": fingerprint(pool)}


def covered_rows(folder: Path, header: dict[str, Any], pool: PoolRows) -> PoolRows:
    """Return the part of `pool` that the index in `folder` covers.

    The index covers the first rows; `header` gives their number.

    Raises
    ------
    InputError
        If the pool has fewer rows than the index, or different rows.
    """
    rows = header["rows"]
    if rows > len(pool):
        raise InputError(f"{folder} covers {rows} rows, but the pool has only {len(pool)}")
    covered = pool if rows == len(pool) else pool.prefix(rows)
    if header["pool"] != fingerprint(covered):
        raise InputError(f"{folder} was made for another pool: {_CURE}")
    return covered


def remove_leftovers(folder: Path) -> None:
    """Remove the partial indexes that a killed process left in `folder`.

    Only call this function while no other process writes to the folder.
    """
    for left in folder.glob(f"*-*{TEMPORARY}"):
        shutil.rmtree(left, ignore_errors=True)


def _read(folder: Path, name: str, expected: Stamp) -> NDArray[Any]:
    replacement = folder / _replacement(name, expected)
    path = replacement if replacement.exists() else folder / f"{name}.npy"
    try:
        if path.stat().st_size == expected.bytes and stamp_of(path) == expected:
            mapped: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
            return mapped
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}): {_CURE}") from error
    raise InputError(f"{path} is damaged: {_CURE}")


def _checksum(body: dict[str, Any]) -> str:
    return blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=16).hexdigest()
