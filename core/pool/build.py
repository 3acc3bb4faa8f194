"""Building of a pool from a source. Threads and interruptions do not affect the files.

Some items are held out for measuring accuracy. All other items that are not yet in the pool are divided into
segments, in the order of their ids, and each segment is divided into chunks. Threads compute the features of
chunks. Results are consumed in order, so the files depend neither on the number of threads nor on how often
the builder was killed. The first segment is small, so that labeling can start early. The size of each later
segment is `SEGMENT_GROWTH` times the number of items in all earlier segments, up to a limit. The pool
therefore grows faster than it is labeled and ends with few segments. Segments are smaller if the source
`is_slow`. The held-out items are processed after at least the same number of other items, but always before
the last segment. Labeling of a large pool can therefore start before its held-out items are ready.

A pool grows when it is built again from a source that has the same items, followed by further items.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast, get_args

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.features import bytes_an_item, compute, has_sparse_rows, n_features
from closecall.core.files.durable import disk_trouble
from closecall.core.numerics.blas import one_thread
from closecall.core.numerics.rows import Rows, joined, no_rows
from closecall.core.pool.build_progress import Progress, Reporter, lock_for_building, read_progress
from closecall.core.pool.build_size import ITEMS_A_FEATURE, FeatureType, require_room, require_storable
from closecall.core.pool.feature_files import load_codebook
from closecall.core.pool.manifest import BYTE, DENSE, MANIFEST, SPARSE, Manifest, Part
from closecall.core.pool.pool import Pool
from closecall.core.pool.publish import Content, Publisher, require_own_folder
from closecall.core.pool.source_continuation import plain_spec, require_continuation
from closecall.core.quantization.byte_rows import bytes_a_row
from closecall.core.quantization.codebook import Codebook, Encoded
from closecall.core.quantization.quantizer import n_clusters_for
from closecall.core.sources import Problem, Source

__all__ = ["Progress", "begin", "build", "cores", "read_progress"]

FIRST_SEGMENT_ROWS = 100
SEGMENT_GROWTH = 3
"""Items in the next segment, as a multiple of the items processed so far."""
SEGMENT_ROWS = 50_000
SEGMENT_BYTES = 1 << 27
"""Maximum size of a segment in bytes. A segment stays in memory while it is filled."""
SLOW_SEGMENT_ROWS, SLOW_SEGMENT_GROWTH = 2_000, 0.5
"""Maximum rows and growth of segments for a source that `is_slow`. An interrupted build then loses at most a
third of its work.
"""
BYTE_SEGMENT_ROWS = 2_000_000
"""Maximum rows of a segment of a byte pool."""
BYTE_SEGMENT_BYTES = 1 << 30
"""Maximum size of such a segment in bytes. It stays in memory, twice, while it is filled and sorted."""
CODEBOOK_ROWS, SLOW_CODEBOOK_ROWS = 1 << 18, 20_000
"""Maximum number of evenly spaced items to which the codebook of a byte pool is fitted. The features of these
items are computed twice, so there are fewer of them if the source `is_slow`.
"""
MOST_POOR = 0.01
"""Share of the rows of a segment that may be poorly described by their bytes; see `Encoded.is_poor`."""
ROWS_A_CLUSTER = 32
"""Minimum number of rows per cluster, on average, in the sample to which a codebook is fitted."""
CHUNK_ITEMS = 1_000
SLOW_CHUNK_ITEMS = 1
CHUNKS_A_SEGMENT = 8
"""Minimum number of chunks per segment, so that a small segment keeps several cores busy.

