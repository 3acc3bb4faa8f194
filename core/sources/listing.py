"""Lists of the images or other files in a folder, in a fixed order.

Files are ordered by a hash of their relative path. This order is the same on every machine, and every prefix
of the list is a random sample of the whole, so labeling can start before all files are read. With
`by_path=True`, files are ordered by path instead, which is needed if embeddings were computed in this order.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.files.durable import replace_file
from closecall.core.sources import classes
from closecall.core.sources.base import Items
from closecall.core.sources.classes import path_hash
from closecall.core.sources.heif import HEIF_EXTENSIONS, can_read_heif, note_on_left_out
from closecall.core.sources.images import EXTENSIONS

_MPEG = (".mp4", ".m4v", ".mov", ".3gp", ".mpg", ".mpeg", ".vob", ".ts", ".mts", ".m2ts")
VIDEO_EXTENSIONS = frozenset((*_MPEG, ".mkv", ".webm", ".ogv", ".avi", ".wmv", ".asf", ".flv", ".mxf"))
"""Extensions of videos, from which `core.sources.packed.videos` takes frames."""

_SAMPLED = 64
"""Number of files that are looked for to find out whether a folder has vanished."""

_WELL_KNOWN = {".jpg": "JPEG", ".png": "PNG", ".txt": "TXT"}


@dataclass(frozen=True, eq=False)
class Listing:
    """Images of a folder, with their classes.

    Attributes
    ----------
    paths : tuple of str
        Paths relative to the folder, with the system's separators.
    classes : tuple of str
    truth : array of shape (n_paths,), int16
        Index into `classes`, −1 where unknown.
    held_out : array of int64, ascending
        Positions of the held-out images in `paths`.
    left_out : int
        Number of HEIC images that are left out because pillow-heif, which reads them, is not installed. This
        number is not saved.
    """

    paths: tuple[str, ...]
    classes: tuple[str, ...]
    truth: NDArray[np.int16]
    held_out: Items
    left_out: int = 0

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that identify these files, classes and held-out items."""
        digest = hashlib.blake2b(digest_size=8)
        names = (_joined(self.paths), _joined(self.classes))
        for part in (*names, self.truth.tobytes(), self.held_out.tobytes()):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.hexdigest()

    def without_classes(self) -> Listing:
        """Return the same images, with unknown classes and no held-out images."""
        nothing = np.empty(0, dtype=np.int64)
        return Listing(self.paths, *classes.unknown(len(self.paths)), nothing, self.left_out)


def list_files(
    root: Path,
    *,
    by_path: bool = False,
    use_classes: bool = True,
    extensions: Collection[str] = EXTENSIONS,
    what: str = "images",
) -> Listing:
    """List the images in `root` and its subfolders, or other files with the given `extensions`.

    Hidden files and folders, symbolic links and files with other extensions are left out. So are HEIC images
    if pillow-heif is not installed. A subfolder that cannot be listed is included as if it were an unreadable
    image, so that the report on the pool names it.

    Parameters
    ----------
    root : Path
        An existing folder.
    by_path : bool
        Whether to order the files by path instead of by a hash of the path.
    use_classes : bool
        Whether to use folder names as classes.
    extensions : collection of str
        Extensions of the files to list, in lower case, including the dots.
    what : str
        Display name of the files, for messages.

    Raises
    ------
    InputError
        If there are no files with these extensions.
    """
    links: list[str] = []
    found = list(_walk(root, "", links, extensions))
    n_all = len(found)
    if HEIF_EXTENSIONS & set(extensions) and not can_read_heif():
        found = [path for path in found if _extension(path) not in HEIF_EXTENSIONS]
    left_out = n_all - len(found)
    if not found:
        if note := note_on_left_out(left_out):
            raise InputError(f"{root} has no other {what}, and {note}")
        linked = f"; it has {len(links)} symbolic links, which are not followed" if links else ""
        has_videos = what == "images" and any(_walk(root, "", [], VIDEO_EXTENSIONS))
        videos = f"; video:{root} takes the frames of its videos" if has_videos else ""
        raise InputError(f"{root} has no {what} ({_examples(extensions)}){linked}{videos}")
    paths = tuple(sorted(found, key=_parts if by_path else path_hash))
    names, truth = classes.of(root, paths) if use_classes else classes.unknown(len(paths))
    return Listing(paths, names, truth, classes.held_out(paths, truth), left_out)


