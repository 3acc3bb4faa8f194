"""Comparison of a build with its image model alone.

The model alone gets images that were decoded, resized and normalized in advance. As in a build, each run gets
one image, and each thread makes runs of its own. A build and the model alone are measured in turn, several
times, so that both suffer alike if the machine becomes slower. Processor time is measured, too, because other
programs affect it less.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from closecall.app.display.phrases import counted
from closecall.app.experiments.bench.experiment import Row
from closecall.core.onnx.runtime import open_session
from closecall.core.pool.build import Progress, build, cores
from closecall.core.sources.base import UnreadableImageError
from closecall.core.sources.embedded import Embedded

ROUNDS = 5
ROUND_SECONDS = 5.0
"""In each round, seconds of a build, and then seconds of the model alone."""

PREPARED = 64
"""Number of images that are prepared for the model alone, which runs on them again and again."""


def compare_with_model(source: Embedded, n_threads: int | None) -> Row:
    """Build the beginning of a pool, and run the model alone, in turn.

    At least one image of the source must be readable.

    Returns
    -------
    Row
        ``threads``; of each round, the lists ``build_rounds`` and ``model_rounds``, in images per second, and
        ``build_cpu_ms`` and ``model_cpu_ms``, the processor time of an image; the medians over the rounds
        ``model_images_per_second``, ``ratio_to_model`` (of images per second) and ``cpu_ratio_to_model`` (of
        images per processor time); and ``ratio_to_model_low`` and ``ratio_to_model_high``, the smallest and
        the largest ratio of images per second.
    """
    n_threads = n_threads or cores()
    inputs = _prepared(source)
    built: list[_Speed] = []
    alone: list[_Speed] = []
    with click.progressbar(range(ROUNDS), label="Comparing with the model alone") as rounds:
        for _ in rounds:
            with TemporaryDirectory(prefix="closecall-bench-") as scratch:
                built.append(_speed_of_build(source, Path(scratch) / "pool", n_threads))
            alone.append(_speed_alone(source, inputs, n_threads))
    (build_rounds, build_cpu), (model_rounds, model_cpu) = (
        zip(*speeds, strict=True) for speeds in (built, alone)
    )
    ratios = np.divide(build_rounds, model_rounds)
    return {
        "threads": n_threads,
        "build_rounds": build_rounds,
        "model_rounds": model_rounds,
        "build_cpu_ms": build_cpu,
        "model_cpu_ms": model_cpu,
        "model_images_per_second": float(np.median(model_rounds)),
        "ratio_to_model": float(np.median(ratios)),
        "cpu_ratio_to_model": float(np.median(np.divide(model_cpu, build_cpu))),
        "ratio_to_model_low": float(ratios.min()),
        "ratio_to_model_high": float(ratios.max()),
    }


def show_comparison(row: Row) -> None:
    """Print the columns of `compare_with_model`."""
    threads = counted(row["threads"], "thread")
    click.echo(f"The model alone, {threads}: {row['model_images_per_second']:,.0f} images/s.")
    click.echo(
        f"A build has {row['ratio_to_model']:.2f} of this speed: the median of {len(row['build_rounds'])} "
        f"rounds, from {row['ratio_to_model_low']:.2f} to {row['ratio_to_model_high']:.2f}."
    )
    click.echo(
        f"Processor time per image: {np.median(row['build_cpu_ms']):.1f} ms in a build, "
        f"{np.median(row['model_cpu_ms']):.1f} ms of the model alone (ratio {row['cpu_ratio_to_model']:.2f})."
    )


def _prepared(source: Embedded) -> list[NDArray[Any]]:
    """Return the model's inputs for the first readable images of the source."""
    inputs: list[NDArray[Any]] = []
    for item in range(len(source)):
        try:
            resized = source.resized_image(item, source.model.resizing)
        except UnreadableImageError:
            continue
        inputs.append(np.ascontiguousarray(source.model.prepared(resized)))
        if len(inputs) == PREPARED:
            break
    return inputs


class _Speed(NamedTuple):
    per_second: float
    cpu_ms: float

    @classmethod
    def of(cls, n: int, seconds: float, cpu_seconds: float) -> _Speed:
        """Return the speed from the times that `n` images took."""
        return cls(n / seconds, 1000 * cpu_seconds / n)


def _speed_of_build(source: Embedded, path: Path, n_threads: int) -> _Speed:
    """Build a pool for `ROUND_SECONDS`, or until it is complete, and return the speed."""
    stop = threading.Event()
    steps: list[tuple[float, float, int]] = []

    def note(progress: Progress) -> None:
        if progress.state == "stopped":
            return
        steps.append((perf_counter(), process_time(), progress.done))
        if steps[-1][0] - steps[0][0] >= ROUND_SECONDS:
            stop.set()

    build(source, path, threads=n_threads, progress=note, stop=stop)
    (began, cpu_began, _), (ended, cpu_ended, done) = steps[0], steps[-1]
    return _Speed.of(done, ended - began, cpu_ended - cpu_began)


def _speed_alone(source: Embedded, inputs: Sequence[NDArray[Any]], n_threads: int) -> _Speed:
    """Run the model on prepared inputs for `ROUND_SECONDS`, and return the speed."""
    session = open_session(source.model.file, source.model.provider)
    name, output = session.get_inputs()[0].name, source.model.output.name
    began, cpu_began = perf_counter(), process_time()

    def runs(first: int) -> int:
        n = 0
        while perf_counter() - began < ROUND_SECONDS or n == 0:
            session.run([output], {name: inputs[(first + n) % len(inputs)]})
            n += 1
        return n

    with ThreadPoolExecutor(n_threads) as threads:
        n_runs = sum(threads.map(runs, range(n_threads)))
    return _Speed.of(n_runs, perf_counter() - began, process_time() - cpu_began)
