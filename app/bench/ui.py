"""The labeling page in a real browser: from a key press to the next image on the screen, and what was stored.

A project is made on a pool and served by a process of its own, as ``marginalia serve`` does. A simulated
annotator, who knows the truth, presses keys. What the page took for an answer is noted in the page itself,
before the card sees the key: the item whose image is painted then. Afterwards the label database is read.

The time goes from the key event's own time stamp to the moment when the first frame with another image has
been handed over for painting: a message that is posted from that frame's animation callback arrives behind
its painting.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import click
import numpy as np

from app.bench.browser import chromium
from app.project_file import LABELS_FILE
from app.workspace import NewProject, Workspace
from core.errors import InputError
from core.learner import Labels, is_positive, learn
from core.pool import Pool
from core.selection import make_strategy
from storage import AnswerRecord, Concepts, Database, LabelLog, new_id

if TYPE_CHECKING:
    from playwright.sync_api import Page

Mode = Literal["paced", "burst", "fallback"]
MODES: tuple[Mode, ...] = get_args(Mode)
"""Answers at the pace; bursts of key presses; answers at the pace to the page of plain buttons."""

BURST = 40
GAPS_MS = (0, 20, 50)
"""Presses of a burst, and the milliseconds between them, one burst after the other."""

KEYS = {True: "y", False: "n"}
PATIENCE_MS = 60_000
START_SECONDS = 180

WATCH = """
    window.given = [];
    const host = '[data-testid=stBidiComponentIsolated]';
    const card = () => document.querySelector(host)?.shadowRoot?.querySelector('.card');
    const image = () => card()?.querySelector('.frame img') ?? document.querySelector('.m-plain img');
    window.inView = () => {
        const shown = image();
        if (!shown) return null;
        if (card()) {
            const { paintedItem: item, paintedSelection: selection, answerable, saving } = card().dataset;
            return { item, selection, takesAnswers: answerable === 'true', isSaved: saving === '0' };
        }
        const { item, selection } = shown.closest('.m-plain').dataset;
        const isNew = window.given.every((press) => press.selection !== selection);
        const takesAnswers = isNew && getComputedStyle(shown).opacity === '1';
        return { item, selection, takesAnswers, isSaved: isNew };
    };
    document.addEventListener('keydown', (event) => {
        const { item, selection, takesAnswers } = window.inView() ?? {};
        if (event.repeat || !takesAnswers) return;
        const before = image();
        const press = { item: Number(item), selection, ms: null };
        window.given.push(press);
        const look = () => requestAnimationFrame(() => {
            const after = image();
            if (!after || after === before) return look();
            const channel = new MessageChannel();
            channel.port1.onmessage = () => { press.ms = performance.now() - event.timeStamp; };
            channel.port2.postMessage(null);
        });
        look();
    }, true);
"""


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
        If the pool has no such class, or if there is no browser.
    """
    positive = plan.positive or (pool.classes[0] if pool.classes else "")
    if positive not in pool.classes:
        classes = ", ".join(pool.classes) or "none"
        raise InputError(f"positive must be one of the pool's classes ({classes}), got {positive!r}")
    with tempfile.TemporaryDirectory(prefix="marginalia-") as temporary, chromium() as browser:
        for mode in plan.modes:
            project = (folder or Path(temporary)) / mode
            _make_project(pool, project, positive, plan)
            click.echo(f"{mode}: {len(pool):,} items, {plan.n_labels:,} labels; waiting for the index.")
            with _served(project) as url:
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                page.add_init_script(WATCH)
                page.goto(url)
                if mode == "fallback":
                    _wait_until_prepared(page)
                    page.goto(f"{page.url}&plain=1")
                given = _label(page, mode, pool, pool.classes.index(positive), plan)
                page.close()
            done({"mode": mode, **_row(project, given), **_circumstances(pool, plan)})


def _make_project(pool: Pool, project: Path, positive: str, plan: Plan) -> None:
    with Workspace(project.parent) as workspace:
        workspace.create(NewProject(str(pool.path), f"Is it a {positive}?", positive), key=project.name)
    with Database.open(project / LABELS_FILE) as database:
        concept, log = Concepts(database).all()[0], LabelLog(database)
        labels = _labels_before(pool, pool.classes.index(positive), plan)
        session = log.start_session(concept.id, "annotator", plan.strategy or "margin-index", seed=plan.seed)
        log.append_answers(
            [
                AnswerRecord(
                    id=new_id(),
                    concept_id=concept.id,
                    session_id=session.id,
                    annotator=session.annotator,
                    item=int(item),
                    answer="yes" if yes else "no",
                    browser_time=0,
                )
                for item, yes in zip(labels.ids, labels.y, strict=True)
            ]
        )


