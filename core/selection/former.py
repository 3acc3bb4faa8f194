"""Strategy names that meant the weighted forms before hyperplane hashing had two forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from closecall.core.selection.files import MANIFEST

RENAMED = ("h-hash", "eh-hash", "bh-hash", "lbh-hash")
"""Names of the papers' methods, formerly the names of their weighted forms."""


def strategy_of(header: dict[str, Any]) -> str:
    """Return today's name of the strategy whose index has this header.

    Only weighted forms have a `measure`.
    """
    name = str(header["strategy"])
    return f"{name}-weighted" if name in RENAMED and "measure" in header["params"] else name


def move_former_indexes(folder: Path) -> None:
    """Rename indexes in `folder` to the current names of their strategies.

    Only call this while no other process writes there.
    """
    for former in RENAMED:
        try:
            name = strategy_of(json.loads((folder / former / MANIFEST).read_bytes())["header"])
        except (OSError, ValueError, KeyError, TypeError):
            continue  # there is none, or loading it will say that it is damaged
        if not (folder / name).exists():
            (folder / former).rename(folder / name)
