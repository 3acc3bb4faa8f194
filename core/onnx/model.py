"""Image models in ONNX format, run by ONNX Runtime.

A model is one file, or a folder as the Hugging Face hub lays it out: `onnx/model.onnx` or
`onnx/vision_model.onnx`, with `preprocessor_config.json` beside the folder `onnx`. Nothing is downloaded.

**Reproducibility.** The features of an item must not depend on the other items, on the number of threads, or
on interruptions. In a batch, the features would depend on the other images, because a dynamically quantized
model takes its scales from all images of a batch. So each run of the model gets one image, and as many
threads as there are cores run the model at once. On a CPU this costs no time: for MobileNetV2, one core needs
15.7 ms per image in single runs, and 17.9 ms in batches of eight. If a model demands a certain number of
images per run, it gets copies of one image. On other execution providers, runs take turns, and the last
digits may differ.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.onnx.files import configurations, digest_of, find_model
from closecall.core.onnx.preprocessing import CONFIG, LARGEST_SIDE, Preprocessing
from closecall.core.onnx.resizing import Resizing
from closecall.core.onnx.runtime import CPU, PROVIDERS, open_session, outputs_of

MAX_BATCH = 64
"""Maximum number of images that a model may demand per run; all are copies of one image."""

MAX_FEATURES = 16_384
"""Maximum length of a feature vector."""

SPEED_SIDE, SPEED_RUNS, SPEED_SECONDS = 256, 3, 0.3
"""For the measurement of speed: the image's side in pixels, and the minimum number of runs and seconds."""

_BEST = ("image_embeds", "pooler_output", "last_hidden_state")
_INNER = re.compile(r"attentions?|hidden_states?|masks?|boxes|past_", re.IGNORECASE)
"""Names of outputs with internal values of a model, or with values for parts of an image."""
_FEW_FEATURES = 8
_SCORES = ("logits", "probabilities", "scores", "output", "prob", "softmax")
"""Names of outputs that are scores of classes."""
_CLASS_COUNTS = (1000, 1001, 21_841, 21_843)
"""Numbers of classes in versions of ImageNet. An output with one of these lengths counts as class scores."""

_FLOATS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
_TYPES = {**_FLOATS, "tensor(uint8)": np.uint8}
"""Supported types of inputs, with their NumPy types. Only the types in `_FLOATS` are supported as outputs."""


