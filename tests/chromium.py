"""Which Chromium the browser tests drive; ``python -m tests.chromium`` provides one where there is none.

One that is there, Debian's package where it may be installed, Playwright's own download. Of each the headless
shell rather than the whole browser: the same engine, and a page costs a quarter less. Where none can be had
the browser tests do not run, and the run says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from closecall.app.experiments.bench.browser import find_chromium
from tests import debian

SHELL = "chromium-headless-shell"
"""Debian's command, and its package."""

OPTIONS = [
    "--no-sandbox",
    "--font-render-hinting=none",
    "--js-flags=--no-turbofan --no-maglev",
    "--renderer-process-limit=1",
    "--process-per-site",
]
"""The headless shell would round the widths of letters, which screens of today do not. A page that lives for
seconds is not worth an optimizing compiler, nor a process of its own: one process for all pages costs a
fifth less for each."""


def find() -> str | None:
    """The path of the browser that the tests drive, or None; ``CHROMIUM`` may name another."""
    named, whole = os.environ.get("CHROMIUM"), find_chromium()
    return whole if named or whole is None else shutil.which(SHELL) or _shell_beside(Path(whole)) or whole


def _shell_beside(whole: Path) -> str | None:
    """The headless shell of Playwright's download, which lies beside the whole browser."""
    for folder in whole.parents:
        if folder.name.startswith("chromium-"):
            name = folder.name.replace("chromium-", "chromium_headless_shell-")
            shells = (path for path in folder.with_name(name).glob("*/*headless*shell*") if path.is_file())
            return next((str(path) for path in shells if os.access(path, os.X_OK)), None)
    return None


def _install() -> None:
    if not debian.install(SHELL):
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False)


def main() -> None:
    """Provide a browser if there is none; exit with 1 under ``CI=true`` where that fails."""
    if find() is None:
        print("No Chromium found: trying to install one for the browser tests.", flush=True)
        _install()
    path = find()
    if path:
        print(f"Browser tests use {path}")
    else:
        print("No Chromium can be had here: the browser tests (tests/browser) will NOT run.")
        if os.environ.get("CI") == "true":
            sys.exit(1)


if __name__ == "__main__":
    main()