def read_list(file: Path, root: Path, use_classes: bool) -> Listing:
    """Read the list of images in a text file with one path per line, in the order of the lines.

    Paths are relative to `root`. Empty lines are skipped.

    Raises
    ------
    InputError
        If a line does not name a file inside `root`, or the list is empty.
    """
    try:
        lines = file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError as error:
        raise InputError(f"the list of images {file} can't be read: {error.strerror}") from error
    paths = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        path = Path(os.path.realpath(root / line.strip()))
        if not path.is_relative_to(root) or not path.is_file():
            raise InputError(f"line {number} of {file} names {line.strip()!r}, which is not a file in {root}")
        paths.append(str(path.relative_to(root)))
    if not paths:
        raise InputError(f"the list of images {file} is empty")
    names, truth = classes.of(root, paths) if use_classes else classes.unknown(len(paths))
    return Listing(tuple(paths), names, truth, classes.held_out(paths, truth))


def continued(earlier: Listing, now: Listing) -> Listing:
    """Return the items of `earlier` in their order, followed by the new files of `now`.

    The new files are not held out. If a new file has a class that is not in `earlier`, the class counts as
    unknown.
    """
    known = set(earlier.paths)
    new = [i for i, path in enumerate(now.paths) if path not in known]
    index = {name: i for i, name in enumerate(earlier.classes)}
    translation = np.array([index.get(name, -1) for name in now.classes] + [-1], dtype=np.int16)
    return Listing(
        earlier.paths + tuple(now.paths[i] for i in new),
        earlier.classes,
        np.concatenate([earlier.truth, translation[now.truth[new]]]),
        earlier.held_out,
        now.left_out,
    )


def save(listing: Listing, file: Path) -> None:
    """Write the listing to `file`, replacing it atomically."""
    held = io.BytesIO()
    np.savez(
        held,
        paths=np.frombuffer(_joined(listing.paths), dtype=np.uint8),
        classes=np.frombuffer(_joined(listing.classes), dtype=np.uint8),
        truth=listing.truth,
        held_out=listing.held_out,
    )
    replace_file(file, held.getvalue())


def load(file: Path) -> Listing:
    """Load the listing saved in `file`.

    Raises
    ------
    InputError
        If the file is missing or damaged.
    """
    try:
        with np.load(file, allow_pickle=False) as saved:
            return Listing(
                _split(saved["paths"].tobytes()),
                _split(saved["classes"].tobytes()),
                saved["truth"],
                saved["held_out"],
            )
    except FileNotFoundError as error:
        raise InputError(f"the list of images {file} is missing: build the pool again") from error
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise InputError(f"the list of images {file} is damaged: build the pool again") from error


def vanished(path: Path, root: str, listing: Listing) -> Path | None:
    """Return `path` if it does not exist, `root` if it has none of a sample of its files, otherwise None.

    `root` ends with a separator.
    """
    if not os.access(path, os.F_OK):  # unlike `Path.exists`, this raises no error if a drive doesn't answer
        return path
    some = np.linspace(0, len(listing.paths) - 1, min(_SAMPLED, len(listing.paths))).astype(np.int64)
    return None if any(os.access(root + listing.paths[item], os.F_OK) for item in some) else Path(root)


def as_text(path: str) -> str:
    """Return the path as text with slashes, replacing bytes that are not UTF-8."""
    text = path if path.isascii() else os.fsencode(path).decode("utf-8", errors="replace")
    return text.replace(os.sep, "/")


def _walk(root: Path, folder: str, links: list[str], extensions: Collection[str]) -> Iterator[str]:
    """Yield the relative paths of the files in `folder` and its subfolders, in no particular order."""
    try:
        entries = list(os.scandir(root / folder))
    except OSError:
        if not folder:
            raise
        yield folder
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        # Creating a hundred thousand Path objects would take a second.
        path = os.path.join(folder, entry.name)  # noqa: PTH118
        if entry.is_symlink():
            links.append(path)
        elif entry.is_dir(follow_symlinks=False):
            yield from _walk(root, path, links, extensions)
        elif entry.is_file(follow_symlinks=False) and _extension(entry.name) in extensions:
            yield path


def _extension(name: str) -> str:
    return name[name.rfind(".") :].lower()


def _examples(extensions: Collection[str]) -> str:
    known = [name for extension, name in _WELL_KNOWN.items() if extension in extensions]
    return ", ".join([*known, "…"] if known else sorted(extensions))


def _parts(path: str) -> tuple[str, ...]:
    return Path(path).parts


def _joined(names: Sequence[str]) -> bytes:
    return b"\0".join(os.fsencode(name) for name in names)


def _split(raw: bytes) -> tuple[str, ...]:
    return tuple(os.fsdecode(raw).split("\0")) if raw else ()
