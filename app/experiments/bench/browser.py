"""A headless Chromium browser, controlled by Playwright, for benchmarks and tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from closecall.app.runtime.extras import load
from closecall.core.errors import InputError

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "chromium-headless-shell",
)


def find_chromium() -> str | None:
    """Return the path of a Chromium browser on this machine; None if there is none.

    The path in the environment variable ``CHROMIUM`` takes precedence. Without that variable, search PATH,
    then look for the browser that Playwright installed.
    """
    named = os.environ.get("CHROMIUM")
    if named:
        return named if Path(named).exists() else None
    found = next(filter(None, map(shutil.which, NAMES)), None)
    return found or _playwrights()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a headless Chromium, yield it, and close it at the end of the context.

    Raises
    ------
    InputError
        If Playwright or Chromium is missing.
    """
    playwright_api = load("playwright.sync_api", "bench", distribution="playwright")
    path = find_chromium()
    if path is None:
        raise InputError(
            "Measuring the page needs Chromium on PATH, or what python -m playwright install chromium gives"
        )
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def _playwrights() -> str | None:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None