@dataclass(frozen=True)
class Output:
    """Output of a model, with the pooling that turns it into one vector per image.

    Parameters
    ----------
    name : str
    pooling : {"none", "class token", "mean of tokens", "mean of map", "mean of map, channels last"}
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
        if self.pooling == "mean of map, channels last":
            return np.asarray(first.reshape(-1, first.shape[-1]).mean(axis=0), dtype=np.float32)
        if self.pooling == "mean of map":
            return np.asarray(first.reshape(len(first), -1).mean(axis=1), dtype=np.float32)
        return first.reshape(-1)


class ImageModel:
    """A model that computes a feature vector from an image. Safe to share between threads.

    Parameters
    ----------
    path : Path
        The model's file, or a folder in which `find_model` finds it.
    output : str, optional
        Name of the output to use. The default is the first of these that the model has: `image_embeds`;
        `pooler_output`; `last_hidden_state`; tokens or a feature map; a vector that is not class scores;
        class scores; any other output. Tokens are reduced to the class token or, if there is none, to their
        mean. A feature map is reduced to its mean.
    preprocessing : Preprocessing, optional
        By default, the steps described in the first existing file of `configurations(file)`. If there is no
        such file, the default is `Preprocessing.imagenet`.
    provider : str, optional
        The execution provider, one of `core.onnx.runtime.PROVIDERS`; by default, the CPU.

    Attributes
    ----------
    file : Path
        The model's file.
    provider : str
    preprocessing : Preprocessing
    is_configured : bool
        Whether `preprocessing` was given or a configuration was found.
    outputs : list of Output
        All outputs that can be used as features, best first.
    output : Output
        The output in use.

    Raises
    ------
    ProviderError
        If the execution provider can't be used here.
    InputError
        If the model doesn't exist, can't be loaded, doesn't read images, or lacks the output, or if ONNX
        Runtime is not installed.
    """

    def __init__(
        self,
        path: Path,
        *,
        output: str | None = None,
        preprocessing: Preprocessing | None = None,
        provider: str = CPU,
    ) -> None:
        self.file = find_model(path)
        self.provider = provider
        self._session = open_session(self.file, provider)
        self._input = self._image_input()
        config = next((file for file in configurations(self.file) if file.is_file()), None)
        self.is_configured = preprocessing is not None or config is not None
        if preprocessing is None and config is not None:
            preprocessing = Preprocessing.read(config)
        self.preprocessing = self._fitted(preprocessing)
        self.outputs = self._usable_outputs()
        self.output = self._chosen(output)

    @cached_property
    def digest(self) -> str:
        """Digest of the model's files; see `digest_of`."""
        return digest_of(self.file)

    @property
    def n_features(self) -> int:
        """Length of a feature vector."""
        return self.output.n_features

    def features(self, image: Image.Image) -> NDArray[np.float32]:
        """Return the feature vector of an image in mode RGB or L, of shape (n_features,), not normalized."""
        return self.features_of_resized(self.resizing(*image.size).of(image))

    def resizing(self, width: int, height: int) -> Resizing:
        """Return how to resize an image of this size for the model."""
        return replace(self.preprocessing.resizing(width, height), mode=self._mode)

    def features_of_resized(self, resized: Image.Image) -> NDArray[np.float32]:
        """Return the feature vector of an image that was resized according to `resizing`; see `features`."""
        (value,) = self._run([self.output.name], self.prepared(resized))
        vector = self.output.vector(value)
        if len(vector) != self.n_features:
            raise InputError(
                f"output {self.output.name} of {self.file} has {self.n_features:,} features for one image "
                f"and {len(vector):,} for another: choose another output"
            )
        return vector

    def prepared(self, resized: Image.Image) -> NDArray[Any]:
        """Return the model's input for an image that was resized according to `resizing`.

        The shape is (batch, …). If the batch is larger than 1, it has copies of the image.
        """
        pixels = self.preprocessing.cropped(resized)
        values = pixels if self._input.dtype == np.uint8 else self.preprocessing.values(pixels)
        if values.ndim == 2:
            values = values[..., None]
        if self._input.channels_first:
            values = values.transpose(2, 0, 1)
        one = np.ascontiguousarray(values, dtype=self._input.dtype)
        return np.broadcast_to(one, (self._input.batch, *one.shape))

    @cached_property
    def images_per_second(self) -> float:
        """Measured number of images per second that one thread preprocesses and passes through the model."""
        image = Image.new("RGB", (SPEED_SIDE, SPEED_SIDE), "gray")
        began, runs = time.perf_counter(), 0
        while runs < SPEED_RUNS or time.perf_counter() - began < SPEED_SECONDS:
            self.features(image)
            runs += 1
        return runs / (time.perf_counter() - began)

    def about(self) -> list[str]:
        """Return sentences that describe the features to a user before a pool is built."""
        by = "" if self.output.pooling == "none" else f" ({self.output.pooling})"
        per_second, steps = self.images_per_second, self.preprocessing.in_words()
        label = PROVIDERS[self.provider].label
        where = "on each core" if self.provider == CPU else f"in one thread with {label}"
        sentences = [
            f"{self.n_features:,} features from output {self.output.name}{by}.",
            f"About {per_second:,.0f} images per second {where}."
            if per_second >= 2
            else f"About {1 / per_second:,.1f} seconds per image {where}.",
            f"Images are prepared as {CONFIG if self.is_configured else 'ImageNet'} asks: {steps}.",
        ]
        others = [f"{one.name} ({one.n_features:,})" for one in self.outputs if one != self.output]
        if others:
            sentences.append(f"Other outputs, chosen by #OUTPUT after the model: {', '.join(others[:5])}.")
        return sentences

    @property
    def _mode(self) -> str:
        return "L" if self._input.channels == 1 else "RGB"

    def _run(self, names: Sequence[str], images: NDArray[Any]) -> list[NDArray[Any]]:
        feed = {self._input.name: np.ascontiguousarray(images)}
        values: list[NDArray[Any]] = outputs_of(self._session, names, feed, self.file)
        return values

    def _image_input(self) -> _Input:
        """Return the model's image input, which must be its only input."""
        inputs = self._session.get_inputs()
        images = [_input_of(one.name, one.shape, one.type) for one in inputs if len(one.shape) == 4]
        usable = [one for one in images if one is not None]
        if not usable:
            shapes = "; ".join(f"{one.name} of shape {one.shape}, {one.type}" for one in inputs)
            raise InputError(
                f"{self.file} reads no images: it needs an input of shape (batch, 3, height, width), and has "
                f"{shapes or 'none'}"
            )
        if usable[0].batch > MAX_BATCH:
            raise InputError(
                f"{self.file} reads {usable[0].batch:,} images at once, but at most {MAX_BATCH} work"
            )
        if len(inputs) > 1:
            others = ", ".join(one.name for one in inputs if one.name != usable[0].name)
            raise InputError(
                f"{self.file} also needs {others}: use the part of the model that reads images, usually "
                f"vision_model.onnx"
            )
        return usable[0]

    def _fitted(self, given: Preprocessing | None) -> Preprocessing:
        """Check that preprocessed images have the size that the model reads; return the preprocessing.

        If `given` is None, return the usual preprocessing for ImageNet.
        """
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
        """Return the outputs that can be features, best first. Run the model once to find their shapes."""
        height, width = self.preprocessing.size or (1, 1)
        black = self.prepared(Image.new(self._mode, (width, height)))
        names = [one.name for one in self._session.get_outputs() if one.type in _FLOATS]
        values = self._run(names, black) if names else []
        shapes = zip(names, values, strict=True)
        size, batch = (height, width), self._input.batch
        found = [one for name, value in shapes if (one := _output_of(name, value, batch, size))]
        if not found:
            others = ", ".join(one.name for one in self._session.get_outputs())
            raise InputError(f"{self.file} has no output that could be features, only {others or 'none'}")
        return sorted(found, key=_rank)

    def _chosen(self, name: str | None) -> Output:
        if name is None:
            return self.outputs[0]
        for output in self.outputs:
            if output.name == name:
                return output
        names = ", ".join(output.name for output in self.outputs)
        raise InputError(f"{self.file} has no output {name!r}: it has {names}")


