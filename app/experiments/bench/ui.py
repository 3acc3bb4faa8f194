"""Measurement of the labeling page in a real browser: response times, and a check of the stored answers.

A project is created for a pool and served by ``closecall serve`` in a separate process. A simulated annotator
who knows the true classes presses keys. At each key press, a script in the page records which picture is on
the screen. Finally, the answers are compared with the label database.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from closecall.app.display.thumbnails import Pictures
from closecall.app.experiments.bench.annotator import MODES, N_PATIENT, Annotator, Mode, Press, patience
from closecall.app.experiments.bench.browser import chromium
from closecall.app.experiments.bench.experiment import Experiment, Row
from closecall.app.experiments.bench.outcome import fate, looking_ahead, waits
from closecall.app.experiments.bench.projects import class_asked_for, make_project, truth_of
from closecall.app.experiments.bench.serving import served
from closecall.app.experiments.bench.slow_images import across_network
from closecall.app.projects.config import LABELS_FILE
from closecall.app.projects.roles import SOMEBODY
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.selection import strategy_from
from closecall.storage import Concepts, Database, LabelLog

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NETWORK_ITEMS = 5_000
"""Number of images that are read across a slow network, if the pool has as many."""

SPARE = 200
"""Number of additional items that the pool must have.

They are needed because bursts and grids give a few more answers than requested.
"""


@dataclass(frozen=True)
class Labeling(Experiment[Pool]):
    """An experiment that labels in a real browser, with a new project for each mode.

    Parameters
    ----------
    positive : str or None
        The positive class; the pool's first class if None.
    n_answers : int
        Number of answers in each mode.
    pace : float
        Seconds that the annotator looks at an image.
    n_labels : int
        Number of initial labels in the project.
    modes : tuple of Mode
        Modes to run, one after the other; `MODES` if empty.
    strategy : str or None
        The query strategy; the page's default if None.
    out : Path or None
        Folder that keeps the projects; a temporary folder if None.
    network : float or None
        Seconds after which a server on this machine sends an image (`app.experiments.bench.slow_images`).
        None to read images as the pool does.
    seed : int
        Seed of the initial labels.
    """

    positive: str | None
    n_answers: int
    pace: float
    n_labels: int
    modes: tuple[Mode, ...]
    strategy: str | None
    out: Path | None
    network: float | None
    seed: int

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Yield one row of results for each of the `modes`.

        Raises
        ------
        InputError
            If the pool lacks the class `positive` or has too few items, if a project exists already, if there
            is no browser, or if the page stops accepting answers.
        """
        modes = self.modes or MODES
        positive = self._check(pool, modes)
        with tempfile.TemporaryDirectory(prefix="closecall-") as temporary, chromium() as browser:
            for mode in modes:
                project = (self.out or Path(temporary)) / mode
                with self._across_network(pool, project.with_name(f"{mode}-images")) as measured:
                    yield [self._measured(measured, mode, positive, project, browser)]

    def _measured(self, pool: Pool, mode: Mode, positive: str, project: Path, browser: Browser) -> Row:
        """Label in one mode, and return the row of results."""
        make_project(
            pool,
            project,
            positive,
            n_labels=self.n_labels,
            annotator=SOMEBODY,
            strategy=self.strategy,
            seed=self.seed,
        )
        click.echo(f"{mode}: {len(pool):,} items, {self.n_labels:,} labels; waiting for the index.")
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        with served(project) as url, patience(mode, page, project / "page.png"):
            annotator = Annotator(page, mode, truth_of(pool, positive), self.pace)
            annotator.open(url)
            presses = annotator.label(self.n_answers)
            n_patient = min(N_PATIENT, self.n_answers) if mode == "paced" else 0
            patient = annotator.label_patiently(n_patient)
            page.close()
        pictures = Pictures(pool.source)
        picture = pictures.tile if mode == "grid" else pictures.card
        about = {"items": len(pool), "labels_before": self.n_labels, "pace_seconds": self.pace}
        network = {} if self.network is None else {"network_seconds": self.network}
        return {"mode": mode, **_row(project, picture, presses, patient), **about, **network}

    @contextmanager
    def _across_network(self, pool: Pool, folder: Path) -> Iterator[Pool]:
        """Yield the pool to label: the given one or, with `network`, one of images across a network."""
        if self.network is None:
            yield pool
            return
        n_items = min(len(pool), max(NETWORK_ITEMS, 2 * self._needed))
        click.echo(f"Reading {n_items:,} images across the network.")
        with across_network(pool, n_items, self.network, folder) as slow:
            self._check_size(slow)
            yield slow

    def _check(self, pool: Pool, modes: Sequence[Mode]) -> str:
        """Check the pool, the strategy and the folder; return the positive class."""
        positive = class_asked_for(pool, self.positive)
        self._check_size(pool)
        if self.strategy:
            strategy_from(self.strategy)
        there = [self.out / mode for mode in modes if (self.out / mode).exists()] if self.out else []
        if there:
            raise InputError(f"--out must have no projects of these modes yet, but there is {there[0]}")
        return positive

    @property
    def _needed(self) -> int:
        """Number of items that the pool must have."""
        return self.n_labels + self.n_answers + SPARE

    def _check_size(self, pool: Pool) -> None:
        if len(pool) < self._needed:
            raise InputError(
                f"--labels {self.n_labels} and --answers {self.n_answers} need a pool of at least "
                f"{self._needed:,} items, this one has {len(pool):,}"
            )

    def show(self, rows: Sequence[Row]) -> None:
        """Print the row of a mode."""
        (row,) = rows
        click.echo(f"\n{row['mode']}, {row['items']:,} items, {row['labels_before']:,} labels before:")
        way = "Enter to the next grid" if row["mode"] == "grid" else "the key press to the next image"
        click.echo(
            f"  From {way} on the screen {row['median_ms']:.1f} ms in the median, "
            f"{row['p95_ms']:.1f} ms in 95 of 100, at most {row['max_ms']:.1f} ms."
        )
        click.echo(
            f"  {row['answers']:,} answers: {row['lost']} lost, {row['duplicated']} stored twice, "
            f"{row['misplaced']} stored with another answer. {row['retrains']:,} trainings gave "
            f"{row['hyperplanes']:,} hyperplanes; {row['queries']:,} selections."
        )
        if "waited" in row:
            _show_looking_ahead(row)


