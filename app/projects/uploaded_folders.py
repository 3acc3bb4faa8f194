"""Folders of images that people upload with their browsers, stored beside the projects."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from closecall.core.errors import InputError

FOLDER = "images"
"""Name of the folder, beside the projects, that contains the uploaded folders."""

UPLOAD = "{upload}"
"""Placeholder for the uploaded folder in the word for a source, until the folder is stored."""

UNFINISHED = ".new-"

MOST_FILES = 5000
MOST_BYTES = 2_000_000_000
"""Maximum number of files in an upload, and of bytes in all its files. The server holds them in memory."""

_MOST_NAME_BYTES = 200

File = tuple[str, bytes]
"""A file's path in the uploaded folder, with slashes, and its content."""


def store_folder(projects: Path, name: str, files: Sequence[File]) -> Path:
    """Store an uploaded folder of images beside the projects, and return its path.

    Parameters
    ----------
    projects : Path
        The folder of the projects.
    name : str
        A text from which the folder's name is made.
    files : sequence of File
        The files. Dots at the start of names are removed, so that no path leads out of the folder or hides
        a file.

    Raises
    ------
    InputError
        If there are no files, too many, or they are too large, or if they can't be stored.
    """
    if not files:
        raise InputError("Choose the images first")
    if len(files) > MOST_FILES or sum(len(content) for _, content in files) > MOST_BYTES:
        raise InputError(
            f"An upload can have {MOST_FILES:,} files and {MOST_BYTES // 10**9} GB: copy a larger one to the "
            "machine that runs Closecall, and choose it there"
        )
    home = projects / FOLDER
    try:
        return _stored(home, name, files)
    except OSError as error:
        raise InputError(f"The images can't be stored in {home}: {error.strerror or error}") from error


def _stored(home: Path, name: str, files: Sequence[File]) -> Path:
    home.mkdir(exist_ok=True)
    half = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=home))
    try:
        for path, content in files:
            file = _free(half.joinpath(*_parts(path)))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        half.chmod(0o755)
        stem = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "images"
        folder, number = home / stem, 2
        while folder.exists():
            folder, number = home / f"{stem}-{number}", number + 1
        return half.rename(folder)
    except BaseException:
        shutil.rmtree(half, ignore_errors=True)
        raise


def _parts(path: str) -> list[str]:
    """Return the parts of a path that a browser sent, changed into names of visible files.

    Only the last bytes of a long part are kept, because systems limit the bytes of a name.
    """
    parts = (_ending(re.sub(r"[\x00-\x1f]", "_", part)).lstrip(".") for part in PurePosixPath(path).parts)
    return [part for part in parts if part and part != "/"] or ["image"]


def _ending(part: str) -> str:
    return part.encode(errors="replace")[-_MOST_NAME_BYTES:].decode(errors="ignore")


def _free(file: Path) -> Path:
    """Return the path, with a number added to the name if the file exists already."""
    free, number = file, 2
    while free.exists():
        free, number = file.with_name(f"{file.stem} {number}{file.suffix}"), number + 1
    return free
