"""A long sitting at any images: everything a person does to the page, checked against the label database.

As a command, for images that no test may carry with it::

    python -m tests.browser.sitting SOURCE QUESTION [--positive CLASS] [--answers 200]

It makes a project from SOURCE in a temporary folder, labels in a real browser while the pool grows, kills and
restarts the server, and ends with ``closecall verify``. What it prints is JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import expect, sync_playwright

from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.pool.pool import Pool
from tests import chromium
from tests.browser.kills import LONGEST_RETURN_MS
from tests.browser.labeling import ANSWERABLE_AND_SAVED, Labeling, at_rest
from tests.browser.served import Server, free_port

KEYS = {"yes": ["y", "ArrowRight"], "no": ["n", "ArrowLeft"], "skip": ["s", "ArrowDown"], "unsure": ["m"]}
LIKE = 0.99
"""Least correlation of what is painted with the source's own rendering."""


class ServedProject(Server):
    """``closecall serve`` over one project that need not be complete."""

    key = "project"

    def command(self) -> list[str]:
        return ["serve", str(self.data / self.key), "--headless", "--port", str(self.port)]

    def is_ready(self) -> bool:
        return self.answers_health()


@dataclass
class Sitting:
    """What was done at the page, and what the database must therefore hold.

    Parameters
    ----------
    server : Server
    labeling : Labeling
    truth : callable
        The right answer about an item, or None where nobody knows.
    """

    server: Server
    labeling: Labeling
    truth: Callable[[int], str | None]
    expected: list[tuple[int, str]] = field(default_factory=list)
    likenesses: list[float] = field(default_factory=list)

    def answer(self, turn: int) -> None:
        """One answer by key or mouse, the painted pixels compared with the source's before."""
        labeling = self.labeling
        item = labeling.item
        source = Pool.open(self.server.pool).source
        self.likenesses.append(likeness(labeling.painted_in_colour(), source.image(item, 560)))
        word = self.truth(item) or ("yes" if turn % 3 else "no")
        if turn % 17 == 16:
            word = "skip" if turn % 2 else "unsure"
        if turn % 4 == 0:
            labeling.click(word)
        else:
            labeling.press(KEYS[word][turn % len(KEYS[word])])
        self.expected.append((item, word))

    def burst(self, key: str = "n", presses: int = 20, gap_ms: int = 20) -> None:
        """Presses faster than the machine: those that meet a painted image are answers, others none."""
        before = len(self.labeling.presses())
        for _ in range(presses):
            self.labeling.page.keyboard.press(key)
            self.labeling.page.wait_for_timeout(gap_ms)
        self.labeling.wait()
        self._expect_what_was_met(before)

    def hold(self, key: str = "n") -> None:
        """A key held down is one answer."""
        self.expected.append((self.labeling.item, "no"))
        for _ in range(20):
            self.labeling.page.keyboard.down(key)
            self.labeling.page.wait_for_timeout(20)
        self.labeling.page.keyboard.up(key)
        self.labeling.wait()

    def undo(self) -> None:
        """Take the last answer back and give it again."""
        before = self.labeling.item
        self.labeling.press("n")
        self.labeling.press("u")
        assert self.labeling.item == before
        self.expected += [(before, "no"), (before, "undo")]

    def correct(self) -> None:
        """Change the answer before the last one, by mouse."""
        thumb = self.labeling.page.locator(".thumb").nth(-2)
        item, before = self.expected[-2]
        word = "skip" if before == "unsure" else "unsure"
        thumb.click()
        self.labeling.page.locator(f"[data-correct={word}]").click()
        self.labeling.wait()
        self.expected.append((item, word))

    def reload(self) -> None:
        item = self.labeling.item
        self.labeling.page.reload()
        self.labeling.wait()
        assert self.labeling.item == item

    def kill_and_restart(self) -> None:
        """Kill −9 with an answer on its way; it is sent again when the server is back.

        Then wait for Streamlit too, since a choice in its first run would be its state from before.
        """
        self.expected.append((self.labeling.item, "no"))
        self.server.kill()
        self.labeling.page.keyboard.press("n")
        self.server.start()
        ready = self.labeling.page.locator(ANSWERABLE_AND_SAVED)
        expect(ready).to_have_count(1, timeout=LONGEST_RETURN_MS)
        page = self.labeling.page.get_by_test_id("stApp")
        expect(page).to_have_attribute("data-test-connection-state", "CONNECTED", timeout=LONGEST_RETURN_MS)
        at_rest(self.labeling.page, LONGEST_RETURN_MS)

    def stored(self) -> list[tuple[int, str]]:
        rows = self.server.answers(self.labeling.session)
        assert all(row["item"] == row["shown"] for row in rows if row["shown"] is not None)
        return [(row["item"], row["answer"]) for row in rows]

    def stored_ids(self) -> list[str]:
        return [row["id"] for row in self.server.answers(self.labeling.session)]

    def _expect_what_was_met(self, before: int) -> None:
        met = [int(item) for _, item, answerable in self.labeling.presses()[before:] if answerable == "true"]
        assert met
        self.expected += [(item, "no") for item in met]


