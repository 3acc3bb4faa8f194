"""Measurement of the map of a pool: the time to make it, its quality, and the page's frames in a browser.

The map is made for a copy of the pool that consists of links, so the measured pool does not change.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING

import click
import numpy as np

from closecall.app.experiments.bench.annotator import PATIENCE_MS, Annotator, patience
from closecall.app.experiments.bench.browser import chromium
from closecall.app.experiments.bench.experiment import Experiment, Row, about
from closecall.app.experiments.bench.outcome import spread
from closecall.app.experiments.bench.projects import class_asked_for, make_project, truth_of
from closecall.app.experiments.bench.report import heading
from closecall.app.experiments.bench.serving import served
from closecall.app.projects.roles import SOMEBODY
from closecall.core.errors import InputError
from closecall.core.map import build_map
from closecall.core.map.build import FOLDER
from closecall.core.pool.pool import Pool

if TYPE_CHECKING:
    from playwright.sync_api import Page

N_LABELS = 100
"""Number of labels before the page is opened, so that there is a hyperplane."""

FRAME_MS = 16
"""Milliseconds between two turns of the mouse wheel."""

WHEEL = 60
"""Pixels by which the wheel is turned at once."""

STEPS = 30
"""Number of turns of the wheel, or of movements of the mouse, in one direction."""

REACH = 250
"""Pixels by which the mouse drags the map."""

RECORD_FRAMES = """() => {
  window.benchFrames = [];
  let before = null;
  const note = (now) => {
    if (before !== null) benchFrames.push(now - before);
    before = now;
    requestAnimationFrame(note);
  };
  requestAnimationFrame(note);
}"""
"""Script that records the milliseconds between the frames of a page."""


@dataclass(frozen=True)
class MapMaking(Experiment[Pool]):
    """An experiment that makes the map of a pool, and watches the page Map.

    Parameters
    ----------
    sample : int
        Number of items on which trustworthiness is measured.
    neighbours : int
        Number of neighbours that trustworthiness counts.
    n_answers : int
        Number of answers while the page is watched; with 0, no browser is started.
    pace : float
        Seconds that the annotator looks at an image.
    positive : str or None
        The positive class; the pool's first class if None.
    out : Path or None
        Folder that keeps the copy of the pool, its map and the project; a temporary folder if None.
    seed : int
        Seed of the map, of the sample and of the labels before.
    """

    sample: int
    neighbours: int
    n_answers: int
    pace: float
    positive: str | None
    out: Path | None
    seed: int

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Yield a row about the map, and then three rows about the frames of the page.

        ``fit_seconds`` is the time until the sample is laid out, which includes compiling UMAP;
        ``place_seconds`` is the time until all other items are placed. The other rows have statistics of the
        milliseconds between frames, and how often the map changed its colours, for each way of ``doing``.

        Raises
        ------
        InputError
            If no map can be made (`build_map`), if the pool has too few items for the neighbours, if it
            lacks the class `positive`, if the folder `out` exists already, if there is no browser, or if a
            page does not react.
        """
        if self.out is not None and self.out.exists():
            raise InputError(f"--out must be a new folder, but there is {self.out}")
        if 2 * self.neighbours >= min(self.sample, len(pool)):
            raise InputError(
                f"--neighbours must be less than half of the items compared, "
                f"{min(self.sample, len(pool)):,}, got {self.neighbours}"
            )
        positive = class_asked_for(pool, self.positive) if self.n_answers else ""
        with tempfile.TemporaryDirectory(prefix="closecall-") as temporary:
            folder = self.out or Path(temporary)
            linked = _linked(pool, folder / "pool")
            yield [{**about(pool), **self._made(linked)}]
            if self.n_answers:
                yield self._watched(linked, folder / "map", positive)

    def _made(self, pool: Pool) -> Row:
        """Make the map of a pool; return the times and the trustworthiness."""
        from sklearn.manifold import trustworthiness  # a slow import

        times = list[float]()  # at the start, when the sample is laid out, and after each part
        cpu = process_time()
        found = build_map(pool, lambda *_: times.append(perf_counter()), seed=self.seed)
        cpu = process_time() - cpu
        began, laid_out, *_, ended = times
        rng = np.random.default_rng(self.seed)
        rows = np.sort(rng.choice(len(pool), min(self.sample, len(pool)), replace=False))
        trusted = trustworthiness(pool.rows(rows), found.positions[rows], n_neighbors=self.neighbours)
        return {
            "laid_out": len(found.sample),
            "fit_seconds": laid_out - began,
            "place_seconds": ended - laid_out,
            "cpu_seconds": cpu,
            "compared": len(rows),
            "neighbours": self.neighbours,
            "trustworthiness": float(trusted),
        }

    def _watched(self, pool: Pool, project: Path, positive: str) -> list[Row]:
        """Return statistics of the frames of the page Map, for each way of doing."""
        make_project(pool, project, positive, n_labels=N_LABELS, annotator=SOMEBODY, seed=self.seed)
        with chromium() as browser:
            labeling, page = (browser.new_page(viewport={"width": 1440, "height": 900}) for _ in range(2))
            annotator = Annotator(labeling, "paced", truth_of(pool, positive), self.pace)
            with served(project) as url, patience("map", page, project / "page.png"):
                with patience("label", labeling, project / "page.png"):
                    annotator.open(url)
                page.goto(f"{url}/map")
                page.locator(".map[data-hyperplane=true][data-settled=true]").wait_for(timeout=PATIENCE_MS)
                page.evaluate(RECORD_FRAMES)
                frames = {
                    "zooming": _frames(page, lambda: _zoom(page)),
                    "panning": _frames(page, lambda: _pan(page)),
                    "answering": _frames(page, lambda: self._answer(annotator, page)),
                }
                page.close()
                labeling.close()
        return [{"doing": name, **row} for name, row in frames.items()]

    def _answer(self, annotator: Annotator, page: Page) -> None:
        """Give the answers, and wait until the map in view has changed its colours at least once."""
        before = _version(page)
        annotator.label(self.n_answers)
        page.locator(f'.map:not([data-version="{before}"])').wait_for(timeout=PATIENCE_MS)

    def show(self, rows: Sequence[Row]) -> None:
        """Print the row about the map, or the rows about frames."""
        if "doing" in rows[0]:
            for row in rows:
                click.echo(
                    f"  Frames while {row['doing']}: {row['median_ms']:.1f} ms in the median, "
                    f"{row['p95_ms']:.1f} ms in 95 of 100, at most {row['max_ms']:.1f} ms, of "
                    f"{row['frames']:,}; the map changed {row['changes']} times."
                )
            return
        (row,) = rows
        click.echo(heading(row, f"map with {row['laid_out']:,} items laid out by UMAP."))
        click.echo(
            f"  Laid out in {row['fit_seconds']:.1f} s, all others placed in {row['place_seconds']:.1f} s, "
            f"with {row['cpu_seconds']:.1f} s of processor time."
        )
        click.echo(
            f"  Trustworthiness {row['trustworthiness']:.3f}, of {row['compared']:,} items with "
            f"{row['neighbours']} neighbours."
        )


