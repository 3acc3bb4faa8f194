"""Cache for files that cannot be memory-mapped directly and are unpacked once.

Each file is unpacked to its own folder in the user's cache. The name of the folder depends on the file's
path. The folder is used as long as the size and the modification time of the file stay the same. Deleting the
cache is safe; the files are then unpacked again.
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


def unpacked(
    file: Path,
    unpack: Callable[[Path], None],
    *,
    what: str = "",
    is_whole: Callable[[Path], bool] = Path.is_dir,
) -> Path:
    """Return the folder with the content of `file`. If the content is not in the cache, call `unpack` first.

    Parameters
    ----------
    file : Path
        The file to unpack.
    unpack : callable
        Function that takes a new, empty folder and writes the content to this folder. If it raises an error,
        nothing is kept.
    what : str
        Text that distinguishes this content from other content that is unpacked from the same file.
    is_whole : callable
        Function that takes the folder and returns whether it still has all its files.

    Raises
    ------
    InputError
        If the cache cannot be written, or `unpack` raises an OSError.
    """
    cache = user_cache_path("closecall") / "unpacked"
    state = file.stat()
    name = hashlib.blake2b(os.fsencode(file) + what.encode(), digest_size=8).hexdigest()
    folder = cache / f"{name}-{state.st_size}-{state.st_mtime_ns}"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / f"{name}.lock"):
            if folder.is_dir() and is_whole(folder):
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