def _show_looking_ahead(row: Row) -> None:
    median, p95 = (
        "after the next press" if row[name] is None else f"after {row[name]:.0f} ms"
        for name in ("ahead_median_ms", "ahead_p95_ms")
    )
    click.echo(f"  All that may follow an image was there {median} in the median, {p95} in 95 of 100.")
    click.echo(
        f"  {row['waited']} of {row['presses']:,} presses, {row['pace_seconds']:g} s after the image, had to "
        f"wait for the next one, {row['waited_visibly']} of them so long that the card said so."
    )
    click.echo(
        f"  The pace that can be held: {row['held_pace_seconds']:.2f} s an image. Within that time all that "
        "may follow is there in 95 of 100 rounds."
    )


def _row(
    project: Path, picture: Callable[[int], str], presses: Sequence[Press], patient: Sequence[Press]
) -> Row:
    """Return the measured times, and the numbers of lost, duplicated and misplaced answers."""
    with Database.open(project / LABELS_FILE, read_only=True) as database:
        log, concept = LabelLog(database), Concepts(database).all()[0]
        answers = [answer for answer in log.answers_after(concept.id) if answer.selection_id is not None]
        selections = {selection.id: selection for selection in log.selections(concept.id)}
    trained = [selection for selection in selections.values() if selection.hyperplane_digest]
    return {
        **waits(presses),
        **fate([*presses, *patient], answers, selections, picture),
        # A new label that changes no support vector gives the same hyperplane again.
        "retrains": len({s.n_labels for s in trained}),
        "hyperplanes": len({s.hyperplane_digest for s in trained}),
        "queries": len({(s.session_id, s.round) for s in selections.values()}),
        "retrain_ms": _median([s.retrain_ms for s in selections.values()]),
        "selection_ms": _median([s.selection_ms for s in selections.values()]),
        **(looking_ahead(presses, patient) if patient else {}),
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None
