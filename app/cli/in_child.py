"""Entry point of ``closecall`` in a child process; `app.runtime.child` builds the command line."""

from __future__ import annotations

import os
import sys

from closecall.app.cli.__main__ import run


def _run(nice: str, *words: str) -> None:
    if hasattr(os, "nice"):
        os.nice(int(nice))

    run(words)  # after the priority is lowered, because this begins with slow imports


if __name__ == "__main__":
    _run(*sys.argv[1:])
