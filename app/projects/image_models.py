"""Image models that the start page offers: all models in the folder `models` in the folder of projects."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from closecall.core.errors import InputError
from closecall.core.features import EXTRACTORS

if TYPE_CHECKING:
    from closecall.core.pool.build_size import FeatureType

FOLDER = "models"

PAIR = (
    "onnx/vision_model.onnx",
    "onnx/text_model.onnx",
    "preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "config.json",
)
"""Files of a pair of models, one for images and one for texts."""


FEATURE_TYPES: dict[FeatureType, str] = {
    "float32": "about seven digits",
    "float16": "half the disk space",
    "byte": "less than a third, for many items",
}
"""What the page says about each type in which features can be stored."""


@dataclass(frozen=True)
class Download:
    """A model on the Hugging Face hub.

    Parameters
    ----------
    label : str
        Display name.
    repository : str
        Its repository on the hub.
    folder : str
        Name of the folder for it.
    files : tuple of str
        The files that Closecall needs.
    """

    label: str
    repository: str
    folder: str
    files: tuple[str, ...] = PAIR

    @property
    def reads_texts(self) -> bool:
        """Whether images can be searched by words."""
        return self.files == PAIR

    def command(self, models: Path) -> str:
        """Return the command that downloads the model into a folder of models."""
        where = shlex.quote(str(models / self.folder))
        return f"hf download {self.repository} {' '.join(self.files)} --local-dir {where}"


DOWNLOADS = (
    Download(
        "DINOv2-small",
        "Xenova/dinov2-small",
        "dinov2-small",
        ("onnx/model.onnx", "preprocessor_config.json"),
    ),
    Download("CLIP ViT-B/32", "Xenova/clip-vit-base-patch32", "clip"),
    Download("SigLIP", "Xenova/siglip-base-patch16-224", "siglip"),
    Download("MobileCLIP", "Xenova/mobileclip_s0", "mobileclip"),
)
"""Models for which the start page and the documentation have commands. Closecall itself downloads none."""

TOOLS = 'pip install "closecall[models]" huggingface_hub'
"""Command that installs what downloads and runs models."""


@dataclass(frozen=True)
class AboutModel:
    """Facts about a model that people should know before they use it.

    Parameters
    ----------
    text : str
        Sentences about its features and speed.
    output : str
        The output in use.
    outputs : mapping of str to int
        The number of features of each output, the preferred output first.
    wait : float
        Estimated seconds until labeling can start.
    """

    text: str
    output: str
    outputs: Mapping[str, int]
    wait: float

    @property
    def n_features(self) -> int:
        """Number of features of the output in use."""
        return self.outputs[self.output]


@dataclass(frozen=True)
class ChosenFeatures:
    """The features that a person has chosen for images.

    Parameters
    ----------
    model : str or None
        The path of the model, followed by "#" and the name of an output if that is not the preferred one;
        None for GIST, or if there are no models.
    provider : str or None
        The model's execution provider. If there is no choice of providers, this is None, which means the CPU.
    dtype : {"float32", "float16", "byte"} or None
        The type in which features are stored; None for the default.
    n_features : int or None
        Number of features; None if the model can't be used.
    wait : float
        Seconds until labeling starts.
    """

    model: str | None = None
    provider: str | None = None
    dtype: FeatureType | None = None
    n_features: int | None = EXTRACTORS["gist"].n_features
    wait: float = 0.0

    def disk_space(self, n_items: int) -> int:
        """Return the size in bytes of a pool of `n_items` images with these features."""
        from closecall.core.pool.build_size import dense_bytes

        return dense_bytes(n_items, self.n_features or 0, self.dtype or "float32")


def image_models(projects: Path) -> dict[str, Path]:
    """Return the path of each model, which is a file or a folder, by the name that the start page shows."""
    try:
        entries = sorted((projects / FOLDER).iterdir())
    except OSError:  # the folder is missing or can't be read
        return {}
    return {path.name: path for path in entries if path.suffix == ".onnx" or _has_model(path)}


def about_model(path: Path, provider: str | None = None, output: str | None = None) -> AboutModel:
    """Return facts about a model.

    The speed is measured once on this machine, with the given execution provider
    (`core.onnx.runtime.PROVIDERS`), by default on the CPU. `output` is the output to use, by default the
    preferred one.

    Raises
    ------
    InputError
        If the model or the provider can't be used, or the model lacks the output.
    """
    from closecall.core.onnx import load_model
    from closecall.core.onnx.runtime import CPU
    from closecall.core.pool.build_plan import FIRST_SEGMENT_ROWS

    model = load_model(path, provider=provider or CPU, output=output)
    features, speed, steps, *_ = model.about()
    sentences = [features, speed] if model.is_configured else [features, speed, steps]
    at_once = (os.cpu_count() or 1) if model.provider == CPU else 1
    wait = FIRST_SEGMENT_ROWS / (model.images_per_second * at_once)
    outputs = {one.name: one.n_features for one in model.outputs}
    return AboutModel(" ".join(sentences), model.output.name, outputs, wait)


def providers() -> dict[str, str]:
    """Return the display name of each execution provider offered here, by its name; the CPU is the first."""
    from closecall.core.onnx.runtime import PROVIDERS, offered_providers

    return {name: PROVIDERS[name].label for name in offered_providers()}


def _has_model(path: Path) -> bool:
    from closecall.core.onnx.files import find_model

    try:
        return path.is_dir() and find_model(path).is_file()
    except (InputError, OSError):
        return False
