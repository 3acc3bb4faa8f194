"""An index on disk: a folder with one .npy file per array, and index.json with the checksums of these files.

The folder is written under a temporary name and then renamed, so an index is never incomplete. Reading
verifies every byte, and maps the arrays into memory instead of copying them.
"""

from __future__ import annotations

import json
import shutil
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
    write_array,
    write_bytes,
)
from closecall.core.selection.reader import PoolRows, fingerprint

FORMAT = 1
MANIFEST = "index.json"
_CURE = "build the index again"


def write_index(folder: Path, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Write `header` (plain JSON values) and `arrays` to `folder`, replacing its content.

    Raises
    ------
    InputError
        If the folder cannot be written.
    """
    with disk_trouble(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(mkdtemp(prefix=f"{folder.name}-", suffix=TEMPORARY, dir=folder.parent))
        try:
            files = {name: asdict(write_array(temporary / f"{name}.npy", a)) for name, a in arrays.items()}
            body = {"format": FORMAT, "header": header, "files": files}
            sealed = json.dumps({**body, "checksum": _checksum(body)}, indent=1)
            write_bytes(temporary / MANIFEST, sealed.encode())
            publish_folder(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def read_index(folder: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the memory-mapped arrays that `write_index` wrote to `folder`.

    Raises
    ------
    InputError
        If there is no index, it is from a newer version, or its content does not match its checksums.
    """
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise InputError(f"there is no index in {folder}: it has no {MANIFEST}; {_CURE}")
    try:
        stored = json.loads(manifest.read_bytes())
        newer = stored["format"] > FORMAT
        body = {key: stored[key] for key in ("format", "header", "files")}
        whole = stored["checksum"] == _checksum(body)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{manifest} is damaged: {_CURE}") from error
    if newer:
        raise InputError(
            f"{manifest} has format {stored['format']}, and {FORMAT} is the newest known: {_CURE}"
        )
    if not whole:
        raise InputError(f"{manifest} is damaged: {_CURE}")
    return stored["header"], {
        name: _read(folder / f"{name}.npy", Stamp(**s)) for name, s in stored["files"].items()
    }


def header_of(pool: PoolRows) -> dict[str, Any]:
    """Return the header fields by which `covered_rows` recognizes the pool of an index."""
    return {"rows": len(pool), "pool": fingerprint(pool)}


def covered_rows(folder: Path, header: dict[str, Any], pool: PoolRows) -> PoolRows:
    """Return those first rows of `pool` that the index in `folder` covers, according to its header.

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


def _read(path: Path, expected: Stamp) -> NDArray[Any]:
    try:
        if path.stat().st_size == expected.bytes and stamp_of(path) == expected:
            mapped: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
            return mapped
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}): {_CURE}") from error
    raise InputError(f"{path} is damaged: {_CURE}")


def _checksum(body: dict[str, Any]) -> str:
    return blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=16).hexdigest()
