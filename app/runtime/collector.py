"""Settings of Python's garbage collector for a server, which holds many objects that stay.

A full collection looks at all objects and holds up all threads meanwhile: 0.2 s for the modules of a server
with one project on a quiet machine, and over a second on a busy one. A collection skips frozen objects.
"""

from __future__ import annotations

import gc
import threading

YOUNG = 10_000
"""Number of new objects after which the collector looks at them, instead of Python's 700."""

LATER_SECONDS = 60.0
"""Seconds after which the modules that the first requests have imported are frozen, too."""


def settle() -> None:
    """Freeze the objects that exist now, so that all collections skip them, and collect less often."""
    gc.set_threshold(YOUNG, 20, 20)
    _freeze()
    later = threading.Timer(LATER_SECONDS, _freeze)
    later.daemon = True
    later.start()


def _freeze() -> None:
    gc.collect()  # frozen garbage would be kept for good
    gc.freeze()
