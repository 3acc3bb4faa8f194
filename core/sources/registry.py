"""The kinds of source there are, by the word in their specs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from closecall.core.errors import InputError
from closecall.core.sources.base import Source
from closecall.core.sources.texts import Texts

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


def holds_texts(spec: dict[str, Any]) -> bool:
    """Whether the items of the source that gave `spec` are texts, and not images; also where it is gone."""
    kind = KINDS.get(spec.get("kind", ""))
    return kind is not None and issubclass(kind, Texts)
