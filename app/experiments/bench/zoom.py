"""Measurement of zooming in a real browser: the time until a zoomed image is painted at full resolution.

A project is created for a pool and served by ``closecall serve`` in a separate process. In a browser window,
a simulated annotator zooms in on each image twice and answers it. The first time, the server has not decoded
the image yet. The second time, the browser has the tiles in its cache. The mouse does not move: if it moved
over an image, the server would decode the image in advance.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, get_args

import click
import numpy as np

from closecall.app.display.thumbnails import LOSSLESS_UP_TO, Pictures
from closecall.app.experiments.bench.annotator import PATIENCE_MS, Annotator, patience
from closecall.app.experiments.bench.browser import chromium
from closecall.app.experiments.bench.experiment import Experiment, Row
from closecall.app.experiments.bench.outcome import spread
from closecall.app.experiments.bench.serving import served
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool

if TYPE_CHECKING:
    from playwright.sync_api import Page

Way = Literal["key", "wheel", "button"]
WAYS: tuple[Way, ...] = get_args(Way)
"""Ways of zooming in: the key Z with the mouse elsewhere, the wheel over the image, and the magnifier."""

WHEEL = -300
"""Pixels by which the wheel is turned, at once. The image is then 1.8 times as large."""


class Look(TypedDict):
    """A zoom as recorded in the page.

    Parameters
    ----------
    ms : float
        Milliseconds from the event until all tiles in view are painted.
    tiles : int
        Number of tiles in view.
    level : int
        Level of the tiles (`app.display.originals`).
    fetched : int
        Number of tiles that the server sent after the event.
    """

    ms: float
    tiles: int
    level: int
    fetched: int


class Viewer(Annotator):
    """A simulated annotator who zooms in on each image twice, and then answers it with no.

    Parameters
    ----------
    page : Page
        A new browser page.
    way : Way
    pace : float
        Seconds that the annotator looks at an image before zooming in.
    """

    def __init__(self, page: Page, way: Way, pace: float) -> None:
        super().__init__(page, "paced", lambda items: [False] * len(items), pace)
        self._way = way

    def look_closer(self, n_images: int) -> tuple[list[Look], list[Look]]:
        """Return what was recorded at the first and the second zoom of `n_images` images.

        The first image in view is not measured: there, the mouse is moved to its place.
        """
        if self._way != "key":
            self._page.locator({"wheel": ".frame", "button": ".look"}[self._way]).hover()
        first, second = list[Look](), list[Look]()
        for _ in range(n_images):
            self._answer()
            self._look()
            first.append(self._zoom())
            second.append(self._zoom())
        return first, second

    def _zoom(self) -> Look:
        """Zoom in, wait until the image is painted at full resolution, and zoom out."""
        n_before = self._page.evaluate("bench.looks.length")
        if self._way == "key":
            self._page.keyboard.press("z")
        elif self._way == "wheel":
            self._page.mouse.wheel(0, WHEEL)
        else:
            self._page.mouse.down()
            self._page.mouse.up()
        self._page.wait_for_function(f"(bench.looks[{n_before}]?.ms ?? null) !== null", timeout=PATIENCE_MS)
        look: Look = self._page.evaluate(f"bench.looks[{n_before}]")
        self._page.keyboard.press("Escape")
        self._page.locator(".frame[data-zoomed=false]").wait_for(timeout=PATIENCE_MS)
        return look


@dataclass(frozen=True)
class Zooming(Experiment[Pool]):
    """An experiment that zooms in on images in a real browser, with a new project for each way of zooming in.

    Parameters
    ----------
    n_images : int
        Number of images to zoom in on in each way, or fewer if the pool has no more.
    pace : float
        Seconds that the annotator looks at an image before zooming in.
    out : Path or None
        Folder that keeps the projects; a temporary folder if None.
    """

    n_images: int
    pace: float
    out: Path | None

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Yield two rows for each way: for the first zoom on an image (cold), and the second (warm).

        Raises
        ------
        InputError
            If the pool's images are too small or have no resolution of their own, if a project exists
            already, if there is no browser, or if the page does not react.
        """
        width, height = self._check(pool)
        n_images = min(self.n_images, len(pool) - 1)
        about = {"mode": "zoom", "megapixels": width * height / 1e6, "pace_seconds": self.pace}
        with tempfile.TemporaryDirectory(prefix="closecall-") as temporary, chromium() as browser:
            for way in WAYS:
                project = (self.out or Path(temporary)) / f"zoom-{way}"
                project.parent.mkdir(parents=True, exist_ok=True)
                with Workspace(project.parent) as workspace:
                    new = NewProject(str(pool.path.resolve()), "Is it sharp?", "")
                    workspace.create(new, key=project.name)
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                with served(project) as url, patience(project.name, page, project / "page.png"):
                    viewer = Viewer(page, way, self.pace)
                    viewer.open(url)
                    looks = viewer.look_closer(n_images)
                    page.close()
                yield [
                    {**about, "way": way, "state": state, **_summary(of)}
                    for state, of in zip(("cold", "warm"), looks, strict=True)
                ]

    def _check(self, pool: Pool) -> tuple[int, int]:
        """Check the pool and the folder; return the width and height of the pool's first image in pixels."""
        resolution = Pictures(pool.source).resolution(int(pool.ids[0]))
        if resolution is None or max(resolution) <= LOSSLESS_UP_TO or len(pool) < 2:
            raise InputError(
                f"--mode zoom needs a pool of at least 2 images of more than {LOSSLESS_UP_TO} pixels a side"
            )
        there = [path for way in WAYS if self.out and (path := self.out / f"zoom-{way}").exists()]
        if there:
            raise InputError(f"--out must have no projects of this mode yet, but there is {there[0]}")
        return resolution

    def show(self, rows: Sequence[Row]) -> None:
        """Print the rows of a way of zooming in."""
        first = rows[0]
        click.echo(f"\nzoom by {first['way']}, images of {first['megapixels']:.0f} megapixels:")
        for row in rows:
            click.echo(
                f"  {row['state']}: full resolution on the screen {row['median_ms']:.0f} ms in the median, "
                f"{row['p95_ms']:.0f} ms in 95 of 100, at most {row['max_ms']:.0f} ms, of {row['looks']} "
                f"zooms; {row['tiles']:g} tiles, {row['fetched']:g} of them from the server."
            )


def _summary(looks: Sequence[Look]) -> Row:
    """Return statistics of the times, and the medians of all else."""
    return {
        **spread([look["ms"] for look in looks]),
        "looks": len(looks),
        "tiles": float(np.median([look["tiles"] for look in looks])),
        "level": float(np.median([look["level"] for look in looks])),
        "fetched": float(np.median([look["fetched"] for look in looks])),
    }
