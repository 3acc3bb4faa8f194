"""The map of a pool on disk: one position in the plane per row, in the subfolder ``map`` of the pool.

    map/layout      the layout of a sample, with the digest of the rows from which the sample was drawn
    map/00000000    the positions of the first rows, with the digest of these rows and of the layout
    map/00065536    the positions of the next rows, and so on
    map/earlier/…   the positions on each earlier map, in a folder named by the digest of its layout

Each of these folders is written completely or not at all, by `core.selection.files`. A build that was killed
continues after the last folder, and its result is bit for bit the same as without the interruption. When a
pool grows, its old rows keep their positions. The map is made again with a new layout only when the pool has
more than `GROWTH` times as many rows as when the sample was drawn. The positions on earlier maps are kept,
because logs refer to them. Together, the earlier positions take less than twice the space of the newest ones.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.files.durable import disk_trouble
from closecall.core.map.layout import Layout, lay_out
from closecall.core.numerics.randomness import seed_for
from closecall.core.numerics.rows import Rows
from closecall.core.pool.pool import Pool
from closecall.core.pool.segment_rows import COPIED_ROWS
from closecall.core.selection.files import read_index, remove_leftovers, write_index
from closecall.core.similar.files import digest_of

FOLDER = "map"

SAMPLE = 10_000
"""Number of rows that UMAP lays out.

