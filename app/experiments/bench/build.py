"""Time and memory of building a pool."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import click
import numpy as np

from closecall.app.display.pool_output import bytes_in_words
from closecall.app.experiments.bench.memory import PeakMemory
from closecall.core.errors import InputError
from closecall.core.features.gist import Gist
from closecall.core.pool.build import Progress, build, estimate
from closecall.core.sources import Source, source_from

GIST_CHUNK = 1_000
GIST_CHUNKS = 10
GIST_THREADS = 2


def measure_build(word: str, out: Path | None, *, threads: int | None = None) -> dict[str, Any]:
    """Build a pool from a source, print the figures and return them.

    Parameters
    ----------
    word : str
        Name of the source, as for ``closecall pool build``.
    out : Path or None
        Folder that keeps the pool; None for a temporary folder.
    threads : int or None
        Threads that compute features; all cores by default.

    Returns
    -------
    dict
        ``items``, ``seconds`` (wall clock), ``images_per_second``, ``peak_memory_mb`` (anonymous memory of
        this process, in 10⁶ bytes; None if the system does not report it) and
        ``gist_images_per_second_two_threads``, the speed of the features alone with the images in memory;
        None if the source has its own features.

    Raises
    ------
    InputError
        If `out` is not empty: the time of a resumed build would be wrong.
    """
    if out is not None and out.exists() and any(out.iterdir()):
        raise InputError(f"--out must be a new or an empty folder, got {out}")
    source = source_from(word)
    with TemporaryDirectory(prefix="closecall-bench-") as scratch:
        result = _build(source, out or Path(scratch) / "pool", threads)
    result["gist_images_per_second_two_threads"] = gist_speed(source)
    speed = f"{result['images_per_second']:,.0f} images/s"
    click.echo(f"{result['items']:,} items in {result['seconds']:.1f} s: {speed}.")
    if result["peak_memory_mb"] is not None:
        click.echo(f"Peak anonymous memory: {result['peak_memory_mb']:,.0f} MB.")
    if result["gist_images_per_second_two_threads"] is not None:
        click.echo(f"GIST alone, two threads: {result['gist_images_per_second_two_threads']:,.0f} images/s.")
    return result


def _build(source: Source, path: Path, threads: int | None) -> dict[str, Any]:
    expected = estimate(source)
    click.echo(f"{source.title}: {expected.items:,} items, {bytes_in_words(expected.bytes)} on disk.")
    with click.progressbar(length=expected.items, show_pos=True) as bar, PeakMemory() as memory:

        def show(progress: Progress) -> None:
            bar.update(max(0, progress.done - bar.pos))

        start = perf_counter()
        build(source, path, threads=threads, progress=show)
        seconds = perf_counter() - start
    return {
        "items": len(source),
        "seconds": seconds,
        "images_per_second": len(source) / seconds,
        "peak_memory_mb": memory.mb,
    }


def gist_speed(source: Source) -> float | None:
    """Return the images per second of GIST alone, two threads, images in memory; None for other features."""
    if source.n_features is not None or source.extractor != "gist":
        return None
    items = np.arange(min(len(source), GIST_CHUNK * GIST_CHUNKS), dtype=np.int64)
    grey, _ = source.grey(items)
    gist = Gist()
    gist.transform(grey[:GIST_CHUNK])
    chunks = [grey[first : first + GIST_CHUNK] for first in range(0, len(grey), GIST_CHUNK)]
    with ThreadPoolExecutor(GIST_THREADS) as threads:
        start = perf_counter()
        for _ in threads.map(gist.transform, chunks):
            pass
        return len(grey) / (perf_counter() - start)
