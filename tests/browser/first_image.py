"""How long the first image takes, from the click on *Create* until it can be answered::

    python -m tests.browser.first_image --photographs DIR [--number 5000] [--times 3]

DIR is filled with photographs of 12 megapixels where it is not there: 60 made-up scenes, smoothed noise of
four sizes with edges and grain, as JPEG of quality 85 (1.9 MB each). The other files are copies of these that
differ in their comment. Each time a new server begins with an empty folder of projects.
"""

from __future__ import annotations

import argparse
import io
import os
import struct
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from playwright.sync_api import Page, expect, sync_playwright

from closecall.app.runtime import child
from tests import chromium
from tests.browser.served import free_port

WIDTH, HEIGHT = 4000, 3000
SCENES = 60
PATIENCE_MS = 600_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photographs", type=Path, required=True)
    parser.add_argument("--number", type=int, default=5000)
    parser.add_argument("--times", type=int, default=3)
    asked = parser.parse_args()
    if not asked.photographs.exists():
        take(asked.photographs, asked.number)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.find(), args=chromium.OPTIONS)
        for _ in range(asked.times):
            with tempfile.TemporaryDirectory() as data:
                seconds = measured(browser.new_page(), Path(data), asked.photographs)
            print(f"first image after {seconds:.1f} s, load average {os.getloadavg()[0]:.1f}", flush=True)
        browser.close()


def measured(page: Page, data: Path, photographs: Path) -> float:
    """Seconds from the click to the first image, at a server that has just begun."""
    port = free_port()
    words = ["serve", str(data / "projects"), "--headless", "--port", str(port)]
    (data / "projects").mkdir()
    with (data / "server.log").open("wb") as log:
        server = subprocess.Popen(child.command(*words), env=child.environment(), stdout=log, stderr=log)
    try:
        while not answers(port):
            assert server.poll() is None, (data / "server.log").read_text("utf-8", "replace")
            time.sleep(0.1)
        page.goto(f"http://127.0.0.1:{port}/projects")
        page.get_by_role("textbox", name="Folder").fill(str(photographs))
        page.get_by_role("textbox", name="Question").fill("Is it green?")
        began = time.perf_counter()
        page.get_by_role("button", name="Create and label").click()
        expect(page.locator(".card")).to_have_attribute("data-answerable", "true", timeout=PATIENCE_MS)
        return time.perf_counter() - began
    finally:
        page.close()
        server.terminate()
        server.wait()


def answers(port: int) -> bool:
    """Whether the server is up."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def take(folder: Path, number: int) -> None:
    """Fill the folder with photographs."""
    rng = np.random.default_rng(12)
    scenes = [scene(rng) for _ in range(min(SCENES, number))]
    folder.mkdir(parents=True)
    for i in range(number):
        raw, note = scenes[i % len(scenes)], b"photograph %06d" % i
        comment = b"\xff\xfe" + struct.pack(">H", len(note) + 2) + note
        (folder / f"IMG_{i:05d}.jpg").write_bytes(raw[:2] + comment + raw[2:])


def scene(rng: np.random.Generator) -> bytes:
    """Return a picture as JPEG."""
    colours = np.linspace(170, 70, HEIGHT, dtype=np.float32)[:, None, None] + np.zeros(
        (1, WIDTH, 3), np.float32
    )
    for n, strength in ((6, 70), (24, 40), (120, 22), (600, 12)):
        noise = rng.normal(size=(3, n * 3 // 4, n)).astype(np.float32)
        for plane, values in enumerate(noise):
            large = Image.fromarray(values).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
            colours[..., plane] += strength * np.asarray(large)
    image = Image.fromarray(np.clip(colours, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for _ in range(30):
        x, y, r = int(rng.integers(WIDTH)), int(rng.integers(HEIGHT)), int(rng.integers(20, 500))
        red, green, blue, width = (int(value) for value in rng.integers(3, 255, 4))
        draw.ellipse((x - r, y - r, x + r, y + r), outline=(red, green, blue), width=3 + width // 5)
    grain = rng.integers(-4, 5, (HEIGHT, WIDTH, 1), dtype=np.int16)
    held = io.BytesIO()
    Image.fromarray(np.clip(np.asarray(image) + grain, 0, 255).astype(np.uint8)).save(
        held, "JPEG", quality=85
    )
    return held.getvalue()


if __name__ == "__main__":
    main()
