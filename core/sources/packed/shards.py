"""Shards: files that each contain a part of a data set, given as one file, a folder, or a pattern of names.

A pattern has the wildcards `*` and `?`, or braces: `{000..009}` for the numbers 000 to 009, and `{train,val}`
for the words train and val. The split of a shard is found from words in its path. For example,
`imagenet-val-0003.tar` and `val/0003.tar` are of the split `val`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from closecall.core.errors import InputError
from closecall.core.sources.classes import SPLIT_NAMES

_SPECIAL = re.compile(r"[*?{]")
_COMPRESSED = (".gz", ".tgz", ".bz2", ".xz", ".zst", ".zip")
_MOST = 100_000
_SAMPLED, _BLOCK = 8, 4096


@dataclass(frozen=True)
class Shards:
    """The shards of a data set, sorted, with paths relative to `root`.

    Attributes
    ----------
    root : Path
        For a file, its folder; for a folder, the folder itself; for a pattern, the folder before the first
        part with a wildcard or braces.
    names : tuple of str
        Paths relative to `root`, with slashes.
    is_one_file : bool
        Whether a single file was named, instead of a folder or a pattern.
    """

    root: Path
    names: tuple[str, ...]
    is_one_file: bool


def root_of(path: Path) -> Path:
    """Return the folder to which the names of the shards are relative."""
    if path.is_dir():
        return path
    parts = path.parts
    first = next((i for i, part in enumerate(parts) if _SPECIAL.search(part)), len(parts) - 1)
    return path.parent if path.exists() else Path(*parts[:first])


def find_shards(path: Path, suffixes: Sequence[str]) -> Shards:
    """Find the files that `path` names: one file, the files in a folder, or the files that match a pattern.

    `path` is absolute. A folder is searched recursively for files with one of the suffixes. Hidden files and
    folders, and the files `cache-*.arrow` that the library `datasets` leaves beside the data, are skipped.
    Links to files are followed, because the Hugging Face hub's tool stores files as links. Links to folders
    are not followed.

    Raises
    ------
    InputError
        If there is no such file.
    """
    root = root_of(path)
    if path.is_dir():
        there = list(_walk(path))
        found = [file for file in there if file.suffix.lower() in suffixes]
        if not found:
            packed = next((f"; unpack {file} first" for file in there if file.suffix in _COMPRESSED), "")
            raise InputError(f"{path} has no {' or '.join(suffixes)} files{packed}")
    elif path.exists():
        found = [path]
    elif _SPECIAL.search(str(path)):
        patterns = list(islice(_expanded(str(path)), _MOST + 1))
        if len(patterns) > _MOST:
            raise InputError(f"{path} names more than {_MOST:,} files")
        found = [file for pattern in patterns for file in _matching(Path(pattern), root)]
        if not found:
            raise InputError(f"no file matches {path}")
    else:
        raise InputError(f"there is no file or folder {path}")
    names = tuple(sorted({file.relative_to(root).as_posix() for file in found}))
    return Shards(root, names, found == [path])


def split_of(name: str) -> str:
    """Return the last word in a shard's path that names a split, such as "train", or "" if none does."""
    words = re.findall("[a-z]+", name.lower())
    return next((word for word in reversed(words) if word in SPLIT_NAMES), "")


def fingerprint(file: Path) -> str:
    """Return sixteen hexadecimal digits that depend on the file's size and on some of its blocks.

    Raises
    ------
    InputError
        If the file is missing or can't be read.
    """
    try:
        with file.open("rb") as data:
            size = data.seek(0, os.SEEK_END)
            digest = hashlib.blake2b(str(size).encode(), digest_size=8)
            for start in np.unique(np.linspace(0, max(0, size - _BLOCK), _SAMPLED).astype(np.int64)):
                data.seek(int(start))
                digest.update(data.read(_BLOCK))
    except FileNotFoundError as error:
        raise InputError(f"{file} is missing: put it back, or build another pool") from error
    except OSError as error:
        raise InputError(f"{file} can't be read: {error.strerror or error}") from error
    return digest.hexdigest()


def _walk(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise InputError(f"the folder {folder} can't be listed: {error.strerror}") from error
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path))
        elif entry.is_file() and not re.fullmatch(r"cache-.*\.arrow", entry.name):
            yield Path(entry.path)


def _matching(pattern: Path, root: Path) -> Iterator[Path]:
    """Yield the files that match a pattern without braces. A pattern without wildcards must name a file."""
    if re.search(r"[*?]", str(pattern)):
        for file in root.glob(str(pattern.relative_to(root))):
            if file.is_file() and not file.name.startswith("."):
                yield file
    elif not pattern.is_file():
        raise InputError(f"there is no file {pattern}")
    else:
        yield pattern


def _expanded(pattern: str) -> Iterator[str]:
    """Yield all patterns that result from replacing each pair of braces in `pattern` by one of its values."""
    braces = re.search(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}", pattern)
    if braces is None:
        yield pattern
        return
    first, last, words = braces.groups()
    if words is not None:
        values = words.split(",")
    elif int(first) <= int(last) < _MOST:
        values = [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    else:
        raise InputError(f"{braces[0]} in {pattern} must count up, and to less than {_MOST:,}")
    for value in values:
        yield from _expanded(pattern[: braces.start()] + value + pattern[braces.end() :])
