"""Registry of the kinds of sources, by their names in specs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from closecall.core.errors import InputError
from closecall.core.sources.base import Source
from closecall.core.sources.texts import Texts

KINDS: dict[str, type[Source]] = {}


def open_source(spec: dict[str, Any], folder: Path | None = None) -> Source:
    """Restore the source that returned `spec`.

    `folder` is the folder given to `Source.save`, or None if nothing was saved.

    Raises
    ------
    InputError
        If the kind is unknown, or the data that the spec describes is missing or has changed.
    """
    source = _class_of(spec)
    try:
        return source.from_spec(spec, folder)
    except KeyError as error:
        raise InputError(f"the description of this {source.kind} source lacks {error}") from error


def feature_kind(spec: dict[str, Any], folder: Path | None) -> str:
    """Return `Source.feature_kind` for the source that returned `spec`.

    Raises
    ------
    InputError
        If the kind is unknown, or the features depend on data that is missing or damaged.
    """
    return _class_of(spec).feature_kind(spec, folder)


def holds_texts(spec: dict[str, Any]) -> bool:
    """Return whether the source that returned `spec` has texts instead of images, without opening it."""
    kind = KINDS.get(spec.get("kind", ""))
    return kind is not None and issubclass(kind, Texts)


def item_word(spec: dict[str, Any]) -> str:
    """Return `Source.item_word` without opening the source, or "item" if the kind of source is unknown."""
    kind = KINDS.get(spec.get("kind", ""))
    return "item" if kind is None else kind.item_word


def _class_of(spec: dict[str, Any]) -> type[Source]:
    kind = spec.get("kind")
    if kind not in KINDS:
        raise InputError(f"source kind must be one of {', '.join(sorted(KINDS))}, got {kind!r}")
    return KINDS[kind]
