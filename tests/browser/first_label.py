"""How long an installed program takes, from the command until the first label is stored::

    python -m tests.browser.first_label --data DIR --folder DIR -- /path/to/closecall

Starts ``closecall demo`` in the folder, and answers the first item in a browser. It warns above a minute, and
fails above five.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

from tests import chromium
from tests.browser.served import Server, free_port

PROMISED, PATIENCE = 60, 300
"""Seconds; slow machines must not fail by their speed alone."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="Where the command makes its project.")
    parser.add_argument("--folder", type=Path, required=True, help="Where the command runs.")
    parser.add_argument("command", nargs="+", help="How to run closecall.")
    asked = parser.parse_args()
    answered, painted, stored = measured(asked.command, asked.data, asked.folder)
    print(
        f"The first label was stored {stored:.1f} s after the command started: the server answered after "
        f"{answered:.1f} s, and the first image could be labeled after {painted:.1f} s."
    )
    if stored > PROMISED:
        print(f"WARNING: that is more than the {PROMISED} s promised; load average {os.getloadavg()[0]:.1f}")


def measured(command: list[str], data: Path, folder: Path) -> tuple[float, float, float]:
    """Seconds from the command to the server's answer, to the image, and to the stored label.

    Raises
    ------
    SystemExit
        If there is no label after `PATIENCE` seconds.
    """
    served = Server(data, items=0, port=free_port())  # the items are the command's own default
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.find(), args=chromium.OPTIONS)
        page = browser.new_page()
        began = time.monotonic()

        def left() -> float:
            """Milliseconds; 0 would be for ever."""
            return max(1.0, 1000 * (began + PATIENCE - time.monotonic()))

        words = [*command, "demo", "--headless", "--port", str(served.port), "--data", str(data)]
        with served.log.open("wb") as log:
            started = subprocess.Popen(words, cwd=folder, stdout=log, stderr=log, start_new_session=True)
        try:
            while not served.answers_health():
                if started.poll() is not None or left() == 1.0:
                    sys.exit(f"No server answers:\n{served.log.read_text('utf-8', 'replace')}")
                time.sleep(0.1)
            answered = time.monotonic() - began
            page.goto(f"{served.url}/?project={served.key}", timeout=left())
            expect(page.locator(".card")).to_have_attribute("data-answerable", "true", timeout=left())
            painted = time.monotonic() - began
            page.keyboard.press("n")
            while not served.answered():
                if left() == 1.0:
                    sys.exit(f"No label is stored:\n{served.log.read_text('utf-8', 'replace')}")
                time.sleep(0.05)
            return answered, painted, time.monotonic() - began
        finally:
            browser.close()
            started.terminate()
            with suppress(subprocess.TimeoutExpired):
                started.wait(timeout=30)
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
            started.wait()


if __name__ == "__main__":
    main()
