"""Image models in ONNX, computed by ONNX Runtime.

A model is one file, or a folder as the Hugging Face hub lays it out: `onnx/model.onnx` or
`onnx/vision_model.onnx`, with `preprocessor_config.json` beside the folder `onnx`. Nothing is downloaded.

**The same bits.** A pool promises that an item's features do not depend on the other items, on the number of
threads, or on interruptions. Batches of images would break this promise: a dynamically quantized model takes
its scales from all images of a batch. So each run of the model gets one image, and as many threads as there
are cores run the model at once. On a processor this costs no time: one core needs 15.7 ms per image for
MobileNetV2 alone, and 17.9 ms in batches of eight. A model that demands a certain number of images per run
gets copies of the same image.
"""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.onnx.preprocessing import CONFIG, LARGEST_SIDE, Preprocessing
from closecall.core.onnx.runtime import external_data, open_session, outputs_of

FILES = ("vision_model.onnx", "model.onnx")
"""Names of an image model in a folder, or in its subfolder `onnx`; the first one that exists is used."""

MAX_FEATURES = 16_384
"""Maximum length of a feature vector."""

SPEED_SIDE, SPEED_RUNS, SPEED_SECONDS = 256, 3, 0.3
"""To measure the speed, images of this side are computed at least this often, and for this long."""

_BEST = ("image_embeds", "pooler_output")
_SCORES = ("logits", "probabilities", "scores", "output", "prob", "softmax")
"""Names of outputs that are scores of classes."""
_CLASS_COUNTS = (1000, 1001, 21_841, 21_843)
"""Numbers of classes in versions of ImageNet: an output of this length is taken for scores of classes."""

_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}


def find_model(path: Path) -> Path:
    """Return the model file that `path`, a file or a folder, stands for.

    Raises
    ------
    InputError
        If there is none, or a folder has several and none of them has a usual name.
    """
    if path.is_file():
        return path
    if not path.is_dir():
        raise InputError(f"there is no model {path}")
    folders = (path / "onnx", path)
    for name in FILES:
        for folder in folders:
            if (folder / name).is_file():
                return folder / name
    found = sorted(file for folder in folders for file in folder.glob("*.onnx"))
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(f"{path} has no .onnx file")
    names = ", ".join(str(file.relative_to(path)) for file in found[:5])
    raise InputError(f"{path} has several models ({names}): name one of these files")


