"""Preprocessing of images for a model, as described in the model's configuration.

The configuration is `preprocessor_config.json`, or the part `image_processor` of `processor_config.json`.
The Hugging Face hub keeps these files beside a model. The steps and their order are those of the
`transformers` library: resize with Pillow, crop the center, scale the values, normalize each channel. The
special rules of the image processors of ConvNeXT, LeViT, PoolFormer and EfficientNet are followed. A
configuration with unknown steps is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.onnx.resizing import Resizing

CONFIG = "preprocessor_config.json"
CONFIGS = (CONFIG, "processor_config.json")
"""Names of configurations; the first one that exists is read."""

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_DEVIATION = (0.229, 0.224, 0.225)
SHORT_EDGE = 256 / 224
"""For models without a configuration: shortest edge after resizing, divided by shortest edge after cropping.
"""

LARGEST_SIDE = 4096
"""Maximum side in pixels of the images that a model may read."""

MOST_RESIZED = 16
"""Maximum number of pixels of a resized image, as a multiple of the pixels that are left after cropping. If
an image would have more, only the cropped part is computed.
"""

_SQUARE = ("ViT", "DeiT", "Beit", "Siglip")
"""Image processors for which a single number as `size` is both height and width, not the shortest edge."""

_BILINEAR = ("ViT", "MobileNetV1", "MobileNetV2", "Segformer")
"""Image processors whose default interpolation is bilinear. For all others, it is bicubic."""

_UNKNOWN_STEPS = (
    "do_pad",
    "size_divisor",
    "max_num_patches",
    "do_thumbnail",
    "do_align_long_axis",
    "do_crop_margin",
)


@dataclass(frozen=True)
class Preprocessing:
    """Steps from an image to a model's input.

    Parameters
    ----------
    resize : int, (int, int) or None
        An int is the length in pixels of the shortest edge after resizing, which keeps the aspect ratio. A
        pair is the height and width after resizing, whatever the aspect ratio. None keeps the size.
    crop : (int, int) or None
        Height and width of the central part that is kept. Smaller images are padded with black. None keeps
        the whole image.
    resample : int
        Pillow's number of the interpolation: 0 nearest, 1 Lanczos, 2 bilinear, 3 bicubic, 4 box, 5 Hamming.
    scale : float
        Factor by which pixel values from 0 to 255 are multiplied.
    mean, deviation : tuple of float
        For each channel, the mean that is subtracted from scaled values, and the deviation that divides them.
    is_bgr : bool
        Whether the channels are in the order blue, green, red.
    stretch : bool
        Whether the values of 16-bit grayscale images are stretched, so that the darkest is black and the
        brightest is white, instead of divided by 257. Only pools from before November 29, 2026 need this.
    """

    resize: int | tuple[int, int] | None
    crop: tuple[int, int] | None
    resample: int = int(Image.Resampling.BICUBIC)
    scale: float = 1 / 255
    mean: tuple[float, ...] = IMAGENET_MEAN
    deviation: tuple[float, ...] = IMAGENET_DEVIATION
    is_bgr: bool = False
    stretch: bool = False

    @classmethod
    def imagenet(cls, height: int, width: int) -> Self:
        """Return the steps that most models trained on ImageNet expect, for an input of this size."""
        return cls(
            round(min(height, width) * SHORT_EDGE), (height, width), resample=int(Image.Resampling.BILINEAR)
        )

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read a `preprocessor_config.json`.

        Raises
        ------
        InputError
            If the file can't be read, or describes steps that are not supported.
        """
        try:
            config = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{file} can't be read: {error}") from error
        try:
            return cls._of(config.get("image_processor", config))
        except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError) as error:
            raise InputError(f"{file} does not describe how images are prepared: {error}") from error

    @classmethod
    def _of(cls, config: Mapping[str, Any]) -> Self:
        if steps := [name for name in _UNKNOWN_STEPS if config.get(name)]:
            raise ValueError(f"{', '.join(steps)} is not supported")
        kind = str(config.get("image_processor_type") or config.get("feature_extractor_type") or "")
        crop = None
        if config.get("do_center_crop", "crop_size" in config):
            crop = _height_and_width(config["crop_size"])
        resize = None
        if config.get("do_resize", "size" in config):
            resize = _size(config["size"], kind)
            if kind.startswith("ConvNext") or (config.get("crop_pct") and crop is None):
                resize, crop = _of_convnext(resize, config.get("crop_pct") or 224 / 256)
            elif config.get("crop_pct"):
                resize = _side(_shortest(resize) / config["crop_pct"])
            elif kind.startswith("Levit") and isinstance(resize, int):
                resize = _side(256 / 224 * resize)
        mean, deviation = np.zeros(1), np.ones(1)
        if config.get("do_normalize", "image_mean" in config and not kind.startswith("MobileViT")):
            mean, deviation = _numbers(config["image_mean"]), _numbers(config["image_std"])
            if (deviation == 0).any():
                raise ValueError("image_std must not contain 0")
        if config.get("include_top"):  # EfficientNet divides by the deviation twice
            deviation = deviation**2
        if config.get("rescale_offset"):  # values from −1 to 1
            mean = mean + 1
        usual = Image.Resampling.BILINEAR if kind.startswith(_BILINEAR) else Image.Resampling.BICUBIC
        return cls(
            resize=resize,
            crop=crop,
            resample=int(Image.Resampling(usual if config.get("resample") is None else config["resample"])),
            scale=float(config.get("rescale_factor", 1 / 255)) if config.get("do_rescale", True) else 1.0,
            mean=tuple(mean.tolist()),
            deviation=tuple(deviation.tolist()),
            is_bgr=bool(config.get("do_flip_channel_order", False)),
        )

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Self:
        """Create steps from the result of `spec`.

        In a spec without `stretch`, which is from before there was a choice, values are stretched.
        """
        tuples: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in spec.items()
        }
        return cls(**{"stretch": True, **tuples})

    def spec(self) -> dict[str, Any]:
        """Return the parameters as values that JSON can represent."""
        spec: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return spec

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width of every prepared image, or None if they depend on the image."""
        if self.crop is not None:
            return self.crop
        return self.resize if isinstance(self.resize, tuple) else None

    def resizing(self, width: int, height: int) -> Resizing:
        """Return how to resize an image of this size; see `MOST_RESIZED` for long images."""
        w, h = self._resized(width, height)
        inside = (0, 0, w, h)
        if (
            self.crop is not None
            and w * h > (MOST_RESIZED if self.resize else 1) * self.crop[0] * self.crop[1]
        ):
            left, top = (w - self.crop[1]) // 2, (h - self.crop[0]) // 2
            inside = (max(left, 0), max(top, 0), min(left + self.crop[1], w), min(top + self.crop[0], h))
        x, y = width / w, height / h
        box = (inside[0] * x, inside[1] * y, min(inside[2] * x, width), min(inside[3] * y, height))
        size = (inside[2] - inside[0], inside[3] - inside[1])
        return Resizing(size, box, self.resample, stretch=self.stretch)

    def cropped(self, resized: Image.Image) -> NDArray[np.uint8]:
        """Return the center of a resized image, of shape (height, width, 3), or (height, width) if gray."""
        if self.crop is None:
            return np.asarray(resized)
        left, top = (resized.width - self.crop[1]) // 2, (resized.height - self.crop[0]) // 2
        # Pillow fills what lies outside with black.
        return np.asarray(resized.crop((left, top, left + self.crop[1], top + self.crop[0])))

    def pixels(self, image: Image.Image) -> NDArray[np.uint8]:
        """Return an image of mode RGB or L resized and cropped; see `cropped` for the shape."""
        return self.cropped(replace(self.resizing(*image.size), mode=image.mode).of(image))

    def values(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the scaled and normalized pixels, of the same shape, float32."""
        mean, deviation = (np.asarray(numbers, np.float32) for numbers in (self.mean, self.deviation))
        if pixels.ndim == 2:
            mean, deviation = mean.mean(keepdims=True), deviation.mean(keepdims=True)
        elif self.is_bgr:
            pixels = pixels[..., ::-1]
        # In memory, one channel follows the other: this is faster, and most models read them so.
        values = np.atleast_3d(pixels).transpose(2, 0, 1).astype(np.float32, order="C")
        values *= np.float32(self.scale)
        values -= mean[:, None, None]
        values /= deviation[:, None, None]
        return values[0] if pixels.ndim == 2 else values.transpose(1, 2, 0)

    def in_words(self) -> str:
        """Describe resizing and cropping in words, such as "shortest edge 256, middle 224 × 224"."""
        parts = []
        if isinstance(self.resize, int):
            parts.append(f"shortest edge {self.resize}")
        elif self.resize is not None:
            parts.append("resized to {1} × {0}".format(*self.resize))
        if self.crop is not None:
            parts.append("middle {1} × {0}".format(*self.crop))
        return ", ".join(parts) or "in their own size"

    def _resized(self, width: int, height: int) -> tuple[int, int]:
        """Return width and height after resizing."""
        if self.resize is None:
            return width, height
        if isinstance(self.resize, tuple):
            return self.resize[1], self.resize[0]
        short = min(width, height)
        return max(1, width * self.resize // short), max(1, height * self.resize // short)


def _of_convnext(resize: int | tuple[int, int], crop_pct: float) -> tuple[Any, tuple[int, int] | None]:
    """Return `resize` and `crop` by ConvNeXT's rule: inputs of 384 pixels a side or more are not cropped."""
    side = _shortest(resize)
    return (_side(side / crop_pct), (side, side)) if side < 384 else ((side, side), None)


def _shortest(resize: int | tuple[int, int]) -> int:
    return resize if isinstance(resize, int) else min(resize)


def _size(size: Any, kind: str) -> int | tuple[int, int]:
    if isinstance(size, Mapping):
        return _side(size["shortest_edge"]) if "shortest_edge" in size else _height_and_width(size)
    if isinstance(size, (int, float)) and not kind.startswith(_SQUARE):
        return _side(size)
    return _height_and_width(size)


def _height_and_width(size: Any) -> tuple[int, int]:
    if isinstance(size, Mapping):
        if "shortest_edge" in size:
            size = size["shortest_edge"]
        else:
            return _side(size["height"]), _side(size["width"])
    if isinstance(size, (list, tuple)):
        height, width = size
        return _side(height), _side(width)
    return _side(size), _side(size)


def _side(value: float) -> int:
    side = int(value)
    if not 1 <= side <= LARGEST_SIDE:
        raise ValueError(f"a side must be from 1 to {LARGEST_SIDE} pixels, got {value}")
    return side


def _numbers(values: Any) -> NDArray[np.float64]:
    numbers = np.array(values if isinstance(values, list) else [values], dtype=np.float64)
    if numbers.shape not in ((1,), (3,)) or not np.isfinite(numbers).all() or abs(numbers).max() > 1e6:
        raise ValueError(f"one or three numbers are needed, got {values}")
    return numbers
