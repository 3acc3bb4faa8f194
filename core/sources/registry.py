"""The kinds of source there are, by the word in their specs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.errors import InputError
from core.sources.base import Source

KINDS: dict[str, type[Source]] = {}


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
    try:
        return KINDS[kind].from_spec(spec, folder)
    except KeyError as error:
        raise InputError(f"the description of this {kind} source lacks {error}") from error