def digest_of(file: Path) -> str:
    """Return 32 hexadecimal digits computed from all bytes of a model, including data kept beside it."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        for part in (file, *external_data(file)):
            with part.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
    except OSError as error:
        raise InputError(f"{file} can't be read: {error.strerror or error}") from error
    return digest.hexdigest()


@dataclass(frozen=True)
class Output:
    """An output of a model, and how it becomes one vector per image.

    Parameters
    ----------
    name : str
    pooling : {"none", "class token", "mean of tokens", "mean of map"}
    n_features : int
        Length of the vector.
    """

    name: str
    pooling: str
    n_features: int

    def vector(self, value: NDArray[Any]) -> NDArray[np.float32]:
        """Return the vector of the first image in `value`, of shape (n_features,), float32."""
        first: NDArray[np.float32] = value[0].astype(np.float32)
        if self.pooling == "class token":
            return np.ascontiguousarray(first[0])
        if self.pooling == "mean of tokens":
            return np.asarray(first.mean(axis=0), dtype=np.float32)
        if self.pooling == "mean of map":
            return np.asarray(first.reshape(len(first), -1).mean(axis=1), dtype=np.float32)
        return first.reshape(-1)


class ImageModel:
    """A model that computes a feature vector from an image. Safe to share between threads.

    Parameters
    ----------
    path : Path
        A file, or a folder (`find_model`).
    output : str, optional
        Name of the output to use. By default the first of these that the model has: `image_embeds`,
        `pooler_output`, tokens (the class token, or the mean if there is none), a feature map (its mean), a
        vector that is not scores of classes, scores of classes.
    preprocessing : Preprocessing, optional
        By default that of the `preprocessor_config.json` in the folder of the file, or above its folder
        `onnx`; without one, the steps usual for ImageNet.

    Attributes
    ----------
    file : Path
        The model's file.
    preprocessing : Preprocessing
    is_configured : bool
        Whether a configuration was found.
    outputs : list of Output
        All outputs that can be used as features, best first.
    output : Output
        The one in use.

    Raises
    ------
    InputError
        If there is no such model, it can't be loaded, reads no images, or has no such output; or if ONNX
        Runtime is not installed.
    """

    def __init__(
        self, path: Path, *, output: str | None = None, preprocessing: Preprocessing | None = None
    ) -> None:
        self.file = find_model(path)
        self._session = open_session(self.file)
        self._input = self._image_input()
        config = next((file for file in _configs(self.file) if file.is_file()), None)
        self.is_configured = preprocessing is not None or config is not None
        if preprocessing is None and config is not None:
            preprocessing = Preprocessing.read(config)
        self.preprocessing = self._fitted(preprocessing)
        self.outputs = self._usable_outputs()
        self.output = self._chosen(output)

    @cached_property
    def digest(self) -> str:
        """Digest of the file (`digest_of`)."""
        return digest_of(self.file)

    @property
    def n_features(self) -> int:
        """Length of a feature vector."""
        return self.output.n_features

    def features(self, image: Image.Image) -> NDArray[np.float32]:
        """Return the feature vector of an image in mode RGB or L, of shape (n_features,), not normalized."""
        (value,) = self._run([self.output.name], self._prepared(image))
        return self.output.vector(value)

    @cached_property
    def images_per_second(self) -> float:
        """How many images one core prepares and computes per second, measured on a few."""
        image = Image.new("RGB", (SPEED_SIDE, SPEED_SIDE), "gray")
        began, runs = time.perf_counter(), 0
        while runs < SPEED_RUNS or time.perf_counter() - began < SPEED_SECONDS:
            self.features(image)
            runs += 1
        return runs / (time.perf_counter() - began)

    def about(self) -> list[str]:
        """Return sentences about the features, for a person who is about to build a pool."""
        by = "" if self.output.pooling == "none" else f" ({self.output.pooling})"
        per_second, steps = self.images_per_second, self.preprocessing.in_words()
        sentences = [
            f"{self.n_features:,} features from output {self.output.name}{by}.",
            f"About {per_second:,.0f} images per second on each core."
            if per_second >= 2
            else f"About {1 / per_second:,.1f} seconds per image on each core.",
            f"Images are prepared as {CONFIG if self.is_configured else 'ImageNet'} asks: {steps}.",
        ]
        others = [f"{one.name} ({one.n_features:,})" for one in self.outputs if one != self.output]
        if others:
            sentences.append(f"Other outputs, chosen by #OUTPUT after the model: {', '.join(others[:5])}.")
        return sentences

    def _prepared(self, image: Image.Image) -> NDArray[Any]:
        """Return the input of the model, of shape (batch, …)."""
        mode = "L" if self._input.channels == 1 else "RGB"
        pixels = self.preprocessing.pixels(image if image.mode == mode else image.convert(mode))
        values = pixels if self._input.dtype == np.uint8 else self.preprocessing.values(pixels)
        if mode == "L":
            values = values[..., None]
        if self._input.channels_first:
            values = values.transpose(2, 0, 1)
        one = np.ascontiguousarray(values, dtype=self._input.dtype)
        return np.broadcast_to(one, (self._input.batch, *one.shape))

    def _run(self, names: Sequence[str], images: NDArray[Any]) -> list[NDArray[Any]]:
        feed = {self._input.name: np.ascontiguousarray(images)}
        values: list[NDArray[Any]] = outputs_of(self._session, names, feed, self.file)
        return values

    def _image_input(self) -> _Input:
        """Return the model's only input of images."""
        inputs = self._session.get_inputs()
        images = [_input_of(one.name, one.shape, one.type) for one in inputs if len(one.shape) == 4]
        usable = [one for one in images if one is not None]
        if not usable:
            shapes = "; ".join(f"{one.name} of shape {one.shape}, {one.type}" for one in inputs)
            raise InputError(
                f"{self.file} reads no images: it needs an input of shape (batch, 3, height, width), and has "
                f"{shapes or 'none'}"
            )
        if len(inputs) > 1:
            others = ", ".join(one.name for one in inputs if one.name != usable[0].name)
            raise InputError(
                f"{self.file} also needs {others}: use the part of the model that reads images, usually "
                f"vision_model.onnx"
            )
        return usable[0]

    def _fitted(self, given: Preprocessing | None) -> Preprocessing:
        """Return the preprocessing, after checking that its images have the size that the model reads."""
        wanted = self._input.size
        if given is None:
            if wanted is None:
                raise InputError(
                    f"{self.file} reads images of any size: put its {CONFIG} beside it, which tells the size"
                )
            return Preprocessing.imagenet(*wanted)
        size = given.size
        if size is None:
            if wanted is None or given.resize is None:
                raise InputError(
                    f"the {CONFIG} of {self.file} does not tell the size of the images: it needs crop_size"
                )
            raise InputError(
                f"{self.file} reads images of {wanted[1]} × {wanted[0]} pixels, but its {CONFIG} has no crop"
            )
        if wanted is not None and size != wanted:
            raise InputError(
                f"{self.file} reads images of {wanted[1]} × {wanted[0]} pixels, but its {CONFIG} makes "
                f"{size[1]} × {size[0]}"
            )
        return given

    def _usable_outputs(self) -> list[Output]:
        """Return the outputs that can be features, best first, from their shapes for one black image."""
        height, width = self.preprocessing.size or (1, 1)
        black = self._prepared(Image.new("RGB", (width, height)))
        names = [one.name for one in self._session.get_outputs()]
        values = self._run(names, black)
        shapes = zip(names, values, strict=True)
        found = [one for name, value in shapes if (one := _output_of(name, value, self._input.batch))]
        if not found:
            raise InputError(
                f"{self.file} has no output that could be features, only {', '.join(names) or 'none'}"
            )
        return sorted(found, key=_rank)

    def _chosen(self, name: str | None) -> Output:
        if name is None:
            return self.outputs[0]
        for output in self.outputs:
            if output.name == name:
                return output
        names = ", ".join(output.name for output in self.outputs)
        raise InputError(f"{self.file} has no output {name!r}: it has {names}")