def _labels_before(pool: Pool, positive: int, plan: Plan) -> Labels:
    """A fifth of them at random, the others nearest to what these teach: hard ones, as in a session."""
    rng = np.random.default_rng(plan.seed)

    def known(ids: np.ndarray) -> Labels:
        return Labels.of(pool, ids, is_positive(pool.truth(ids), positive))

    at_random = rng.choice(pool.ids, -(-plan.n_labels // 5), replace=False)
    first = known(np.sort(at_random))
    hyperplane = learn(first).hyperplane if len(first) else None
    rest = plan.n_labels - len(first)
    if hyperplane is None or not rest:
        return known(np.sort(rng.choice(pool.ids, plan.n_labels, replace=False)))
    near = make_strategy("exhaustive").fit(pool).select(hyperplane, rest, exclude=first.ids)
    return first + known(np.sort(near.ids))


@contextmanager
def _served(project: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "app.cli", "serve", str(project), "--headless", "--port", str(port)]
    with (project / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        patience = time.monotonic() + START_SECONDS
        while not _is_healthy(url):
            if process.poll() is not None or time.monotonic() > patience:
                raise InputError(f"The server did not start: see {project / 'server.log'}")
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


def _is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _label(page: Page, mode: Mode, pool: Pool, positive: int, plan: Plan) -> list[dict[str, Any]]:
    """Let the simulated annotator press keys; returns what the page took for answers."""
    _wait_until_prepared(page)

    def key() -> str:
        painted = int(page.evaluate("window.inView().item"))
        return KEYS[bool(is_positive(pool.truth([painted]), positive)[0])]

    if mode != "burst":
        for _ in range(plan.n_answers):
            page.wait_for_function("window.inView()?.takesAnswers", timeout=PATIENCE_MS)
            page.wait_for_timeout(1000 * plan.pace)
            page.keyboard.press(key())
    else:
        while len(page.evaluate("window.given")) < plan.n_answers:
            for gap in GAPS_MS:
                for press in range(BURST):
                    page.keyboard.press("ny"[press % 2])
                    page.wait_for_timeout(gap)
                _wait(page)
    _wait(page)
    found: list[dict[str, Any]] = page.evaluate("window.given")
    return found


def _wait_until_prepared(page: Page) -> None:
    _wait(page)
    page.locator(".st-key-growth").wait_for(state="hidden", timeout=PATIENCE_MS)


def _wait(page: Page) -> None:
    """Until an image may be answered, and all is saved."""
    ready = "(shown => shown?.takesAnswers && shown.isSaved)(window.inView())"
    page.wait_for_function(ready, timeout=PATIENCE_MS)


def _row(project: Path, given: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What was measured, and what became of each press."""
    with Database.open(project / LABELS_FILE, read_only=True) as database:
        log, concept = LabelLog(database), Concepts(database).all()[0]
        answers = [answer for answer in log.answers_after(concept.id) if answer.selection_id is not None]
        selections = {selection.id: selection for selection in log.selections(concept.id)}
    stored = Counter(answer.selection_id for answer in answers)
    items = {answer.selection_id: answer.item for answer in answers}
    painted = {press["selection"]: press["item"] for press in given}
    times = [press["ms"] for press in given if press["ms"] is not None]
    return {
        "median_ms": float(np.median(times)),
        "p95_ms": float(np.quantile(times, 0.95)),
        "max_ms": float(max(times)),
        "answers": len(given),
        "retrains": len({s.hyperplane_digest for s in selections.values() if s.hyperplane_digest}),
        "queries": len(selections),
        "lost": sum(stored[selection] == 0 for selection in painted),
        "duplicated": sum(count - 1 for count in stored.values()) + len(given) - len(painted),
        "misplaced": sum(
            painted.get(selection) != item or selections[selection].item != item
            for selection, item in items.items()
            if selection is not None
        ),
        "retrain_ms": _median([s.retrain_ms for s in selections.values()]),
        "selection_ms": _median([s.selection_ms for s in selections.values()]),
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def _circumstances(pool: Pool, plan: Plan) -> dict[str, Any]:
    return {"items": len(pool), "labels_before": plan.n_labels, "pace_seconds": plan.pace}
