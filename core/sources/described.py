"""Source of images whose features come from a chosen extractor."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

from closecall.core.errors import InputError
from closecall.core.sources.base import EXTRACTORS, Extractor, Source
from closecall.core.sources.other_features import OtherFeatures
from closecall.core.sources.registry import open_source


class Described(OtherFeatures):
    """The items of `source`, with the features of the given extractor.

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
        super().__init__(source, extractor)
        self.extractor = extractor

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

    def continuing(self, spec: dict[str, Any], folder: Path | None) -> Source:
        """See `Source.continuing`."""
        if spec.get("kind") != self.kind or spec.get("extractor") != self.extractor:
            return self
        return type(self)(self.source.continuing(spec["source"], folder), self.extractor)

    def without_folder_classes(self) -> Source:
        """See `Source.without_folder_classes`."""
        source = self.source.without_folder_classes()
        return self if source is self.source else type(self)(source, self.extractor)
