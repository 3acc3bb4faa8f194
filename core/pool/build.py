"""Building of a pool from a source. Threads and interruptions do not affect the files.

Some items are held out for measuring accuracy. All other items that are not yet in the pool are divided into
segments, in the order of their ids, and each segment is divided into chunks. Threads compute the features of
chunks. Results are consumed in order, so the files depend neither on the number of threads nor on how often
the builder was killed. The first segment is small, so that labeling can start early. The size of each later
segment is `SEGMENT_GROWTH` times the number of items in all earlier segments, up to a limit (`build_plan`).
The pool therefore grows faster than it is labeled and ends with few segments. Segments are smaller if the
source `is_slow`. The held-out items are processed after at least the same number of other items, but always
before the last segment. Labeling of a large pool can therefore start before its held-out items are ready.

A pool grows when it is built again from a source that has the same items, followed by further items.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from closecall.core.errors import InputError
from closecall.core.features import has_sparse_rows, n_features
from closecall.core.files.durable import disk_trouble
from closecall.core.numerics.blas import one_thread
from closecall.core.pool.build_features import FeatureThreads, Gathered
from closecall.core.pool.build_plan import codebook_sample, tasks
from closecall.core.pool.build_progress import Progress, Reporter, lock_for_building, read_progress
from closecall.core.pool.build_size import ITEMS_A_FEATURE, FeatureType, require_room, require_storable
from closecall.core.pool.feature_files import load_codebook
from closecall.core.pool.manifest import BYTE, DENSE, MANIFEST, SPARSE, Manifest, Part
from closecall.core.pool.pool import Pool
from closecall.core.pool.publish import Publisher, require_own_folder
from closecall.core.pool.source_continuation import plain_spec, require_continuation
from closecall.core.quantization.codebook import Codebook, Encoded
from closecall.core.quantization.quantizer import n_clusters_for
from closecall.core.sources import Source

__all__ = ["Progress", "begin", "build", "cores", "read_progress"]

MOST_POOR = 0.01
"""Share of the rows of a segment that may be poorly described by their bytes; see `Encoded.is_poor`."""
FEW_POOR = 10
"""Number of such rows that any segment may have: a few outliers harm only themselves."""
ROWS_A_CLUSTER = 32
"""Minimum number of rows per cluster, on average, in the sample to which a codebook is fitted."""


class _OtherKindError(InputError):
    """Error for items that the bytes of a pool can't describe."""


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
        no item can be read; if the bytes of a pool can't describe the next items; or if `threads` or `dtype`
        is invalid. Published items stay intact, and the next build continues after them. A complete pool
        whose first new items are refused stays complete.
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
        former = Manifest.read(pool) if (pool / MANIFEST).exists() else None
        publisher = _begin(source, pool, dtype)
        try:
            if not publisher.manifest.complete:
                _fill(source, pool, publisher, progress, threads or cores(), stop or threading.Event())
        except _OtherKindError:
            if former is not None and former.complete and former.segments == publisher.manifest.segments:
                publisher.withdraw(former)
            raise
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
        features = FeatureThreads(source, executor, threads, announce)
        codebook = _codebook(features, pool, publisher, stop)
        if stop.is_set():
            return
        chunks = (chunk for task in tasks(source, begun) for chunk in task.chunks())
        results = features.contents(chunks, publisher.manifest, codebook)
        for task in tasks(source, begun):
            gathered = Gathered(task, publisher.manifest, codebook)
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
    features: FeatureThreads, pool: Path, publisher: Publisher, stop: threading.Event
) -> Codebook | None:
    """Return the codebook of a byte pool, None for other pools. If there is none yet, fit and publish it."""
    manifest, source = publisher.manifest, features.source
    if manifest.layout != BYTE or manifest.codebook:
        return load_codebook(pool, manifest.codebook) if manifest.codebook else None
    task = codebook_sample(source)
    sample: list[Any] = [np.empty((0, manifest.n_features), dtype=np.float32)]
    for content in features.contents(task.chunks(), manifest.for_held_out, None):
        if stop.is_set():
            return None
        sample.append(content.X)
    X = np.concatenate(sample)
    if len(X) < (least := ITEMS_A_FEATURE * manifest.n_features):
        raise InputError(
            f"byte features need at least {least:,} items that can be read, and in a sample of "
            f"{len(task.ids):,} items, {source.title} has {len(X):,}: use float32 or float16"
        )
    n_clusters = min(n_clusters_for(len(source)), max(1, len(X) // ROWS_A_CLUSTER))
    publisher.publish_codebook(Codebook.fitted(X, n_clusters))
    return load_codebook(pool, cast(Part, publisher.manifest.codebook))


def _publish(source: Source, publisher: Publisher, gathered: Gathered) -> None:
    task, content = gathered.task, gathered.content()
    if task.stop == 0:
        publisher.publish_held_out(content)
        return
    poor, n = int(content.X.is_poor.sum()) if isinstance(content.X, Encoded) else 0, len(content.ids)
    if poor > max(FEW_POOR, MOST_POOR * n):
        raise _OtherKindError(
            f"{poor:,} of the next {n:,} items of {source.title} differ so much from those to which the "
            f"pool's bytes were fitted that bytes can't describe them: build them in a new pool"
        )
    if task.last and not publisher.manifest.rows + len(content.ids):
        why = "".join(f" ({problem.name}: {problem.reason})" for problem in content.problems[:1])
        raise InputError(f"none of the {len(source):,} items of {source.title} can be read{why}")
    publisher.publish_segment(content, task.stop, last=task.last)


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
