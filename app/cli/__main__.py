"""Entry point of ``closecall`` and ``python -m closecall.app.cli``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from closecall.app.runtime.interruption import EXIT_STOPPED, STARTS_OVER


def run(words: Sequence[str] | None = None) -> None:
    """Run the command in `words`, by default that of the command line.

    The commands report Ctrl+C themselves. Here it is reported during their imports, which take a second.
    """
    try:
        from closecall.app.cli.main import main

        main(words, prog_name="closecall")
    except KeyboardInterrupt:
        print(f"Stopped. {STARTS_OVER}", file=sys.stderr)
        sys.exit(EXIT_STOPPED)


if __name__ == "__main__":
    run()
