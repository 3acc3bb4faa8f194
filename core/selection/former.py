"""Indexes that were saved under the former name of their query strategy.

The names in `RENAMED`, such as "h-hash", once meant the weighted forms of hyperplane hashing. The weighted
forms are now called "h-hash-weighted" and so on, and the former names mean the methods as published.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from closecall.core.selection.files import MANIFEST

RENAMED = ("h-hash", "eh-hash", "bh-hash", "lbh-hash")
"""Names that once meant the weighted forms, and now mean the methods as published."""


def strategy_of(header: dict[str, Any]) -> str:
    """Return the current name of the strategy whose index has this header.

    The names in `RENAMED` are ambiguous. If the header has the parameter `measure`, the index is of the
    weighted form, because the published methods do not have this parameter.
    """
    name = str(header["strategy"])
    return f"{name}-weighted" if name in RENAMED and "measure" in header["params"] else name


def move_former_indexes(folder: Path) -> None:
    """Rename indexes in `folder` to the current names of their strategies.

    Only call this function while no other process writes to the folder.
    """
    for former in RENAMED:
        try:
            name = strategy_of(json.loads((folder / former / MANIFEST).read_bytes())["header"])
        except (OSError, ValueError, KeyError, TypeError):
            continue  # there is no index, or loading the index will report the damage
        if not (folder / name).exists():
            (folder / former).rename(folder / name)