With this number, the map of 230,000 digits has a trustworthiness of 0.949, measured on 10,000 digits with 15
neighbours.
"""

LEAST = 16
"""Minimum number of rows of a pool with a map."""

GROWTH = 2
"""Factor by which a pool may grow before its map is made again."""

BLOCK = 65_536
"""Number of rows per folder of positions."""

FORMAT = 1
"""Version of the files. A map of another version is made again."""

Floats32 = NDArray[np.float32]
Progress = Callable[[int, int], None]

_LAYOUT, _LOCK, _EARLIER = "layout", "build.lock", "earlier"
_CURE = "make the map again with closecall pool map"


@dataclass(frozen=True, eq=False)
class PoolMap:
    """The positions of a pool's rows on its map.

    Parameters
    ----------
    positions : array of shape (n_rows, 2), float32
        The positions of the pool's first rows. These are all rows, unless the pool has grown or the map is
        still being built.
    sample : array of shape (n_sample,), int64, ascending
        The rows that UMAP laid out.
    digest : str
        Hexadecimal digits that identify the layout.
    """

    positions: Floats32
    sample: NDArray[np.int64]
    digest: str

    @classmethod
    def open(cls, pool: Pool, digest: str | None = None) -> PoolMap:
        """Open the map of a pool.

        Parameters
        ----------
        pool : Pool
            The pool, complete or not.
        digest : str or None
            Digest of the layout of the map, which may be an earlier map. None means the newest map.

        Raises
        ------
        InputError
            If there is no map, or it is damaged or belongs to another pool.
        """
        folder = pool.path / FOLDER
        if digest is not None and (earlier := _earlier(folder, digest)).is_dir():
            try:
                header, arrays = read_index(earlier)
            except InputError as error:
                raise InputError("this earlier map of the pool can't be read") from error
            _require_rows(pool, header["rows"], header["pool"])
            return cls(np.array(arrays["positions"]), np.array(arrays["sample"]), digest)
        if not has_map(pool.path):
            raise InputError("the pool has no map: make one with closecall pool map")
        saved = _SavedLayout.read(folder, pool)
        if digest not in (None, saved.digest):
            raise InputError(f"the pool no longer has its map {digest!r:.40}")
        return saved.map(_parts(folder, saved, pool))


def has_map(pool_path: Path) -> bool:
    """Return whether the pool in a folder has a map, even an incomplete one. No file is opened."""
    return (pool_path / FOLDER / _LAYOUT).is_dir()


def build_map(pool: Pool, progress: Progress = lambda _done, _total: None, *, seed: int = 0) -> PoolMap:
    """Build the map of a complete pool, or continue a map if its build was interrupted or the pool has grown.

    Parameters
    ----------
    pool : Pool
        The pool. The map is written to its folder.
    progress : callable
        Called with the number of rows placed so far and the total number of rows. If `progress` raises an
        exception, the build ends, and the next build continues after these rows.
    seed : int
        Seed of the sample and of UMAP.

    Raises
    ------
    InputError
        If the pool is incomplete or has fewer than `LEAST` rows, if UMAP is not installed, if another process
        is building the map, or if the folder cannot be written.
    """
    if not pool.complete:
        raise InputError(f"the pool {pool.path} is incomplete: finish it with closecall pool build")
    if len(pool) < LEAST:
        raise InputError(f"a map needs at least {LEAST} items, and the pool {pool.path} has {len(pool)}")
    folder = pool.path / FOLDER
    with _lock(folder):
        remove_leftovers(folder)
        remove_leftovers(folder / _EARLIER)
        progress(0, len(pool))
        saved, parts = _kept(folder, pool) or (_laid_out(folder, pool, seed), [])
        done = sum(map(len, parts))
        while done < len(pool):
            progress(done, len(pool))
            end = min(done + BLOCK, len(pool))
            placed = saved.layout.place(_blocks(pool, done, end))
            header = {"layout": saved.digest, "pool": pool.prefix(end).digest}
            write_index(_part(folder, done), header, {"positions": placed})
            parts.append(placed)
            done = end
        progress(done, len(pool))
        return saved.map(parts)


@dataclass(frozen=True, eq=False)
class _SavedLayout:
    """A saved layout, the rows of its sample, and the number of rows from which the sample was drawn."""

    layout: Layout
    sample: NDArray[np.int64]
    drawn_from: int

    @cached_property
    def digest(self) -> str:
        return digest_of(self.layout.arrays())

    @classmethod
    def read(cls, folder: Path, pool: Pool) -> _SavedLayout:
        header, arrays = _read(folder / _LAYOUT)
        if header.get("map") != FORMAT:
            raise InputError(f"the pool's map was made by another version: {_CURE}")
        _require_rows(pool, header["rows"], header["pool"])
        copied = {name: np.array(array) for name, array in arrays.items()}
        return cls(sample=copied.pop("rows"), drawn_from=header["rows"], layout=Layout(**copied))

    def map(self, parts: list[Floats32]) -> PoolMap:
        positions = np.concatenate([np.empty((0, 2), np.float32), *parts])
        return PoolMap(positions, self.sample, self.digest)


def _parts(folder: Path, saved: _SavedLayout, pool: Pool) -> list[Floats32]:
    """Return the saved positions that belong to this layout, one array per folder.

    Raises
    ------
    InputError
        If a folder is damaged, or belongs to another pool.
    """
    parts: list[Floats32] = []
    done, digest = 0, None
    while (path := _part(folder, done)).is_dir():
        header, arrays = _read(path)
        end = done + len(arrays["positions"])
        if header["layout"] != saved.digest or end > len(pool):  # of an old layout, or of later rows
            break
        parts.append(np.array(arrays["positions"]))
        done, digest = end, header["pool"]
    if digest is not None:  # the last digest covers all rows so far
        _require_rows(pool, done, digest)
    return parts


def _kept(folder: Path, pool: Pool) -> tuple[_SavedLayout, list[Floats32]] | None:
    """Return the saved layout and positions, or None if a new layout is needed.

    A new layout is needed if no layout is saved, if files are damaged or belong to another pool, or if the
    pool has outgrown the saved layout.
    """
    try:
        saved = _SavedLayout.read(folder, pool)
        parts = _parts(folder, saved, pool)
    except InputError:
        return None
    return (saved, parts) if len(pool) <= GROWTH * saved.drawn_from else None


def _laid_out(folder: Path, pool: Pool, seed: int) -> _SavedLayout:
    """Choose rows at random, compute their positions by UMAP, and save them as the new layout.

    If there is an earlier map, its positions are kept in the subfolder of earlier maps (`_put_aside`).
    """
    rng = np.random.default_rng(seed_for("map", seed))
    sample = np.sort(rng.choice(len(pool), min(SAMPLE, len(pool)), replace=False)).astype(np.int64)
    saved = _SavedLayout(lay_out(pool.rows(sample), seed=seed), sample, len(pool))
    _put_aside(folder, pool, saved.digest)
    with disk_trouble(folder):
        for path in folder.glob("[0-9]*"):
            shutil.rmtree(path)
    header = {"map": FORMAT, "rows": len(pool), "pool": pool.digest}
    write_index(folder / _LAYOUT, header, {**saved.layout.arrays(), "rows": sample})
    return saved


def _put_aside(folder: Path, pool: Pool, following: str) -> None:
    """Keep the positions on the present map, before a map with the layout `following` replaces it.

    Nothing is kept if the present map is damaged or has the same layout.
    """
    try:
        earlier = PoolMap.open(pool)
    except InputError:  # nothing to keep
        return
    n_rows = len(earlier.positions)
    kept = _earlier(folder, earlier.digest)  # if it is there, a build was killed while it deleted this map
    if n_rows and earlier.digest != following and not kept.is_dir():
        header = {"rows": n_rows, "pool": pool.prefix(n_rows).digest}
        write_index(kept, header, {"positions": earlier.positions, "sample": earlier.sample})


def _earlier(folder: Path, digest: str) -> Path:
    """Return the folder of an earlier map. If `digest` is not a digest, this folder never exists."""
    return folder / _EARLIER / (digest if re.fullmatch("[0-9a-f]+", digest) else "none")


def _blocks(pool: Pool, first: int, end: int) -> Iterator[Rows]:
    for start in range(first, end, COPIED_ROWS):
        yield pool.rows(np.arange(start, min(start + COPIED_ROWS, end)))


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a folder of the map. The message of an error names no path, because annotators may see it."""
    try:
        return read_index(folder)
    except InputError as error:
        raise InputError(f"the pool's map can't be read: {_CURE}") from error


def _require_rows(pool: Pool, n_rows: int, digest: str) -> None:
    """Raise InputError unless the pool's first `n_rows` rows have this digest."""
    if n_rows > len(pool) or pool.prefix(n_rows).digest != digest:
        raise InputError(f"the pool's map was made for another pool: {_CURE}")


def _part(folder: Path, first: int) -> Path:
    return folder / f"{first:08d}"


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Prevent other processes from building the map. If one is already building it, raise InputError."""
    with disk_trouble(folder):
        folder.mkdir(exist_ok=True)
        lock = FileLock(folder / _LOCK)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise InputError(
                f"the map of {folder.parent} is being built by another process: wait for it, or stop it"
            ) from None
    try:
        yield
    finally:
        lock.release()
