"""Pools on the command line: the progress of a build, and facts about a pool."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import click
import numpy as np

from closecall.app.display.phrases import counted, some
from closecall.core.duplicates import unrepeated_held_out
from closecall.core.files.sizes import bytes_in_words
from closecall.core.pool.build import Progress, build, continuing
from closecall.core.pool.build_size import FeatureType, estimate
from closecall.core.pool.pool import Pool
from closecall.core.similar import ByAngle, ExactSearch
from closecall.core.similar.description import Description
from closecall.core.sources.base import Source

PROBLEMS_SHOWN = 10


def show_build(
    source: Source,
    out: Path,
    *,
    threads: int | None,
    dtype: FeatureType | None = None,
    quiet: bool = False,
    wait: bool = False,
) -> None:
    """Build or resume the pool `out`, with a progress bar; see `build`.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl+C or SIGTERM stopped the build. The items built so far are kept.
    """
    if quiet:
        stop = _stop_at_signals()
        _require_complete(build(source, out, threads=threads, dtype=dtype, stop=stop, wait=wait))
        return
    source = continuing(source, out)
    show_source(source, dtype=dtype)
    show_progress(source, out, threads=threads, dtype=dtype, wait=wait)


def show_progress(
    source: Source,
    out: Path,
    *,
    threads: int | None = None,
    dtype: FeatureType | None = None,
    wait: bool = False,
) -> None:
    """Build or resume the pool `out`, with a progress bar but without facts about the source.

    Raises
    ------
    KeyboardInterrupt
        See `show_build`.
    """
    stop = _stop_at_signals()
    with click.progressbar(length=len(source), show_pos=True, item_show_func=lambda line: line) as bar:

        def show(progress: Progress) -> None:
            rate = f"{progress.per_second:,.0f} items/s" if progress.per_second else ""
            bar.update(max(0, progress.done - bar.pos), rate)

        pool = build(source, out, threads=threads, dtype=dtype, stop=stop, wait=wait, progress=show)
    problems = pool.problems()
    click.echo(f"{counted(len(pool), 'item')} to label, {len(pool.held_out.ids):,} held out.")
    if problems:
        click.echo(f"{len(problems):,} could not be read; closecall pool info {out} says why.")
    _require_complete(pool)


def _stop_at_signals() -> threading.Event:
    """Return an event that Ctrl+C and SIGTERM set from now on."""
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    return stop


def show_source(source: Source, *, dtype: FeatureType | None = None) -> None:
    """Print what a pool of the source will have: its size, its classes, and how features are computed."""
    expected = estimate(source, dtype=dtype or "float32")
    click.echo(f"{source.title}: {expected.items:,} items, {bytes_in_words(expected.bytes)} on disk.")
    if source.classes:
        click.echo(f"Classes: {some(source.classes)}.")
    for sentence in source.about_features():
        click.echo(sentence)
    for note in (source.note_on_new_images(), source.note_on_left_out()):
        if note:
            click.echo(note)


def _require_complete(pool: Pool) -> None:
    if not pool.complete:
        raise KeyboardInterrupt


def show_pool(path: Path, *, check: bool) -> None:
    """Print facts about the pool at `path`; with `check`, first read all files and compare checksums."""
    pool = Pool.open(path)
    if check:
        pool.check(deep=True)
    state = "complete" if pool.complete else f"{pool.expected:,} expected, still to be built"
    click.echo(f"{pool.title}")
    click.echo(f"  items      {len(pool):,} ({state})")
    n_repeated = len(pool.held_out) - len(unrepeated_held_out(pool))
    without = f" (accuracy is measured without {n_repeated:,} near-duplicates)" if n_repeated else ""
    click.echo(f"  held out   {len(pool.held_out):,}{without}")
    click.echo(f"  features   {pool.n_features:,}, {bytes_in_words(pool.feature_bytes)}")
    if pool.classes:
        click.echo(f"  classes    {len(pool.classes)}: {some(pool.classes)}")
    if check:
        click.echo("  checksums  all files are whole")
    problems = pool.problems()
    click.echo(f"  unreadable {len(problems):,}")
    for problem in problems[:PROBLEMS_SHOWN]:
        click.echo(f"    {problem.name}: {problem.reason}")
    if len(problems) > PROBLEMS_SHOWN:
        click.echo(f"    … and {len(problems) - PROBLEMS_SHOWN:,} more")


def show_found(path: Path, description: Description, n: int) -> None:
    """Print the `n` images of the pool at `path` that best match a description in words, with cosines."""
    pool = Pool.open(path)
    model = pool.source.text_model()
    direction = description.direction(model)
    for note in description.notes(model):
        click.echo(note, err=True)
    found = ExactSearch(ByAngle(pool)).neighbours(direction, n)
    for cosine, name in zip(np.cos(found.values), pool.source.names(found.ids), strict=True):
        click.echo(f"{cosine:.4f}  {name}")


def show_map(path: Path, *, quiet: bool) -> None:
    """Build or resume the map of the pool at `path`, with a progress bar; see `build_map`."""
    from closecall.core.map import build_map  # a slow import, which other commands don't need

    pool = Pool.open(path)
    if quiet:
        build_map(pool)
        return
    click.echo(f"{pool.title}: {counted(len(pool), 'item')}. UMAP lays out a sample first.")
    with click.progressbar(length=len(pool), show_pos=True, label="Placing items") as bar:
        found = build_map(pool, lambda done, _total: bar.update(done - bar.pos))
    click.echo(f"{counted(len(found.positions), 'item')} on the map, {len(found.sample):,} of them by UMAP.")
