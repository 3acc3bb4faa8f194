"""Measurement of the time and memory that building a pool takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import click
import numpy as np

from closecall.app.experiments.bench.bare_model import compare_with_model, show_comparison
from closecall.app.experiments.bench.experiment import Experiment, Row
from closecall.app.experiments.bench.memory import PeakMemory, anonymous_mb
from closecall.core.errors import InputError
from closecall.core.features.gist import Gist
from closecall.core.files.sizes import bytes_in_words
from closecall.core.pool.build import Progress, build
from closecall.core.pool.build_size import estimate
from closecall.core.sources import Source
from closecall.core.sources.embedded import Embedded

GIST_CHUNK = 1_000
GIST_CHUNKS = 10
GIST_THREADS = 2


@dataclass(frozen=True)
class Building(Experiment[Source]):
    """An experiment that builds a pool from a source.

    Parameters
    ----------
    out : Path or None
        Folder that keeps the pool; None for a temporary folder.
    n_threads : int or None
        Number of threads that compute features; one per core if None.
    """

    has_one_row = True

    out: Path | None
    n_threads: int | None

    def measure(self, source: Source) -> Iterator[list[Row]]:
        """Build the pool, and yield one row.

        The row has ``items``, ``seconds`` (wall-clock time), ``images_per_second``, ``peak_memory_mb`` (see
        `PeakMemory`), ``memory_growth_mb`` (the peak minus the memory before the build, when the model is
        loaded) and ``gist_images_per_second_two_threads`` (see `gist_speed`). If a model computes the
        features, the row also has the columns of `compare_with_model`.

        Raises
        ------
        InputError
            If the folder `out` is not empty, because a resumed build would take less time.
        """
        if self.out is not None and self.out.exists() and any(self.out.iterdir()):
            raise InputError(f"--out must be a new or an empty folder, got {self.out}")
        with TemporaryDirectory(prefix="closecall-bench-") as scratch:
            row = _build(source, self.out or Path(scratch) / "pool", self.n_threads)
        row["gist_images_per_second_two_threads"] = gist_speed(source)
        yield [row | compare_with_model(source, self.n_threads) if isinstance(source, Embedded) else row]

    def show(self, rows: Sequence[Row]) -> None:
        """Print the row."""
        (row,) = rows
        click.echo(
            f"{row['items']:,} items in {row['seconds']:.1f} s: {row['images_per_second']:,.0f} images/s."
        )
        if row["peak_memory_mb"] is not None:
            click.echo(
                f"Peak anonymous memory: {row['peak_memory_mb']:,.0f} MB, {row['memory_growth_mb']:,.0f} MB "
                "more than before the build."
            )
        if row["gist_images_per_second_two_threads"] is not None:
            click.echo(f"GIST alone, two threads: {row['gist_images_per_second_two_threads']:,.0f} images/s.")
        if "ratio_to_model" in row:
            show_comparison(row)


def _build(source: Source, path: Path, threads: int | None) -> Row:
    expected, before = estimate(source), anonymous_mb()
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
        "memory_growth_mb": None if memory.mb is None or before is None else memory.mb - before,
    }


def gist_speed(source: Source) -> float | None:
    """Measure how many images per second GIST processes with two threads, with the images in memory.

    Return None if the source has other features than GIST.
    """
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
