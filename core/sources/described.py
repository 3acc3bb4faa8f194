"""Source of images whose features come from a chosen extractor."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.sources.base import EXTRACTORS, Extractor, Items, Problem, Source
from closecall.core.sources.registry import open_source
from closecall.core.sources.texts import Texts


class Described(Source):
    """Source with the items of another source and the features of the given extractor.

    Parameters
    ----------
    source : Source
        Source of images. It must not have features of its own, as texts and embeddings do.
    extractor : {"gist", "edges", "sets"}
        Name of the extractor; see `core.features`.

    Raises
    ------
    InputError
        If there is no such extractor, or the source has features of its own.
    """

    kind: ClassVar[str] = "described"

    def __init__(self, source: Source, extractor: Extractor) -> None:
        if extractor not in EXTRACTORS:
            raise InputError(f"features must be one of {', '.join(EXTRACTORS)}, got {extractor!r}")
        if isinstance(source, Texts):
            raise InputError(f"{source.title} contains texts, but {extractor} features describe images")
        if source.n_features is not None:
            raise InputError(f"{source.title} has its own embeddings: it cannot have other features")
        self.source = source
        self.extractor = extractor
        self.classes = source.classes
        self.title = f"{source.title}, by {extractor}"

    def __len__(self) -> int:
        return len(self.source)

    def spec(self) -> dict[str, Any]:
        """Return the spec of the source and the name of the extractor."""
        return {"kind": self.kind, "extractor": self.extractor, "source": self.source.spec()}

    @classmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None) -> Self:
        """See `Source.from_spec`."""
        return cls(open_source(spec["source"], folder), spec["extractor"])

    @classmethod
    def feature_kind(cls, spec: dict[str, Any], folder: Path | None) -> str:  # noqa: ARG003
        """Return the name of the extractor."""
        return str(spec["extractor"])

    def save(self, folder: Path) -> None:
        """Save what `source` saves."""
        self.source.save(folder)

    def continuing(self, spec: dict[str, Any], folder: Path | None) -> Source:
        """See `Source.continuing`."""
        if spec.get("kind") != self.kind or spec.get("extractor") != self.extractor:
            return self
        return type(self)(self.source.continuing(spec["source"], folder), self.extractor)

    def name(self, item: int) -> str:
        """See `Source.name`."""
        return self.source.name(item)

    def names(self, items: Items) -> list[str]:
        """See `Source.names`."""
        return self.source.names(items)

    def image(self, item: int, size: int) -> Image.Image:
        """See `Source.image`."""
        return self.source.image(item, size)

    def original(self, item: int) -> Path | None:
        """See `Source.original`."""
        return self.source.original(item)

    def grey(self, items: Items) -> tuple[NDArray[np.float32], list[Problem]]:
        """See `Source.grey`."""
        return self.source.grey(items)

    def truth(self, items: Items) -> NDArray[np.int16]:
        """See `Source.truth`."""
        return self.source.truth(items)

    def held_out(self) -> Items:
        """See `Source.held_out`."""
        return self.source.held_out()
