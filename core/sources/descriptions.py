"""Words that name features for the images of a source, in place of the source's own features.

A project can have several sets of features of its images, called descriptions. The words are:

gist              GIST of the grayscale image
edges             edge histograms
MODEL             an image model in ONNX: a file or a folder (`core.onnx.model`); MODEL#OUTPUT names the
                  output to use
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from closecall.core.errors import InputError
from closecall.core.onnx.loading import model_named
from closecall.core.onnx.runtime import CPU
from closecall.core.sources.base import Source
from closecall.core.sources.described import Described
from closecall.core.sources.embedded import Embedded, model_name
from closecall.core.sources.other_features import OtherFeatures
from closecall.core.sources.registry import KINDS

LABELS = {"gist": "GIST", "edges": "edge histograms", "sets": "sets of local edges"}
"""Display names of the features that extractors compute."""

PLAIN = ("gist", "edges")
"""Words for features that need no model."""


def described(source: Source, word: str, provider: str | None = None) -> Source:
    """Return the items of `source` with the features that `word` names.

    `provider` is the execution provider of a model (`core.onnx.runtime.PROVIDERS`). By default, it is the CPU
    for a new pool. A pool that is extended keeps its own provider.

    If `source` is itself a source with other features (`OtherFeatures`), only its images are used.

    Raises
    ------
    InputError
        If there is no such model, if the model or the provider can't be used, if a provider is given without
        a model, or if `source` has no images to describe.
    """
    images = source
    while isinstance(images, OtherFeatures):
        images = images.source
    if word in PLAIN:
        if provider is not None:
            raise InputError(f"only models have a provider: {word} is none")
        return Described(images, "gist" if word == "gist" else "edges")
    model = model_named(word, CPU if provider is None else provider)
    if model is None:
        raise InputError(f"there is no model {word}: a description is {', '.join(PLAIN)} or a model in ONNX")
    return Embedded(images, model, is_chosen=provider is not None)


def spec_of_images(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of a source's images, whatever their features. Equal specs mean the same items."""
    while spec.get("kind") in (Described.kind, Embedded.kind):
        spec = spec["source"]
    return spec


def word_of(spec: dict[str, Any]) -> str:
    """Return the word with which `described` made the source with this spec."""
    if spec["kind"] == Embedded.kind:
        return f"{spec['model']}#{spec['output']['name']}"
    return str(spec["extractor"])


def label_of(spec: dict[str, Any], feature_kind: str) -> str:
    """Return the display name of the features of the source with this spec; see `Source.feature_kind`."""
    if spec["kind"] == Embedded.kind:
        return f"{model_name(Path(spec['model']))}, output {spec['output']['name']}"
    return LABELS.get(feature_kind, KINDS[spec["kind"]].own_features)
