"""The labeling page in a real browser: from a key press to the next image on the screen, and what was stored.

A project is made on a pool and served by a process of its own, as ``closecall serve`` does. A simulated
annotator, who knows the truth, presses keys, and the page itself notes which picture was painted then.
Afterwards the label database is read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from closecall.app.display.thumbnails import Pictures
from closecall.app.experiments.bench.annotator import MODES, N_PATIENT, PATIENCE_MS, Annotator, Mode, Press
from closecall.app.experiments.bench.browser import chromium
from closecall.app.experiments.bench.outcome import fate, looking_ahead, waits
from closecall.app.experiments.bench.projects import class_asked_for, make_project, truth_of
from closecall.app.experiments.bench.serving import Server
from closecall.app.projects.config import LABELS_FILE
from closecall.app.projects.roles import SOMEBODY
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.selection import strategy_from
from closecall.storage import Concepts, Database, LabelLog

if TYPE_CHECKING:
    from playwright.sync_api import Page

SPARE = 200
"""Items that must be left: bursts and grids come to some more answers than asked for."""


@dataclass(frozen=True)
class Plan:
    """What is measured, and how.

    Parameters
    ----------
    positive : str or None
        The class that is asked for; the pool's first by default.
    modes : sequence of Mode
    n_answers : int
        Of each mode.
    pace : float
        Seconds that the person looks at an image.
    n_labels : int
        Labels that are there before.
    strategy : str or None
        What chooses; the page's default otherwise.
    seed : int
        Of which items are labeled before.
    """

    positive: str | None = None
    modes: Sequence[Mode] = MODES
    n_answers: int = 200
    pace: float = 0.7
    n_labels: int = 0
    strategy: str | None = None
    seed: int = 0


def measure_ui(pool: Pool, plan: Plan, folder: Path | None, done: Callable[[dict[str, Any]], None]) -> None:
    """Measure each mode on a project of its own, in `folder` if it is to be kept.

    Raises
    ------
    InputError
        If the pool has no such class or too few items, if a project is there already, if there is no browser,
        or if the page takes no answers any more.
    """
    positive = _check(pool, plan, folder)
    with tempfile.TemporaryDirectory(prefix="closecall-") as temporary, chromium() as browser:
        for mode in plan.modes:
            project = (folder or Path(temporary)) / mode
            make_project(
                pool,
                project,
                positive,
                n_labels=plan.n_labels,
                annotator=SOMEBODY,
                strategy=plan.strategy,
                seed=plan.seed,
            )
            click.echo(f"{mode}: {len(pool):,} items, {plan.n_labels:,} labels; waiting for the index.")
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            with _served(project) as url, _patience(mode, page, project / "page.png"):
                annotator = Annotator(page, mode, truth_of(pool, positive), plan.pace)
                annotator.open(url)
                presses = annotator.label(plan.n_answers)
                n_patient = min(N_PATIENT, plan.n_answers) if mode == "paced" else 0
                patient = annotator.label_patiently(n_patient)
                page.close()
            pictures = Pictures(pool.source)
            picture = pictures.tile if mode == "grid" else pictures.card
            done({"mode": mode, **_row(project, picture, presses, patient), **_circumstances(pool, plan)})


def _check(pool: Pool, plan: Plan, folder: Path | None) -> str:
    """The class that is asked for, if all that the plan asks for can be had."""
    positive = class_asked_for(pool, plan.positive)
    needed = plan.n_labels + plan.n_answers + SPARE
    if len(pool) < needed:
        raise InputError(
            f"--labels {plan.n_labels} and --answers {plan.n_answers} need a pool of at least {needed:,} "
            f"items, this one has {len(pool):,}"
        )
    if plan.strategy:
        strategy_from(plan.strategy)
    there = [folder / mode for mode in plan.modes if (folder / mode).exists()] if folder else []
    if there:
        raise InputError(f"--out must have no projects of these modes yet, but there is {there[0]}")
    return positive


@contextmanager
def _patience(mode: Mode, page: Page, picture: Path) -> Iterator[None]:
    """Say in a sentence where the page keeps the annotator waiting, and keep a picture of it."""
    from playwright.sync_api import Error
    from playwright.sync_api import TimeoutError as TookTooLong

    try:
        yield
    except TookTooLong:
        with suppress(Error):
            page.screenshot(path=picture)
        raise InputError(
            f"{mode}: the page took no answer for {PATIENCE_MS // 1000} s; "
            "with --out the project has a server.log, and a page.png of what it showed"
        ) from None


@contextmanager
def _served(project: Path) -> Iterator[str]:
    server = Server(project)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


def _row(
    project: Path, picture: Callable[[int], str], presses: Sequence[Press], patient: Sequence[Press]
) -> dict[str, Any]:
    """What was measured, and what became of each press."""
    with Database.open(project / LABELS_FILE, read_only=True) as database:
        log, concept = LabelLog(database), Concepts(database).all()[0]
        answers = [answer for answer in log.answers_after(concept.id) if answer.selection_id is not None]
        selections = {selection.id: selection for selection in log.selections(concept.id)}
    trained = [selection for selection in selections.values() if selection.hyperplane_digest]
    return {
        **waits(presses),
        **fate([*presses, *patient], answers, selections, picture),
        # Labels that change no support vector leave the hyperplane as it is, trained again all the same.
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


def _circumstances(pool: Pool, plan: Plan) -> dict[str, Any]:
    return {"items": len(pool), "labels_before": plan.n_labels, "pace_seconds": plan.pace}