_loading = threading.Lock()


def load_model(
    path: Path, *, output: str | None = None, preprocessing: Preprocessing | None = None
) -> ImageModel:
    """Return an `ImageModel`; the two last ones are kept, so that all snapshots of a pool share one.

    Raises
    ------
    InputError
        See `ImageModel`.
    """
    file = find_model(path)
    with _loading:
        try:
            known = [(part, part.stat()) for part in (file, *_configs(file)) if part.is_file()]
        except OSError as error:
            raise InputError(f"{file} can't be read: {error.strerror or error}") from error
        identity = tuple((part, stat.st_ino, stat.st_mtime_ns, stat.st_size) for part, stat in known)
        return _load(file, output, preprocessing, identity)


@lru_cache(maxsize=2)
def _load(
    file: Path,
    output: str | None,
    preprocessing: Preprocessing | None,
    identity: tuple[Any, ...],  # noqa: ARG001 (a changed file is loaded again)
) -> ImageModel:
    model = ImageModel(file, output=output, preprocessing=preprocessing)
    _ = model.digest  # of the file as it was loaded
    return model


@dataclass(frozen=True)
class _Input:
    """The input of images: where the channels are, and the numbers that are fixed."""

    name: str
    batch: int
    channels: int
    channels_first: bool
    size: tuple[int, int] | None
    dtype: Any


def _input_of(name: str, shape: Sequence[Any], kind: str) -> _Input | None:
    """Return the input if it can be one of images, in color or gray."""
    batch, *rest = (one if isinstance(one, int) and one > 0 else None for one in shape)
    if kind not in _TYPES:
        return None
    channels_first = rest[0] in (1, 3) or rest[2] not in (1, 3)
    channels = rest[0] if channels_first else rest[2]
    height, width = rest[1:] if channels_first else rest[:2]
    if channels not in (None, 1, 3) or max(height or 1, width or 1) > LARGEST_SIDE:
        return None
    size = (height, width) if height and width else None
    return _Input(name, batch or 1, channels or 3, channels_first, size, _TYPES[kind])


def _output_of(name: str, value: Any, batch: int) -> Output | None:
    """Return how an output becomes a vector per image, or None if it can't."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or value.ndim not in (2, 3, 4):
        return None
    if len(value) != batch or 0 in value.shape:
        return None
    if value.ndim == 2:
        pooling, n_features = "none", value.shape[1]
    elif value.ndim == 3:
        has_class_token = math.isqrt(value.shape[1]) ** 2 != value.shape[1]
        pooling, n_features = "class token" if has_class_token else "mean of tokens", value.shape[2]
    elif value.shape[2:] == (1, 1):
        pooling, n_features = "none", value.shape[1]
    else:
        pooling, n_features = "mean of map", value.shape[1]
    return Output(name, pooling, n_features) if 2 <= n_features <= MAX_FEATURES else None


def _rank(output: Output) -> tuple[int, int]:
    """Return the order in which outputs are preferred; see `ImageModel`."""
    if output.name in _BEST:
        return 0, _BEST.index(output.name)
    are_scores = output.name.lower() in _SCORES or output.n_features in _CLASS_COUNTS
    if output.pooling == "none":
        return (3 if are_scores else 2), 0
    return 1, 0


def _configs(file: Path) -> list[Path]:
    """Return where the configuration of a model may be: beside it, or above its folder `onnx`."""
    folders = [file.parent] + ([file.parent.parent] if file.parent.name == "onnx" else [])
    return [folder / CONFIG for folder in folders]
