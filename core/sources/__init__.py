from __future__ import annotations

from pathlib import Path
from typing import Any

from core.errors import InputError
from core.sources.base import GREY_SIZE, Items, Problem, Source
from core.sources.digits import Digits
from core.sources.folder import Folder

__all__ = ["GREY_SIZE", "Items", "Problem", "Source", "open_source"]

KINDS: dict[str, type[Source]] = {source.kind: source for source in (Digits, Folder)}


def open_source(spec: dict[str, Any], folder: Path | None = None) -> Source:
    """The source that gave `spec`, in the same order; `folder` is where `Source.save` wrote, if it did.

    Raises
    ------
    InputError
        If the kind is unknown, or what the spec describes is gone or no longer the same.
    """
    kind = spec.get("kind")
    if kind not in KINDS:
        raise InputError(f"source kind must be one of {', '.join(sorted(KINDS))}, got {kind!r}")
    return KINDS[kind].from_spec(spec, folder)
