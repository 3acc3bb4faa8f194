"""Runs ``closecall`` in a child process; `app.runtime.child` makes its command line.

It runs as a file, and imports nothing but the standard library until the module path is that of the parent.
"""

from __future__ import annotations

import json
import os
import sys


def _run(path: str, nice: str, *words: str) -> None:
    if hasattr(os, "nice"):
        os.nice(int(nice))
    sys.path[:] = json.loads(path)

    from closecall.app.cli.main import main

    main(words, prog_name="closecall")


if __name__ == "__main__":
    _run(*sys.argv[1:])
