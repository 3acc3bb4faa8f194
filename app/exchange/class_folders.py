"""Export labeled items as files in one folder per class, the usual input of training programs.

The files lie directly in the folders of their classes, because some of these programs take the innermost
folder for the class. The file names are the items' names with "_" for "/".
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePosixPath

from closecall.app.exchange.offline_project import folder_written_whole
from closecall.app.sessions.classes import labels_of
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.sources import Source
from closecall.core.sources.images import EXTENSIONS, format_of
from closecall.core.sources.texts import Texts
from closecall.storage import Archive, ConceptRecord, Database
from closecall.storage.exports import label_rows

NONE = "none"
"""Folder for items to which all questions were answered no."""

_PIXELS = 512
"""Longest side in pixels of a generated picture."""
_RESERVED = '<>:"|?*\\'
_LONGEST = 120  # bytes: a name of more than twice this is cut to this; file systems allow 255

TIED, UNSURE, SKIPPED = "tied", "unsure", "skipped"
AUDITED, UNASKED = "answered for an audit only", "without an answer to every question"


@dataclass(frozen=True)
class Exported:
    """Number of files in each folder, and number of items in no folder, by reason."""

    files: dict[str, int]
    left_out: dict[str, int]


def export_folder(database: Database, pool: Pool, concept: ConceptRecord | None, out: Path) -> Exported:
    """Copy labeled items into one folder per label or class, below the new folder `out`.

    For one concept the folders are "yes" and "no". For several concepts they are named after the classes, and
    "none" is for items whose answers are all no, with one for every active concept. Items that are not image
    files are written as PNG or text. An item of several classes is copied into the folder of each class.

    Raises
    ------
    InputError
        If `out` exists and is not empty, or an item can't be read.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists already and is not empty: choose a new folder")
    copied: Counter[str] = Counter()
    left_out: Counter[str] = Counter(dict.fromkeys((TIED, UNSURE, SKIPPED, AUDITED), 0))
    placed = 0
    with folder_written_whole(out) as half:
        for item, folders, reason in _places(database, concept):
            if not pool.has_row(item):
                continue
            placed += bool(folders) or reason != UNASKED
            if not folders:
                left_out[reason] += 1
            for folder in folders:
                _copy(pool.source, item, half / folder)
                copied[folder] += 1
    left_out[UNASKED] = len(pool) - placed
    return Exported(dict(copied), {reason: n for reason, n in left_out.items() if n})


def _places(database: Database, concept: ConceptRecord | None) -> Iterator[tuple[int, Sequence[str], str]]:
    """Yield (item, folders, reason) for each item with an answer. The reason says why there is no folder."""
    concepts = [concept] if concept else Archive(database).exported()
    if len(concepts) == 1:
        for row in label_rows(database, concepts[0].id):
            yield row[1], [row[2]] if row[2] else [], _why_not([row], {concepts[0].name})
        return
    active = {its.name for its in Archive(database).offered()}
    called = {its["concept"]: its["name"] for its in labels_of(concepts)}
    names = {its.name: called[its.id] for its in concepts}
    folders = _folder_names(list(names.values()))
    own = (row for row in label_rows(database, by_item=True) if row[0] in names)
    for item, of_item in groupby(own, key=lambda row: row[1]):
        rows = list(of_item)
        classes = [folders[names[row[0]]] for row in rows if row[2] == "yes"]
        denied = {row[0] for row in rows if row[2] == "no"}
        is_none = bool(denied) and active <= denied and len(denied) == len(rows)
        yield item, classes or ([NONE] if is_none else []), _why_not(rows, active)


def _why_not(rows: Sequence[Sequence[object]], active: set[str]) -> str:
    """Return why an item with these current labels, one per concept, is in no folder."""
    statuses = {row[3] for row in rows}
    for status, reason in (("tied", TIED), ("unsure", UNSURE), ("skip", SKIPPED)):
        if status in statuses:
            return reason
    is_audited = any(row[3] in ("yes", "no") and not row[2] for row in rows)
    return AUDITED if is_audited or active <= {row[0] for row in rows} else UNASKED


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
    path = folder / _file_name(source.name(item), item)
    original, encoded = source.original(item), source.encoded(item)
    if encoded is not None:
        if path.suffix.lower() not in EXTENSIONS:
            path = path.with_name(f"{path.name}.{format_of(encoded)}")
    elif original is None:
        suffix = ".txt" if isinstance(source, Texts) else ".png"
        path = path.with_name(path.name + suffix)
    folder.mkdir(parents=True, exist_ok=True)
    if path.exists():  # two names become the same, or the file system does not distinguish them
        path = path.with_name(f"{item} {path.name}")
    if original is not None:
        shutil.copy2(original, path)
    elif encoded is not None:
        path.write_bytes(encoded)
    elif isinstance(source, Texts):
        path.write_text(source.text(item), "utf-8", newline="")
    else:
        source.image(item, _PIXELS).save(path)


def _file_name(name: str, item: int) -> str:
    """Return the name of an item's file: its path, without the parts that lead out of the folder."""
    parts = [part.replace("\0", "_") for part in PurePosixPath(name).parts if part not in ("/", "..", ".")]
    flat = "_".join(parts) or str(item)
    if len(flat.encode("utf-8", "surrogateescape")) <= 2 * _LONGEST:
        return flat
    suffix = PurePosixPath(flat).suffix[:16]
    end = flat.removesuffix(suffix).encode("utf-8", "surrogateescape")[-_LONGEST:]
    return f"{item} {end.decode('utf-8', 'ignore')}{suffix}"
