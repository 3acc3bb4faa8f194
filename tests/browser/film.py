"""Films the autopilot for the README::

    python -m tests.browser.film --data DIR [--items 1000000] [--answers 40] [--dark]

The demo's projects are in DIR, where they are made if they are not there. Each answer is a picture; shown at
two a second they are the autopilot at that pace, from its first answer on. The film goes to assets/.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, expect, sync_playwright

from tests import chromium
from tests.browser.labeling import Labeling
from tests.browser.screenshots import ASSETS
from tests.browser.served import Server, free_port
from tests.browser.test_demo import choose

SCREEN = {"width": 1280, "height": 800}

WIDTH = 960
"""Pixels of the film."""

PACE = 500
"""Milliseconds of a picture."""

LAST = 2500
"""Milliseconds of the last picture, on which the selection is checked against a full scan."""

PATIENCE = 60_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--answers", type=int, default=40)
    parser.add_argument("--dark", action="store_true")
    asked = parser.parse_args()
    server = Server(asked.data, items=asked.items, port=free_port())
    server.start()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium.find(), args=["--no-sandbox"])
            pictures = film(browser, server, asked.answers, dark=asked.dark)
            browser.close()
    finally:
        server.stop()
    target = ASSETS / f"autopilot-{'dark' if asked.dark else 'light'}.webp"
    durations = [PACE] * (len(pictures) - 1) + [LAST]
    pictures[0].save(
        target, save_all=True, append_images=pictures[1:], duration=durations, loop=0, quality=80, method=6
    )
    print(f"{len(pictures)} pictures, {target.stat().st_size / 1e6:.1f} MB in {target}")


def film(browser: Browser, server: Server, answers: int, *, dark: bool) -> list[Image.Image]:
    """The card after each step of an autopilot that starts from nothing, and the check at its end."""
    page = browser.new_page(viewport=SCREEN, color_scheme="dark" if dark else "light")
    labeling = Labeling(page, f"{server.url}/?project={server.key}")
    page.locator(".st-key-growth").wait_for(state="hidden", timeout=PATIENCE)
    page.get_by_role("button", name="Demo").click()
    page.get_by_role("button", name="Reset for the next audience…").click()
    choose(page, "Reset", exact=True)
    choose(page, "Watch the autopilot")
    labeling.wait()
    page.mouse.move(0, 0)
    pictures = []
    for _ in range(answers):
        labeling.wait_for_what_follows()
        pictures.append(picture(page.screenshot()))
        labeling.press(".")
    page.get_by_role("button", name="Check against a full scan").click()
    expect(page.locator(".full-scan .note")).to_contain_text("Rank", timeout=PATIENCE)
    pictures.append(picture(page.screenshot()))
    page.close()
    return pictures


def picture(screenshot: bytes) -> Image.Image:
    shot = Image.open(io.BytesIO(screenshot)).convert("RGB")
    return shot.resize((WIDTH, shot.height * WIDTH // shot.width), Image.Resampling.LANCZOS)


if __name__ == "__main__":
    main()
