"""Files that can't be memory-mapped as they are, unpacked once into the user's cache.

What is unpacked from a file lies in a folder of its own, named after the file's path, and is used for as
long as the file has the same length and time of change. Deleting the cache costs nothing but the time to
unpack again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from closecall.core.errors import InputError


def unpacked(file: Path, unpack: Callable[[Path], None], *, what: str = "") -> Path:
    """The folder that `unpack` filled from `file`, now or earlier.

    Parameters
    ----------
    file : Path
        What is unpacked.
    unpack : callable
        Writes files into the new, empty folder that it is given. If it raises, nothing is kept.
    what : str
        Told apart from what else is unpacked from the same file.
    """
    cache = user_cache_path("closecall") / "unpacked"
    state = file.stat()
    name = hashlib.blake2b(os.fsencode(file) + what.encode(), digest_size=8).hexdigest()
    folder = cache / f"{name}-{state.st_size}-{state.st_mtime_ns}"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / f"{name}.lock"):
            if folder.is_dir():
                return folder
            for earlier in cache.glob(f"{name}-*"):
                shutil.rmtree(earlier)
            begun = cache / f"{name}-begun"
            begun.mkdir()
            try:
                unpack(begun)
                begun.rename(folder)
            finally:
                shutil.rmtree(begun, ignore_errors=True)
    except OSError as error:
        raise InputError(f"{file} can't be unpacked into {cache}: {error.strerror or error}") from error
    return folder