The division into chunks does not affect the features.
"""
ANNOUNCED_ITEMS = 256
"""Minimum number of items that are announced to the source in advance, so that a source across a network can
read them ahead.
"""
J = TypeVar("J")
R = TypeVar("R")


def build(
    source: Source,
    path: Path | str,
    *,
    dtype: FeatureType | None = None,
    progress: Callable[[Progress], None] | None = None,
    threads: int | None = None,
    stop: threading.Event | None = None,
    wait: bool = False,
) -> Pool:
    """Build the pool in the folder `path` from `source`, or resume or extend an existing pool.

    Parameters
    ----------
    source : Source
        Source of the items.
    path : Path or str
        Folder of the pool, created if it does not exist.
    dtype : {"float32", "float16", "byte"}, optional
        Type in which features are stored. By default, an existing pool's type, and float32 for a new pool.
    progress : callable
        Called in the calling thread with a `Progress` after every chunk. Other processes can use
        `read_progress`.
    threads : int, default: all cores
        Number of threads that compute features.
    stop : Event
        After it is set, the builder returns within about a second. Published items stay, and the next build
        continues after them.
    wait : bool
        Whether to wait while another process builds the pool, and then to complete the pool if necessary.

    Returns
    -------
    Pool
        The pool. It is complete unless the build was stopped.

    Raises
    ------
    InputError
        If the folder contains something else, a damaged pool, or a pool of another source; if another process
        is building the pool and `wait` is False; if the disk is full, becomes full or cannot be written; if
        no item can be read; or if `threads` or `dtype` is invalid. Published items stay intact, and the next
        build continues after them.
    """
    pool = Path(path)
    if threads is not None and threads < 1:
        raise InputError(f"threads must be at least 1, got {threads}")
    if dtype not in (None, *get_args(FeatureType)):
        raise InputError(f"dtype must be float32, float16 or byte, got {dtype!r}")
    _make_folder(pool)
    with disk_trouble(pool):
        lock = lock_for_building(pool, wait=wait, stop=stop)
    if lock is None:
        return Pool.open(pool)
    try:
        source = continuing(source, pool)
        publisher = _begin(source, pool, dtype)
        if not publisher.manifest.complete:
            _fill(source, pool, publisher, progress, threads or cores(), stop or threading.Event())
        return Pool.open(pool)
    finally:
        lock.release()


def begin(source: Source, path: Path | str, *, dtype: FeatureType | None = None) -> Pool:
    """Begin the pool in the folder `path`, without processing any items. `build` continues the pool.

    The list of the items is written, so that labels can be matched to items before the pool is built. For
    `dtype`, see `build`.

    Raises
    ------
    InputError
        As in `build`.
    """
    pool = Path(path)
    _make_folder(pool)
    with disk_trouble(pool):
        lock = lock_for_building(pool)
    try:
        _begin(continuing(source, pool), pool, dtype)
        return Pool.open(pool)
    finally:
        if lock is not None:
            lock.release()


def continuing(source: Source, pool: Path) -> Source:
    """Return the source with which `build` continues the pool in a folder, or `source` if there is no pool.

    The first items of the returned source are those of the pool. `Source.continuing` describes the errors.
    """
    if not (pool / MANIFEST).exists():
        return source
    manifest = Manifest.read(pool)
    return source.continuing(
        manifest.source, pool / manifest.source_folder if manifest.source_folder else None
    )


def _begin(source: Source, pool: Path, dtype: FeatureType | None) -> Publisher:
    """Return the publisher of a pool. First write the manifest if the pool is new or its source has grown."""
    if not (pool / MANIFEST).exists():
        require_own_folder(pool)
        if not len(source):
            raise InputError(f"{source.title} has no items: a pool needs at least one")
        require_storable(source, dtype)
        publisher = Publisher(pool, _manifest_for(source, dtype or "float32", n_features(source)))
        require_room(source, pool, publisher.manifest)
        publisher.begin(source)
        return publisher
    before = Pool.open(pool)
    manifest = Manifest.read(pool)
    if dtype not in (None, manifest.dtype):
        raise InputError(f"the pool {pool} has {manifest.dtype} features, got dtype {dtype}")
    if plain_spec(source) == manifest.source:
        publisher = Publisher(pool, manifest)
        with disk_trouble(pool):
            publisher.tidy()
        if not manifest.complete:
            require_room(source, pool, manifest)
        return publisher
    require_continuation(before, manifest, source)
    grown = replace(
        _manifest_for(source, manifest.dtype, manifest.n_features),
        source_folder=manifest.source_folder,
        codebook=manifest.codebook,
        held_out=manifest.held_out,
        segments=manifest.segments,
    )
    publisher = Publisher(pool, grown)
    require_room(source, pool, publisher.manifest)
    publisher.begin(source)
    return publisher


def _manifest_for(source: Source, dtype: str, n_features: int) -> Manifest:
    return Manifest(
        title=source.title,
        source=plain_spec(source),
        source_folder=None,
        classes=source.classes,
        items=len(source),
        n_held_out=len(source.held_out()),
        n_features=n_features,
        dtype=dtype,
        layout=BYTE if dtype == "byte" else SPARSE if has_sparse_rows(source) else DENSE,
    )


class _Chunk(NamedTuple):
    """Items whose features are computed together."""

    ids: NDArray[np.int64]
    is_held_out: bool = False


@dataclass(frozen=True, eq=False)
class _Task:
    """A part of the pool that remains to be built from the items `ids`. See `Part` for `stop`."""

    ids: NDArray[np.int64]
    stop: int
    most_at_once: int
    last: bool = False

    def chunks(self) -> Iterator[_Chunk]:
        size = max(1, min(self.most_at_once, -(-len(self.ids) // CHUNKS_A_SEGMENT)))
        for first in range(0, len(self.ids), size):
            yield _Chunk(self.ids[first : first + size], is_held_out=self.stop == 0)


def _tasks(source: Source, manifest: Manifest) -> Iterator[_Task]:
    """Yield the remaining tasks in order. They depend only on the source and on the published parts."""
    held_out = source.held_out()
    awaited = manifest.held_out is None and len(held_out) > 0
    at_once = SLOW_CHUNK_ITEMS if source.is_slow else CHUNK_ITEMS
    growth = SLOW_SEGMENT_GROWTH if source.is_slow else SEGMENT_GROWTH
    most = _most_rows(source, manifest)
    through = sum(part.rows + part.unreadable for part in manifest.segments)
    start, last = manifest.next_item, False
    while not last:
        size = min(most, max(FIRST_SEGMENT_ROWS, int(growth * through)))
        ids, stop = _not_held_out(start, size, len(source), held_out)
        last = stop == len(source)
        if awaited and (last or through >= len(held_out)):
            yield _Task(held_out, 0, at_once)
            awaited = False
        yield _Task(ids, stop, at_once, last)
        start = stop
        through += len(ids)


def _most_rows(source: Source, manifest: Manifest) -> int:
    """Return the maximum number of rows of a segment."""
    if manifest.layout == BYTE:
        most, each, size = BYTE_SEGMENT_ROWS, float(bytes_a_row(manifest.n_features)), BYTE_SEGMENT_BYTES
    else:
        most, each, size = SEGMENT_ROWS, bytes_an_item(source, manifest.dtype), SEGMENT_BYTES
    if source.is_slow:
        most = SLOW_SEGMENT_ROWS
    return max(1, min(most, int(size / each)))


def _not_held_out(
    start: int, n: int, n_items: int, held_out: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """Return the first n ids from `start` on that are not held out, and the next such id.

    If there is no next one, the second value is `n_items`.
    """
    found = [np.empty(0, dtype=np.int64)]
    while n > 0 and start < n_items:
        ids = np.arange(start, min(start + n, n_items), dtype=np.int64)
        start += len(ids)
        found.append(ids[~np.isin(ids, held_out)])
        n -= len(found[-1])
    while start < n_items and held_out[np.searchsorted(held_out, start) :][:1].tolist() == [start]:
        start += 1
    return np.concatenate(found), start


def _fill(
    source: Source,
    pool: Path,
    publisher: Publisher,
    progress: Callable[[Progress], None] | None,
    threads: int,
    stop: threading.Event,
) -> None:
    """Compute and publish the remaining tasks."""
    begun = publisher.manifest
    reporter = Reporter(pool, publisher.manifest, progress)
    message = ""
    executor = ThreadPoolExecutor(threads, thread_name_prefix="features")
    reading = ExitStack()
    try:
        announce = reading.enter_context(source.reading_ahead(stop))
        if publisher.manifest.layout == BYTE:
            reading.enter_context(one_thread())
        codebook = _codebook(source, pool, publisher, executor, announce, stop)
        if stop.is_set():
            return
        chunks = _announced((chunk for task in _tasks(source, begun) for chunk in task.chunks()), announce)
        compute = partial(_content, source, publisher.manifest, codebook)
        results = _in_order(executor, compute, chunks, ahead=2 * threads + 2)
        for task in _tasks(source, begun):
            gathered = _Gathered(task, publisher.manifest, codebook)
            for chunk in task.chunks():
                if stop.is_set():
                    return
                gathered.add(next(results))
                reporter.step(len(chunk.ids))
            _publish(source, publisher, gathered)
            del gathered  # free its memory before the next segment takes as much
            reporter.published(publisher.manifest)
    except InputError as error:
        if stop.is_set():  # this makes items that are read across a network raise an InputError
            return
        message = str(error)
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
        reading.close()
        with suppress(InputError):  # if the disk is full, the manifest still has all that is needed
            reporter.ended(publisher.manifest, message)


def _codebook(
    source: Source,
    pool: Path,
    publisher: Publisher,
    executor: ThreadPoolExecutor,
    announce: Callable[[NDArray[np.int64]], None],
    stop: threading.Event,
) -> Codebook | None:
    """Return the codebook of a byte pool, None for other pools. If there is none yet, fit and publish it."""
    manifest = publisher.manifest
    if manifest.layout != BYTE or manifest.codebook:
        return load_codebook(pool, manifest.codebook) if manifest.codebook else None
    most = SLOW_CODEBOOK_ROWS if source.is_slow else CODEBOOK_ROWS
    at_once = SLOW_CHUNK_ITEMS if source.is_slow else CHUNK_ITEMS
    spaced = np.linspace(0, len(source) - 1, min(len(source), most)).astype(np.int64)
    some = np.setdiff1d(spaced, source.held_out())
    chunks = _announced(_Task(some, len(source), at_once).chunks(), announce)
    plain = replace(manifest, layout=DENSE, dtype="float32")
    sample: list[Any] = [np.empty((0, manifest.n_features), dtype=np.float32)]
    compute = partial(_content, source, plain, None)
    for content in _in_order(executor, compute, chunks, ahead=2 * cores() + 2):
        if stop.is_set():
            return None
        sample.append(content.X)
    X = np.concatenate(sample)
    if len(X) < (least := ITEMS_A_FEATURE * manifest.n_features):
        raise InputError(
            f"byte features need at least {least:,} items that can be read, and in a sample of {len(some):,} "
            f"items, {source.title} has {len(X):,}: use float32 or float16"
        )
    n_clusters = min(n_clusters_for(len(source)), max(1, len(X) // ROWS_A_CLUSTER))
    publisher.publish_codebook(Codebook.fitted(X, n_clusters))
    return load_codebook(pool, cast(Part, publisher.manifest.codebook))


def _publish(source: Source, publisher: Publisher, gathered: _Gathered) -> None:
    task, content = gathered.task, gathered.content()
    if task.stop == 0:
        publisher.publish_held_out(content)
        return
    poor, n = int(content.X.is_poor.sum()) if isinstance(content.X, Encoded) else 0, len(content.ids)
    if poor > MOST_POOR * n:
        raise InputError(
            f"{poor:,} of the next {n:,} items of {source.title} differ so much from those to which the "
            f"pool's bytes were fitted that bytes can't describe them: build them in a new pool"
        )
    if task.last and not publisher.manifest.rows + len(content.ids):
        why = "".join(f" ({problem.name}: {problem.reason})" for problem in content.problems[:1])
        raise InputError(f"none of the {len(source):,} items of {source.title} can be read{why}")
    publisher.publish_segment(content, task.stop, last=task.last)


class _Gathered:
    """Collected results of one task. Dense rows and bytes are written to arrays for all rows."""

    def __init__(self, task: _Task, manifest: Manifest, codebook: Codebook | None) -> None:
        self.task = task
        self._sparse: list[Rows] | None = None
        self._bytes: Encoded | None = None
        if task.stop == 0:
            manifest = manifest.for_held_out
        if manifest.layout == SPARSE:
            self._sparse = [no_rows(manifest.n_features, sparse=True)]
        elif codebook is not None and manifest.layout == BYTE:
            self._bytes = Encoded.empty(len(task.ids), codebook)
        else:
            self._X = np.empty((len(task.ids), manifest.n_features), dtype=manifest.dtype)
        self._rows = 0
        self._ids: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
        self._truth: list[NDArray[np.int16]] = [np.empty(0, np.int16)]
        self._problems: list[Problem] = []

    def add(self, content: Content) -> None:
        if self._sparse is not None:
            self._sparse.append(content.X)
        elif self._bytes is not None:
            self._bytes.fill(self._rows, cast(Encoded, content.X))
        else:
            self._X[self._rows : self._rows + len(content.ids)] = content.X
        self._rows += len(content.ids)
        self._ids.append(content.ids)
        self._truth.append(content.truth)
        self._problems += content.problems

    def content(self) -> Content:
        X: Any
        if self._sparse is not None:
            X = joined(self._sparse)
        elif self._bytes is not None:
            X = self._bytes.cut(0, self._rows)
        else:
            X = self._X[: self._rows]
        return Content(X, np.concatenate(self._ids), np.concatenate(self._truth), self._problems)


def _content(source: Source, manifest: Manifest, codebook: Codebook | None, chunk: _Chunk) -> Content:
    """Compute the features of these items as they are stored. Return features, ids, classes and problems.

    Raises
    ------
    InputError
        If items can't be read because the source's data no longer exists.
    """
    X, kept, problems = compute(source, chunk.ids)
    if problems and (gone := source.vanished()):
        raise InputError(f"{gone} no longer exists; when it is back, the build can be continued")
    truth = source.truth(kept).astype(np.int16, copy=False)
    if codebook is not None and not chunk.is_held_out:
        return Content(codebook.encoded(X), kept, truth, problems)
    dtype = (manifest.for_held_out if chunk.is_held_out else manifest).dtype
    return Content(X.astype(dtype, copy=False), kept, truth, problems)


def _announced(chunks: Iterator[_Chunk], announce: Callable[[NDArray[np.int64]], None]) -> Iterator[_Chunk]:
    """Call `announce` with each chunk in advance, and yield the chunks in order.

    Before a chunk is yielded, at least `ANNOUNCED_ITEMS` later items, or all later items, are announced.
    """
    waiting: deque[_Chunk] = deque()
    ahead = 0
    for chunk in chunks:
        announce(chunk.ids)
        waiting.append(chunk)
        ahead += len(chunk.ids)
        while ahead - len(waiting[0].ids) >= ANNOUNCED_ITEMS:
            ahead -= len(waiting[0].ids)
            yield waiting.popleft()
    yield from waiting


def _in_order(
    executor: ThreadPoolExecutor, function: Callable[[J], R], jobs: Iterator[J], ahead: int
) -> Iterator[R]:
    """Yield function(job) for each job in order, with at most `ahead` results pending."""
    waiting: deque[Future[R]] = deque()
    for job in jobs:
        waiting.append(executor.submit(function, job))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _make_folder(pool: Path) -> None:
    try:
        pool.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InputError(f"{pool} is not a pool: a pool is a folder") from None
    except OSError as error:
        raise InputError(f"the folder {pool} cannot be made: {error.strerror or error}") from error


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
