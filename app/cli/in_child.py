"""Entry point of ``closecall`` in a child process; `app.runtime.child` builds the command line."""

from __future__ import annotations

import os
import sys


def _run(nice: str, *words: str) -> None:
    if hasattr(os, "nice"):
        os.nice(int(nice))

    from closecall.app.cli.main import main  # a slow import, so the priority is lowered first

    main(words, prog_name="closecall")


if __name__ == "__main__":
    _run(*sys.argv[1:])