@dataclass(frozen=True)
class _Input:
    """Image input of a model. `size` is the fixed height and width, or None if they may vary."""

    name: str
    batch: int
    channels: int
    channels_first: bool
    size: tuple[int, int] | None
    dtype: Any


def _input_of(name: str, shape: Sequence[Any], kind: str) -> _Input | None:
    """Return the input if it can be an image in color or gray, otherwise None."""
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


def _output_of(name: str, value: Any, batch: int, size: tuple[int, int]) -> Output | None:
    """Choose how an output is pooled, by the shape of its `value`.

    `value` is the output for a batch of images of height and width `size`.

    Return None if the output can't be turned into one vector per image.
    """
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or value.ndim not in (2, 3, 4):
        return None
    if len(value) != batch or 0 in value.shape:
        return None
    if value.ndim == 2:
        pooling, n_features = "none", value.shape[1]
    elif value.ndim == 3:
        is_grid = any(value.shape[1] == (size[0] // n) * (size[1] // n) for n in range(1, max(size) + 1))
        pooling, n_features = "mean of tokens" if is_grid else "class token", value.shape[2]
    elif value.shape[2:] == (1, 1):
        pooling, n_features = "none", value.shape[1]
    elif _is_grid(value.shape[1:3], size) and not _is_grid(value.shape[2:], size):
        pooling, n_features = "mean of map, channels last", value.shape[3]
    else:
        pooling, n_features = "mean of map", value.shape[1]
    return Output(name, pooling, n_features) if 2 <= n_features <= MAX_FEATURES else None


def _is_grid(shape: Sequence[int], size: tuple[int, int]) -> bool:
    """Return whether `shape` is the image's height and width, divided by the same integer and rounded up."""
    return any(tuple(shape) == (-(-size[0] // n), -(-size[1] // n)) for n in range(1, max(size) + 1))


def _rank(output: Output) -> tuple[int, int]:
    """Return a sort key by which the preferred output comes first; see `ImageModel`."""
    if output.name in _BEST:
        return 0, _BEST.index(output.name)
    if _INNER.match(output.name):
        return 5, 0
    if output.n_features < _FEW_FEATURES:
        return 4, 0
    if output.name.lower() in _SCORES or output.n_features in _CLASS_COUNTS:
        return 3, 0
    return (2 if output.pooling == "none" else 1), 0