def _linked(pool: Pool, folder: Path) -> Pool:
    """Return a copy of a pool without its map. The copy's files are links to those of the pool."""

    def link(source: str, target: str) -> None:
        Path(target).symlink_to(Path(source).resolve())

    shutil.copytree(pool.path, folder, copy_function=link, ignore=shutil.ignore_patterns(FOLDER, "*.lock"))
    return Pool.open(folder)


def _frames(page: Page, act: Callable[[], object]) -> Row:
    """Return statistics of the milliseconds between the frames that `page` shows during `act`."""
    page.evaluate("() => { benchFrames.length = 0; }")
    before = _version(page)
    act()
    frames: list[float] = page.evaluate("benchFrames")
    return {**spread(frames), "frames": len(frames), "changes": _version(page) - before}


def _version(page: Page) -> int:
    """Return the version of the map in view, which grows with each change of its colours."""
    return int(page.locator(".map").get_attribute("data-version") or 0)


def _zoom(page: Page) -> None:
    """Zoom in at the middle of the map, out, and in again."""
    page.mouse.move(*_middle(page))
    for direction in (-1, 1, -1):
        for _ in range(STEPS):
            page.mouse.wheel(0, direction * WHEEL)
            page.wait_for_timeout(FRAME_MS)


def _pan(page: Page) -> None:
    """Drag the map to each side."""
    x, y = _middle(page)
    for right, down in ((1, 0), (0, 1), (-1, 0), (0, -1)):
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + REACH * right, y + REACH * down, steps=STEPS)
        page.mouse.up()


def _middle(page: Page) -> tuple[float, float]:
    box = page.locator(".map .canvas").bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
