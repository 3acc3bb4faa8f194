"""Measurement of this process's anonymous memory, which excludes mapped files."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

STATUS = Path("/proc/self/status")


def anonymous_mb() -> float | None:
    """Return this process's anonymous memory (RssAnon) in 10⁶ bytes; None if the system can't report it."""
    if not STATUS.exists():
        return None
    for line in STATUS.read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024 / 1e6
    return None


class PeakMemory:
    """A context manager that samples anonymous memory 20 times per second.

    At the end of the context, the attribute `mb` is the peak in 10⁶ bytes; None if the system does not report
    this memory.
    """

    def __init__(self) -> None:
        self.mb = anonymous_mb()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while self.mb is not None and not self._over.wait(0.05):
            self.mb = max(self.mb, anonymous_mb() or 0.0)
