"""An index on disk: a folder with one .npy file an array, and index.json, which names, sizes and checksums them.

The folder is written beside its place and renamed into it, so it is there whole or not at all. Reading
checks every byte, and maps the arrays into memory instead of copying them.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError

FORMAT = 1
_MANIFEST = "index.json"
_CHUNK = 1 << 22


def write_index(folder: Path, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Write `header` (of plain JSON values) and `arrays` to `folder`, replacing what is there.

    Raises
    ------
    InputError
        If the folder cannot be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            files = {}
            for name, array in arrays.items():
                path = fresh / f"{name}.npy"
                np.save(path, array, allow_pickle=False)
                files[name] = {"bytes": path.stat().st_size, "crc32": _crc32(path)}
            body = {"format": FORMAT, "header": header, "files": files}
            text = json.dumps({**body, "crc32": _crc32_of(body)}, indent=1)
            (fresh / _MANIFEST).write_text(text, encoding="utf-8")
            if folder.exists():
                old = Path(mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
                os.replace(folder, old)
                shutil.rmtree(old)
            os.replace(fresh, folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        raise InputError(f"the index could not be written to {folder}: {error.strerror or error}") from error


def read_index(folder: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header and the memory-mapped arrays that `write_index` put into `folder`.

    Raises
    ------
    InputError
        If there is no index, it is from a newer version, or any byte of it is not what was written.
    """
    manifest = folder / _MANIFEST
    if not manifest.is_file():
        raise InputError(f"no index in {folder}: it has no {_MANIFEST}")
    try:
        said = json.loads(manifest.read_text(encoding="utf-8"))
        if said["format"] > FORMAT:
            raise InputError(
                f"{folder} is an index of format {said['format']}, and {FORMAT} is the newest known here"
            )
        body = {key: said[key] for key in ("format", "header", "files")}
        whole = said["crc32"] == _crc32_of(body)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{manifest} is damaged: build the index again") from error
    if not whole:
        raise InputError(f"{manifest} is damaged: build the index again")
    return said["header"], {
        name: _read_array(folder / f"{name}.npy", is_) for name, is_ in said["files"].items()
    }


def _read_array(path: Path, expected: dict[str, int]) -> NDArray[Any]:
    try:
        same = path.stat().st_size == expected["bytes"] and _crc32(path) == expected["crc32"]
        if same:
            array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
            return array
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: build the index again") from error
    raise InputError(f"{path} is damaged: build the index again")


def _crc32(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            value = zlib.crc32(chunk, value)
    return value


def _crc32_of(body: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True).encode())
