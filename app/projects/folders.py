"""Folders to choose from on the start page: the images in a folder, and completions of a typed path."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from closecall.app.display.phrases import isolated
from closecall.core.errors import InputError
from closecall.core.files.typed import existing_path as existing_path
from closecall.core.files.typed import typed_path as typed_path
from closecall.core.sources.heif import HEIF_EXTENSIONS, can_read_heif, note_on_left_out
from closecall.core.sources.images import EXTENSIONS

SECONDS = 0.3
"""Maximum time in seconds for counting the images in a folder, while a person chooses one."""

MOST_OFFERED = 12
"""Maximum number of folders that are offered at once."""

_MOST_READ = 5000
"""Maximum number of entries of a folder that are read to find its subfolders."""


@dataclass(frozen=True)
class Contents:
    """The number of images in a folder and its subfolders.

    Parameters
    ----------
    images : int
        Number of images that can be read.
    left_out : int
        Number of HEIC images that can't be read here.
    folders : int
        Number of folders with images.
    is_all : bool
        Whether everything was counted. If not, the time was up, and there may be more images.
    """

    images: int
    left_out: int
    folders: int
    is_all: bool

    def in_words(self) -> str:
        """Return the contents in a sentence: "2,113 images in 12 folders"."""
        images = f"{self.images:,} image" + ("" if self.images == 1 else "s")
        if not self.is_all:
            return f"More than {images}." if self.images else "No images so far: it has many other files."
        if not self.images and not self.left_out:
            return "No images here."
        where = f" in {self.folders:,} folders" if self.folders > 1 else ""
        note = note_on_left_out(self.left_out)
        return f"{images}{where}." + (f" {note}." if note else "")


@dataclass(frozen=True)
class Offer:
    """Folders to choose from.

    Parameters
    ----------
    title : str
        What the folders have in common.
    folders : tuple of str
        Their paths.
    """

    title: str
    folders: tuple[str, ...]


def look_into(folder: Path, seconds: float = SECONDS) -> Contents:
    """Count the images in a folder and its subfolders, for at most `seconds` seconds.

    Hidden files, symbolic links, and folders that can't be read don't count, as in `core.sources.listing`.
    """
    until = time.monotonic() + seconds
    images = left_out = folders = 0
    reads_heif = can_read_heif()
    waiting = [str(folder)]
    while waiting:
        before = images + left_out
        for entry in _entries(waiting.pop()):
            if time.monotonic() > until:
                return Contents(images, left_out, folders, is_all=False)
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
                continue
            extension = entry.name[entry.name.rfind(".") :].lower()
            if extension in EXTENSIONS and entry.is_file(follow_symlinks=False):
                is_image = reads_heif or extension not in HEIF_EXTENSIONS
                images, left_out = images + is_image, left_out + (not is_image)
        folders += images + left_out > before
    return Contents(images, left_out, folders, is_all=True)


def offer(typed: str, recent: Iterable[str]) -> Offer:
    """Return the folders to offer for a typed path.

    If nothing was typed, offer the `recent` folders. If the path is a folder, offer its subfolders. In all
    other cases, offer the folders whose paths begin with the typed path.
    """
    text = typed.strip()
    if not text:
        return Offer("Recent and usual folders", tuple(recent)[:MOST_OFFERED])
    try:
        path = typed_path(text)
    except InputError:
        return Offer("", ())
    if not path.is_absolute():
        return Offer("", ())
    if path.is_dir():
        found = _subfolders(path)
        return Offer(f"Folders in {isolated(str(path))}", found)
    found = _subfolders(path.parent, path.name)
    title = f"Folders in {isolated(str(path.parent))} that begin with “{isolated(path.name)}”"
    return Offer(title if found else "", found)


def can_be_read(folder: str) -> bool:
    """Return whether this is a folder whose files the server may list and open."""
    return Path(folder).is_dir() and os.access(folder, os.R_OK | os.X_OK)


def usual_folders() -> list[str]:
    """Return the folders where people keep images, as far as they exist."""
    try:
        home = Path.home()
    except RuntimeError:  # the user has no home
        return []
    return [str(path) for path in (home / "Pictures", home) if can_be_read(str(path))]


def _subfolders(folder: Path, beginning: str = "") -> tuple[str, ...]:
    """Return the sorted paths of readable subfolders that start with `beginning`, in any letter case."""
    start = beginning.casefold()
    found = []
    for number, entry in enumerate(_entries(str(folder))):
        if number >= _MOST_READ:
            break
        if entry.name.casefold().startswith(start) and entry.is_dir() and can_be_read(entry.path):
            found.append(entry.path)
    return tuple(sorted(found, key=str.casefold)[:MOST_OFFERED])


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder that are not hidden; nothing if the folder can't be read."""
    try:
        with os.scandir(folder) as entries:
            yield from (entry for entry in entries if not entry.name.startswith("."))
    except OSError:
        return
