"""Export labeled items as files in one folder per class, the usual input of training programs."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path, PurePosixPath

from closecall.app.exchange.offline_project import folder_written_whole
from closecall.app.sessions.classes import labels_of
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.sources import Source
from closecall.core.sources.images import EXTENSIONS, format_of
from closecall.core.sources.texts import Texts
from closecall.storage import ConceptRecord, Concepts, Database
from closecall.storage.exports import label_rows

NONE = "none"
"""Folder for items that belong to none of the classes."""

_PIXELS = 512
"""Longest side in pixels of a generated picture."""
_RESERVED = '<>:"|?*\\'


def export_folder(database: Database, pool: Pool, concept: ConceptRecord | None, out: Path) -> dict[str, int]:
    """Copy every item labeled yes or no into a folder named after its label, below the new folder `out`.

    For one concept the folders are "yes" and "no". For several concepts they are named after the classes,
    with "none" for items whose labels are all no. Items keep their relative paths; items that are not image
    files are written as PNG or text. An item of several classes is copied into the folder of each class.

    Returns
    -------
    dict of str to int
        Number of files in each folder.

    Raises
    ------
    InputError
        If `out` exists and is not empty, or an item can't be read.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists already and is not empty: choose a new folder")
    copied: Counter[str] = Counter()
    with folder_written_whole(out) as half:
        for item, folder in _places(database, concept):
            if not pool.has_row(item):
                continue
            _copy(pool.source, item, half / folder)
            copied[folder] += 1
    return dict(copied)


def _places(database: Database, concept: ConceptRecord | None) -> Iterator[tuple[int, str]]:
    """Yield each labeled item and its folder; an item of several classes is yielded once for each class."""
    concepts = [concept] if concept else Concepts(database).all()
    if len(concepts) < 2:
        for its in concepts:
            yield from ((row[1], row[2]) for row in label_rows(database, its.id) if row[2])
        return
    called = {its["concept"]: its["name"] for its in labels_of(concepts)}
    names = {its.name: called[its.id] for its in concepts}
    folders = _folder_names(list(names.values()))
    labels = (row[:3] for row in label_rows(database, by_item=True) if row[2])
    for item, its_labels in groupby(labels, key=lambda row: row[1]):
        classes = [folders[names[name]] for name, _, label in its_labels if label == "yes"]
        yield from ((item, folder) for folder in classes or [NONE])


def _folder_names(classes: list[str]) -> dict[str, str]:
    """Return a folder name for each class, with "_" for forbidden characters and numbers for duplicates."""
    folders: dict[str, str] = {}
    taken = {NONE}
    for name in classes:
        safe = "".join("_" if sign in _RESERVED + "/" or ord(sign) < 32 else sign for sign in name)
        safe = safe.strip(" .")[:100] or "_"
        number, free = 1, safe
        while free.casefold() in taken:
            number += 1
            free = f"{safe} {number}"
        taken.add(free.casefold())
        folders[name] = free
    return folders


def _copy(source: Source, item: int, folder: Path) -> None:
    path = folder.joinpath(*_parts(source.name(item), item))
    original, encoded = source.original(item), source.encoded(item)
    if encoded is not None:
        if path.suffix.lower() not in EXTENSIONS:
            path = path.with_name(f"{path.name}.{format_of(encoded)}")
    elif original is None:
        suffix = ".txt" if isinstance(source, Texts) else ".png"
        path = path.with_name(path.name + suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():  # the file system does not distinguish this name from an earlier one
        path = path.with_name(f"{item} {path.name}")
    if original is not None:
        shutil.copy2(original, path)
    elif encoded is not None:
        path.write_bytes(encoded)
    elif isinstance(source, Texts):
        path.write_text(source.text(item), "utf-8", newline="")
    else:
        source.image(item, _PIXELS).save(path)


def _parts(name: str, item: int) -> list[str]:
    """Return the path components of an item's name, leaving out those that lead out of the folder."""
    parts = [part.replace("\0", "_") for part in PurePosixPath(name).parts if part not in ("/", "..", ".")]
    return parts or [str(item)]
