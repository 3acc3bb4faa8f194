"""The components' ES modules, as the server hands them to browsers.

A browser may keep them for good: their addresses hold a digest of all of them, so that other modules have
other addresses, and the modules of two versions never meet in one page.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent

ROOT = "modules"
"""What their addresses begin with."""


@cache
def contents() -> Mapping[str, bytes]:
    """Return all modules by their names, which are relative to this folder, such as ``label/card.js``."""
    files = sorted(FOLDER.glob("*/*.js"))
    return {file.relative_to(FOLDER).as_posix(): file.read_bytes() for file in files}


@cache
def digest() -> str:
    """Return what stands for this version of the modules in their addresses."""
    found = hashlib.sha256()
    for name, content in contents().items():
        found.update(f"{name}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()[:16]


def address_of(name: str) -> str:
    """Return where the server has the module `name`, relative to the pages."""
    return f"{ROOT}/{digest()}/{name}"
