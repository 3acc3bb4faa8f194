"""Publishing of parts of a pool. The pool's folder is never left in a partial state.

Files are written to a temporary folder, which is then renamed. A new manifest that names the files is written
only afterwards. A builder that dies before then leaves a folder that no manifest names, and the next builder
removes this folder.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.files.durable import (
    TEMPORARY,
    Stamp,
    disk_trouble,
    publish_folder,
    sync_file,
    write_array,
    write_bytes,
)
from closecall.core.pool.build_progress import LOCK, PROGRESS
from closecall.core.pool.columns import COLUMNS, IDS_COLUMN, TRUTH_COLUMN, append_column
from closecall.core.pool.feature_files import LAYOUTS, Layout, write_codebook
from closecall.core.pool.manifest import BYTE, IDS, MANIFEST, PROBLEMS, TRUTH, Manifest, Part
from closecall.core.quantization.codebook import Codebook, Encoded
from closecall.core.sources import Problem, Source

SEGMENTS, HELD_OUT, SOURCE, CODEBOOK = "segments", "held_out", "source", "codebook"
_FOLDERS = {SEGMENTS, HELD_OUT, SOURCE, CODEBOOK}
_OURS = {MANIFEST, MANIFEST + TEMPORARY, LOCK, PROGRESS, PROGRESS + TEMPORARY, *_FOLDERS, *COLUMNS}


@dataclass(frozen=True, eq=False)
class Content:
    """Content of a part of a pool: rows as stored, with their ids and classes, and the unreadable items."""

    X: NDArray[np.floating[Any]] | csr_array | Encoded
    ids: NDArray[np.int64]
    truth: NDArray[np.int16]
    problems: Sequence[Problem]


class Publisher:
    """The only writer of a pool's folder. The process that uses it must hold the build lock.

    Attributes
    ----------
    manifest : Manifest
        The published state.
    """

    def __init__(self, pool: Path, manifest: Manifest) -> None:
        self._pool = pool
        self.manifest = manifest

    def begin(self, source: Source) -> None:
        """Write the files that the source saves, then the manifest, and remove leftovers as `tidy` does.

        Raises
        ------
        InputError
            If the folder contains something else, or the disk is full or read-only.
        """
        with disk_trouble(self._pool):
            require_own_folder(self._pool)
            saved = self._save_source(source)
            self._write(replace(self.manifest, source_folder=saved))
            self.tidy()

    def withdraw(self, former: Manifest) -> None:
        """Restore the manifest from before `begin`, if no part was added since.

        Raises
        ------
        InputError
            If the disk is full or cannot be written.
        """
        self._write(former)

    def tidy(self) -> None:
        """Remove an interrupted builder's leftovers: parts not in the manifest, and temporary files."""
        named = {self._pool / part.folder for part in self.manifest.folders}
        for found in (self._pool / CODEBOOK, self._pool / HELD_OUT, *(self._pool / SEGMENTS).glob("*")):
            if found.is_dir() and found not in named:
                shutil.rmtree(found)
        for left in self._pool.glob("*" + TEMPORARY):
            shutil.rmtree(left) if left.is_dir() else left.unlink()

    def publish_codebook(self, codebook: Codebook) -> None:
        """Add the codebook of a byte pool.

        Raises
        ------
        InputError
            If the disk is full or cannot be written; the pool is then unchanged.
        """
        part = self._publish(CODEBOOK, lambda folder: write_codebook(folder, codebook))
        self._write(replace(self.manifest, codebook=part))

    def publish_held_out(self, content: Content) -> None:
        """Add the held-out items.

        Raises
        ------
        InputError
            If the disk is full or cannot be written; the pool is then unchanged.
        """
        part = self._publish_content(HELD_OUT, content, 0, self.manifest.for_held_out.layout)
        self._write(replace(self.manifest, held_out=part))

    def publish_segment(self, content: Content, stop: int, *, last: bool) -> None:
        """Add the next segment. If `last` is true, the pool is then complete.

        The segment has the items with ids below `stop` that are neither held out nor in an earlier segment.

        Raises
        ------
        InputError
            If the disk is full or cannot be written; the pool is then unchanged.
        """
        segments = self.manifest.segments
        folder = f"{SEGMENTS}/{len(segments):05d}"
        part = self._publish_content(folder, content, stop, self.manifest.layout)
        self._write(replace(self.manifest, segments=(*segments, part), complete=last))

    def _publish_content(self, folder: str, content: Content, stop: int, layout: str) -> Part:
        def write(temporary: Path) -> dict[str, Stamp]:
            files = _write_content(temporary, content, LAYOUTS[layout])
            return files | (
                self._append_columns(content) if layout == BYTE else _write_ids(temporary, content)
            )

        part = self._publish(folder, write)
        return replace(part, rows=len(content.ids), unreadable=len(content.problems), stop=stop)

    def _append_columns(self, content: Content) -> dict[str, Stamp]:
        first = self.manifest.rows
        return {
            IDS_COLUMN: append_column(self._pool, IDS_COLUMN, first, content.ids),
            TRUTH_COLUMN: append_column(self._pool, TRUTH_COLUMN, first, content.truth),
        }

    def _publish(self, folder: str, write: Callable[[Path], dict[str, Stamp]]) -> Part:
        path = self._pool / folder
        temporary = self._pool / (path.name + TEMPORARY)
        with disk_trouble(self._pool):
            try:
                temporary.mkdir()
                path.parent.mkdir(exist_ok=True)
                files = write(temporary)
                publish_folder(temporary, path)
            except OSError:
                shutil.rmtree(temporary, ignore_errors=True)  # free the space on a full disk
                raise
        return Part(folder, 0, 0, 0, files)

    def _write(self, manifest: Manifest) -> None:
        with disk_trouble(self._pool):
            manifest.write(self._pool)
        self.manifest = manifest

    def _save_source(self, source: Source) -> str | None:
        """Save the source's own files and return their folder, or None if there are none.

        Each time the pool grows, the files go to a new folder, because readers may still use the old one.
        """
        temporary = self._pool / (SOURCE + TEMPORARY)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        source.save(temporary)
        files = [path for path in temporary.rglob("*") if path.is_file()]
        if not files:
            shutil.rmtree(temporary)
            return None
        for path in files:
            sync_file(path)
        kept = self._pool / SOURCE
        kept.mkdir(exist_ok=True)
        folder = kept / f"{_growth(self.manifest):05d}"
        publish_folder(temporary, folder)
        return f"{SOURCE}/{folder.name}"


def require_own_folder(pool: Path) -> None:
    """Check that the folder of a new pool contains nothing but a pool's own files.

    Raises
    ------
    InputError
        If the folder contains something else.
    """
    if (pool / MANIFEST).exists():
        return
    strangers = sorted(path.name for path in pool.iterdir() if path.name.removesuffix(TEMPORARY) not in _OURS)
    if strangers:
        raise InputError(f"{pool} is not a pool and not empty (it has {strangers[0]}): choose a new folder")


def _growth(manifest: Manifest) -> int:
    return int(manifest.source_folder.rpartition("/")[2]) + 1 if manifest.source_folder else 0


def _write_content(folder: Path, content: Content, layout: Layout) -> dict[str, Stamp]:
    lines = "".join(json.dumps(asdict(problem)) + "\n" for problem in content.problems)
    return {
        **layout.write(folder, content.X),
        PROBLEMS: write_bytes(folder / PROBLEMS, lines.encode()),
    }


def _write_ids(folder: Path, content: Content) -> dict[str, Stamp]:
    return {
        IDS: write_array(folder / IDS, content.ids),
        TRUTH: write_array(folder / TRUTH, content.truth),
    }
