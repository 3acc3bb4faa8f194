"""Kills the server at random moments of a sitting, and compares what was answered with what is stored::

    python -m tests.browser.kills [--kills 100] [--items 5000] [--seed 0]

It serves a demo in a temporary folder, presses keys in a real browser, kills the server (−9) in the middle of
it, goes on pressing, and starts it again. What it prints is JSON; it ends with ``closecall verify``.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from playwright.sync_api import expect, sync_playwright

from tests import chromium
from tests.browser.labeling import Labeling
from tests.browser.served import Server, free_port

WORDS = {"y": "yes", "n": "no", "s": "skip", "m": "unsure"}
LONGEST_SECONDS = 2.0
"""Of the presses before a kill."""

LONGEST_RETURN_MS = 120_000
"""After a slow start: a page that has tried in vain for long tries again only every minute."""


def kill_and_label(server: Server, labeling: Labeling, kills: int, seed: int) -> dict[str, Any]:
    """Kill the server while keys are pressed, so many times: how what is stored differs from it."""
    rng = random.Random(seed)
    for _ in range(kills):
        killer = threading.Timer(rng.uniform(0, LONGEST_SECONDS), server.kill)
        killer.start()
        while server.process is not None:
            labeling.page.keyboard.press(rng.choice("ynsm"))
            labeling.page.wait_for_timeout(rng.choice([0, 20, 150, 400]))
        killer.join()
        for _ in range(rng.randrange(4)):
            labeling.page.keyboard.press(rng.choice("yn"))
        server.start()
        expect(labeling.card).to_have_attribute("data-saving", "0", timeout=LONGEST_RETURN_MS)
        labeling.wait()
    return compare(server, labeling)


def compare(server: Server, labeling: Labeling) -> dict[str, Any]:
    """What the card took for answers, against what is stored."""
    rows = server.answers(labeling.session)
    met = [(int(item), WORDS[key]) for key, item, answerable in labeling.presses() if answerable == "true"]
    given, stored = Counter(met), Counter((row["item"], row["answer"]) for row in rows)
    return {
        "answers": len(met),
        "lost": (given - stored).total(),
        "unexpected": (stored - given).total(),
        "duplicated": len(rows) - len({row["selection_id"] for row in rows}),
        "misplaced": sum(row["item"] != row["shown"] for row in rows),
    }


def is_sound(found: dict[str, Any]) -> bool:
    """Whether each answer is stored, once, on the item that was painted."""
    return found["answers"] > 0 and not any(count for name, count in found.items() if name != "answers")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--items", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "projects", items=asked.items, port=free_port())
        server.start()
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium.find(), args=["--no-sandbox"])
                labeling = Labeling(browser.new_page(), f"{server.url}/?project={server.key}")
                found = kill_and_label(server, labeling, asked.kills, asked.seed)
                browser.close()
        finally:
            server.stop()
        verify = [
            sys.executable,
            "-m",
            "closecall.app.cli",
            "verify",
            str(server.data / server.key),
            "--json",
        ]
        checked = json.loads(subprocess.run(verify, capture_output=True, text=True, check=False).stdout)
    print(json.dumps({"kills": asked.kills, **found, "verify": checked}, indent=2))
    sys.exit(0 if is_sound(found) and not checked["problems"] else 1)


if __name__ == "__main__":
    main()
