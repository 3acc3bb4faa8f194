"""The components' ES modules, as the server sends them to browsers.

Browsers may cache the modules forever, because their addresses contain a digest of all modules. A changed
module therefore has a new address, and a page never mixes modules of two versions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent

ROOT = "modules"
"""First part of the address of each module."""


@cache
def contents() -> Mapping[str, bytes]:
    """Return a dict from the modules' paths in this folder, such as ``label/card.js``, to their contents."""
    files = sorted(FOLDER.glob("*/*.js"))
    return {file.relative_to(FOLDER).as_posix(): file.read_bytes() for file in files}


@cache
def digest() -> str:
    """Return the digest of all modules, in 16 hexadecimal digits."""
    found = hashlib.sha256()
    for name, content in contents().items():
        found.update(f"{name}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()[:16]


def address_of(name: str) -> str:
    """Return the address of the module `name`, relative to the pages."""
    return f"{ROOT}/{digest()}/{name}"
