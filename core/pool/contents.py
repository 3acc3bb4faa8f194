"""The contents of a pool's folder, as one snapshot of the pool sees them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.numerics.rows import cut, no_rows
from closecall.core.pool.columns import IDS_COLUMN, TRUTH_COLUMN, column
from closecall.core.pool.feature_files import LAYOUTS, load_codebook
from closecall.core.pool.held_out import HeldOut
from closecall.core.pool.item_ids import Ids
from closecall.core.pool.manifest import BYTE, IDS, MANIFEST, SPARSE, Manifest
from closecall.core.pool.problems import load_problems
from closecall.core.pool.segment_rows import decoded
from closecall.core.pool.segments import Segment, check_part, load_part
from closecall.core.quantization.codebook import Codebook
from closecall.core.sources import Problem, Source, open_source

Identity = tuple[int, int, int]


@dataclass(frozen=True)
class SavedSource:
    """A pool's source as its manifest describes it.

    Parameters
    ----------
    spec : dict
        See `Source.spec`.
    folder : Path or None
        The folder with the source's own files, if it has any.
    """

    spec: dict[str, Any]
    folder: Path | None

    @cached_property
    def opened(self) -> Source:
        """The source; raises an InputError if it is missing or has changed."""
        return open_source(self.spec, self.folder)


@dataclass(frozen=True, eq=False)
class Contents:
    """Contents of a pool's folder, made by `Contents.read`.

    Parameters
    ----------
    path : Path
        The pool's folder.
    manifest : Manifest
    identity : tuple of int, or None
        What `is_current` recognizes the manifest's file by. None for a snapshot of the first rows.
    segments : tuple of Segment
        The segments that the manifest names, mapped into memory. `prefix` may have shortened the last one.
    ids : array of shape (n_rows,), int64
        Item id of each row, ascending; read-only.
    source : SavedSource
        Contents with the same source share one object.
    codebook : Codebook or None
        The codebook of a byte pool, once it is published.
    truth_column : array of shape (n_rows,), int16, or None
        The classes of a byte pool's rows, in one file.
    """

    path: Path
    manifest: Manifest
    identity: Identity | None
    segments: tuple[Segment, ...]
    ids: Ids
    source: SavedSource
    codebook: Codebook | None
    truth_column: NDArray[np.int16] | None

    @classmethod
    def read(cls, path: Path, version: int | None = None, earlier: Self | None = None) -> Self:
        """Read the folder; see `Pool.open` for `version` and the errors.

        What `earlier` contents have opened already is shared.
        """
        identity = _identity(path)
        manifest = Manifest.read(path)
        if version is not None:
            if not 0 <= version <= len(manifest.segments):
                raise InputError(
                    f"version must be from 0 to {len(manifest.segments)} in the pool {path}, got {version}"
                )
            if version < len(manifest.segments):
                manifest = replace(manifest, complete=False, segments=manifest.segments[:version])
        segments = earlier._continued_by(manifest) if earlier else []
        codebook = earlier.codebook if earlier else None
        if codebook is None and manifest.codebook:
            codebook = load_codebook(path, manifest.codebook)
        first_row = sum(map(len, segments))
        for part in manifest.segments[len(segments) :]:
            segments.append(load_part(path, part, first_row, manifest, codebook))
            first_row += part.rows
        if manifest.held_out:
            check_part(path, manifest.held_out)
        truth = None
        if manifest.layout == BYTE:
            ids, truth = column(path, IDS_COLUMN, first_row), column(path, TRUTH_COLUMN, first_row)
        else:
            ids = np.concatenate([np.empty(0, np.int64), *(segment.ids for segment in segments)])
        ids.flags.writeable = False
        own = SavedSource(manifest.source, path / manifest.source_folder if manifest.source_folder else None)
        source = earlier.source if earlier is not None and earlier.source == own else own
        with_ids = tuple(_with_ids_of(ids, segment) for segment in segments)
        return cls(path, manifest, identity, with_ids, ids, source, codebook, truth)

    @property
    def is_current(self) -> bool:
        """Whether the folder has not changed since it was read. This takes microseconds."""
        return self.identity is not None and _identity(self.path) == self.identity

    def prefix(self, n_rows: int) -> Self:
        """Return the contents with only the first `n_rows` rows, fewer than there are."""
        segments = []
        for segment in self.segments:
            n = min(n_rows - segment.first_row, len(segment))
            if n <= 0 and len(segment):
                break
            segments.append(
                replace(segment, X=cut(segment.X, 0, n), ids=segment.ids[:n], truth=segment.truth[:n])
            )
        named = self.manifest.segments[: len(segments)]
        return replace(
            self,
            manifest=replace(self.manifest, complete=False, segments=named),
            identity=None,
            segments=tuple(segments),
            ids=self.ids[:n_rows],
            truth_column=None if self.truth_column is None else self.truth_column[:n_rows],
        )

    @cached_property
    def truth(self) -> NDArray[np.int16]:
        """Index of the class of each row, of shape (n_rows,); −1 if unknown."""
        if self.truth_column is not None:
            return self.truth_column
        return np.concatenate([np.empty(0, np.int16), *(segment.truth for segment in self.segments)])

    @cached_property
    def held_out(self) -> HeldOut:
        """See `Pool.held_out`."""
        part = self.manifest.held_out
        if part is None:
            nothing = no_rows(self.manifest.n_features, sparse=self.manifest.layout == SPARSE)
            return HeldOut(np.empty(0, np.int64), nothing, np.empty(0, np.int16))
        segment = load_part(self.path, part, 0, self.manifest.for_held_out)
        return HeldOut(segment.ids, decoded(segment.X), segment.truth)

    @property
    def feature_bytes(self) -> int:
        """See `Pool.feature_bytes`."""
        names = LAYOUTS[self.manifest.layout].files
        return sum(part.files[name].bytes for part in self.manifest.segments for name in names)

    @cached_property
    def digest(self) -> str:
        """See `Pool.digest`."""
        digest = hashlib.blake2b(digest_size=8)
        ids = IDS_COLUMN if self.manifest.layout == BYTE else IDS
        names = (*LAYOUTS[self.manifest.layout].files, ids)
        for part, segment in zip(self.manifest.segments, self.segments, strict=True):
            if not len(segment):  # snapshots with the same rows may differ in empty segments
                continue
            stamps = [part.files[name].checksum for name in names]
            digest.update(f"{stamps} {len(segment)}\n".encode())
        return digest.hexdigest()

    def problems(self) -> list[Problem]:
        """See `Pool.problems`."""
        found = [problem for part in self.manifest.parts for problem in load_problems(self.path, part)]
        return sorted(found, key=lambda problem: problem.item)

    def check(self, *, deep: bool) -> None:
        """See `Pool.check`."""
        for part in (self.manifest.codebook, self.manifest.held_out):
            if part is not None:
                check_part(self.path, part, deep=deep)
        first_row = 0
        for part in self.manifest.segments:
            check_part(self.path, part, first_row, deep=deep)
            first_row += part.rows

    def _continued_by(self, manifest: Manifest) -> list[Segment]:
        """Check that `manifest` begins with these segments. Return those not cut by `prefix`."""
        parts = self.manifest.segments
        if parts != manifest.segments[: len(parts)]:
            raise InputError(f"the pool {self.path} was replaced by another pool: open it again")
        both = zip(parts, self.segments, strict=True)
        return [segment for part, segment in both if len(segment) == part.rows]


def _with_ids_of(ids: Ids, segment: Segment) -> Segment:
    """Return the segment with a view of the pool's `ids` instead of a copy."""
    return replace(segment, ids=ids[segment.first_row : segment.first_row + len(segment)])


def _identity(path: Path) -> Identity | None:
    """Return a value that changes whenever the manifest is replaced, or None if there is no manifest."""
    try:
        stat = (path / MANIFEST).stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
