"""The features of the items of a pool, computed chunk by chunk in threads, and collected part by part."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.features import compute
from closecall.core.numerics.rows import Rows, joined, no_rows
from closecall.core.pool.build_plan import Chunk, Task
from closecall.core.pool.manifest import BYTE, SPARSE, Manifest
from closecall.core.pool.publish import Content
from closecall.core.quantization.codebook import Codebook, Encoded
from closecall.core.sources import Problem, Source

ANNOUNCED_ITEMS = 256
"""Minimum number of items that are announced to the source in advance, so that a source across a network can
read them ahead.
"""

RETRIES = 3
"""Number of times that a chunk is computed again because items have become readable."""

J = TypeVar("J")
R = TypeVar("R")


class FeatureThreads:
    """Computes the content of chunks in threads, and announces the items to the source in advance.

    Parameters
    ----------
    source : Source
    executor : ThreadPoolExecutor
    threads : int
        Number of threads of the executor.
    announce : callable
        Called with the ids of each chunk before its features are computed; see `Source.reading_ahead`.
    """

    def __init__(
        self,
        source: Source,
        executor: ThreadPoolExecutor,
        threads: int,
        announce: Callable[[NDArray[np.int64]], None],
    ) -> None:
        self.source = source
        self._executor = executor
        self._ahead = 2 * threads + 2
        self._announce = announce

    def contents(
        self, chunks: Iterator[Chunk], manifest: Manifest, codebook: Codebook | None
    ) -> Iterator[Content]:
        """Yield the content of each chunk, in order; see `content_of`."""
        compute = partial(content_of, self.source, manifest, codebook)
        return _in_order(self._executor, compute, _announced(chunks, self._announce), self._ahead)


class Gathered:
    """Collected results of one task. Dense rows and bytes are written to arrays for all rows."""

    def __init__(self, task: Task, manifest: Manifest, codebook: Codebook | None) -> None:
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
        """Add the next chunk."""
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
        """Return the content of all chunks added."""
        X: Any
        if self._sparse is not None:
            X = joined(self._sparse)
        elif self._bytes is not None:
            X = self._bytes.cut(0, self._rows)
        else:
            X = self._X[: self._rows]
        return Content(X, np.concatenate(self._ids), np.concatenate(self._truth), self._problems)


def content_of(source: Source, manifest: Manifest, codebook: Codebook | None, chunk: Chunk) -> Content:
    """Compute the features of these items as they are stored. Return features, ids, classes and problems.

    Items that can't be read are read a second time, because a drive may have been away for a moment.

    Raises
    ------
    InputError
        If items can't be read because the source's data no longer exists, or because of a failure that may
        pass.
    """
    X, kept, problems = compute(source, chunk.ids)
    for _ in range(RETRIES):
        if not problems:
            break
        _, readable, _ = compute(source, np.array([problem.item for problem in problems]))
        if gone := source.vanished():
            raise InputError(
                f"{gone} no longer exists or is empty; when it is back, the build can be continued"
            )
        if not len(readable):
            break
        X, kept, problems = compute(source, chunk.ids)
    truth = source.truth(kept).astype(np.int16, copy=False)
    if codebook is not None and not chunk.is_held_out:
        return Content(codebook.encoded(X), kept, truth, problems)
    dtype = (manifest.for_held_out if chunk.is_held_out else manifest).dtype
    return Content(X.astype(dtype, copy=False), kept, truth, problems)


def _announced(chunks: Iterator[Chunk], announce: Callable[[NDArray[np.int64]], None]) -> Iterator[Chunk]:
    """Call `announce` with each chunk in advance, and yield the chunks in order.

    Before a chunk is yielded, at least `ANNOUNCED_ITEMS` later items, or all later items, are announced.
    """
    waiting: deque[Chunk] = deque()
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