def run(sitting: Sitting, answers: int) -> dict[str, Any]:
    """The whole sitting, at least `answers` answers: how the database differs from what was given."""
    mischief: list[Callable[[], None]] = [
        sitting.burst,
        sitting.hold,
        sitting.undo,
        sitting.correct,
        lambda: sitting.labeling.pick_strategy("Exhaustive"),
        sitting.reload,
        sitting.kill_and_restart,
        lambda: sitting.labeling.pick_strategy("H-Hash, weighted"),
    ]
    every = max(2, answers // (2 * len(mischief)))  # a correction is of an answer, not of an undo
    turn = 0
    while len(sitting.expected) < answers or turn < every * len(mischief):
        sitting.answer(turn)
        turn += 1
        if turn % every == 0:
            mischief[(turn // every - 1) % len(mischief)]()
    stored = sitting.stored()
    given, there = Counter(sitting.expected), Counter(stored)
    least = min(sitting.likenesses)
    return {
        "answers": len(stored),
        "lost": (given - there).total(),
        "duplicated": sum(n - 1 for n in Counter(sitting.stored_ids()).values()),
        "misplaced": sum(a != b for a, b in zip(sitting.expected, stored, strict=False)),
        "unexpected": (there - given).total(),
        "images_compared": len(sitting.likenesses),
        "least_likeness": round(least, 4),
        "right_images": sum(likeness > LIKE for likeness in sitting.likenesses),
    }


def is_sound(found: dict[str, Any]) -> bool:
    """Whether every answer is stored, once, in order, on the item that was painted."""
    wrong = found["lost"] + found["duplicated"] + found["misplaced"] + found["unexpected"]
    return wrong == 0 and found["right_images"] == found["images_compared"] > 0


def likeness(painted: Image.Image, drawn: Image.Image) -> float:
    """Correlation of two images at 32 × 32 pixels, all channels."""

    def small(image: Image.Image) -> np.ndarray:
        square = Image.new("RGB", (max(image.size),) * 2)
        square.paste(image, ((square.width - image.width) // 2, (square.height - image.height) // 2))
        return np.asarray(square.resize((32, 32), Image.Resampling.BOX), float).ravel()

    return float(np.corrcoef(small(painted), small(drawn))[0, 1])


def truth_of(server: Server, positive: str | None) -> Callable[[int], str | None]:
    """The right answers about a project's items."""

    def truth(item: int) -> str | None:
        pool = Pool.open(server.pool)
        if positive not in pool.classes:
            return None
        index = int(pool.truth([item])[0])
        return None if index < 0 else ("yes" if pool.classes[index] == positive else "no")

    return truth


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source")
    parser.add_argument("question")
    parser.add_argument("--positive")
    parser.add_argument("--answers", type=int, default=200)
    parser.add_argument("--screenshot", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "projects"
        with Workspace(data) as workspace:
            workspace.create(NewProject(asked.source, asked.question, asked.positive), key=ServedProject.key)
        server = ServedProject(data, items=0, port=free_port())
        started = time.monotonic()
        server.start()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium.find(), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            labeling = Labeling(page, f"{server.url}/?project={server.key}")
            first = time.monotonic() - started
            try:
                found = run(Sitting(server, labeling, truth_of(server, asked.positive)), asked.answers)
            except Exception:
                print(server.log.read_text("utf-8", "replace"), file=sys.stderr)
                raise
            finally:
                if asked.screenshot:
                    page.screenshot(path=asked.screenshot)
                server.stop()
            browser.close()
        found["first_image_s"] = round(first, 1)
        found["items_in_the_end"] = len(Pool.open(server.pool))
        verify = [sys.executable, "-m", "closecall.app.cli", "verify", str(data / server.key), "--json"]
        found["verify"] = json.loads(
            subprocess.run(verify, capture_output=True, text=True, check=False).stdout
        )
    print(json.dumps(found, indent=2))
    sys.exit(0 if is_sound(found) and not found["verify"]["problems"] else 1)


if __name__ == "__main__":
    main()
