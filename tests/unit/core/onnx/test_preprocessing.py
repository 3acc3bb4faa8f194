from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.onnx.preprocessing import IMAGENET_DEVIATION, IMAGENET_MEAN, Preprocessing


def read(folder: Path, **config: Any) -> Preprocessing:
    """The preprocessing that a configuration describes."""
    file = folder / "preprocessor_config.json"
    file.write_text(json.dumps(config))
    return Preprocessing.read(file)


def photograph(width: int, height: int) -> Image.Image:
    """Noise of this size, in color."""
    rng = np.random.default_rng(width * height)
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


CLIP = {
    "image_processor_type": "CLIPImageProcessor",
    "do_resize": True,
    "size": {"shortest_edge": 64},
    "resample": 3,
    "do_center_crop": True,
    "crop_size": {"height": 56, "width": 48},
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.48, 0.46, 0.41],
    "image_std": [0.27, 0.26, 0.28],
}


@pytest.mark.parametrize("size", [(300, 200), (200, 300), (64, 64), (65, 640), (20, 31)])
def test_the_steps_are_those_of_the_configuration(tmp_path, size):
    """Resize the shortest edge, crop the center, scale, normalize: as written here by hand."""
    image = photograph(*size)
    width, height = size
    short = min(size)
    resized = image.resize((width * 64 // short, height * 64 // short), Image.Resampling.BICUBIC)
    left, top = (resized.width - 48) // 2, (resized.height - 56) // 2
    expected = (np.asarray(resized)[top : top + 56, left : left + 48] / 255 - [0.48, 0.46, 0.41]) / [
        0.27,
        0.26,
        0.28,
    ]
    steps = read(tmp_path, **CLIP)
    assert steps.size == (56, 48)
    assert np.allclose(steps.values(steps.pixels(image)), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("config", "size", "resize"),
    [
        ({"size": {"height": 30, "width": 40}}, (30, 40), (30, 40)),
        ({"size": 30, "image_processor_type": "ViTImageProcessor"}, (30, 30), (30, 30)),
        ({"size": 30, "feature_extractor_type": "CLIPFeatureExtractor", "crop_size": 24}, (24, 24), 30),
        ({"size": {"shortest_edge": 28}, "crop_pct": 0.875}, (28, 28), 32),
        ({"size": 224, "image_processor_type": "ConvNextImageProcessor"}, (224, 224), 256),
        (
            {
                "size": {"shortest_edge": 384},
                "image_processor_type": "ConvNextImageProcessor",
            },
            (384, 384),
            (384, 384),
        ),
        (
            {
                "size": {"shortest_edge": 224},
                "image_processor_type": "PoolFormerImageProcessor",
                "crop_pct": 0.9,
                "crop_size": 224,
            },
            (224, 224),
            248,
        ),
        (
            {"size": 224, "feature_extractor_type": "LevitFeatureExtractor", "crop_size": 224},
            (224, 224),
            256,
        ),
        ({"image_processor": {"size": {"height": 30, "width": 40}}}, (30, 40), (30, 40)),
        ({"size": {"shortest_edge": 28}, "crop_size": {"height": 20, "width": 24}}, (20, 24), 28),
        ({"size": [30, 40], "do_center_crop": False, "crop_size": 5}, (30, 40), (30, 40)),
        ({"size": {"shortest_edge": 28}}, None, 28),
    ],
)
def test_every_form_of_a_size_is_understood(tmp_path, config, size, resize):
    """A number, a pair or names; for CLIP a number is the shortest edge, for ViT both sides."""
    steps = read(tmp_path, **config)
    assert steps.size == size
    assert steps.resize == resize


@pytest.mark.parametrize("is_bgr", [False, True])
def test_values_are_computed_step_by_step_in_float32(is_bgr):
    """To the last bit, so that every version of the program continues a pool with the same features."""
    steps = Preprocessing(None, None, is_bgr=is_bgr)
    pixels = np.random.default_rng(0).integers(0, 256, (31, 45, 3), dtype=np.uint8)
    mean, deviation = np.float32(IMAGENET_MEAN), np.float32(IMAGENET_DEVIATION)
    in_order = pixels[..., ::-1] if is_bgr else pixels
    values = steps.values(pixels)
    assert values.dtype == np.float32
    assert np.array_equal(values, (in_order * np.float32(1 / 255) - mean) / deviation)
    gray = steps.values(pixels[..., 0])
    assert np.array_equal(gray, (pixels[..., 0] * np.float32(1 / 255) - mean.mean()) / deviation.mean())


def test_what_a_configuration_leaves_out_is_not_done(tmp_path):
    """Without mean and deviation, values are only scaled; without scaling, they stay."""
    image = photograph(8, 8)
    as_bytes = np.asarray(image)
    steps = read(tmp_path, size={"height": 8, "width": 8})
    assert np.allclose(steps.values(steps.pixels(image)), as_bytes / 255, atol=1e-6)
    steps = read(tmp_path, size={"height": 8, "width": 8}, do_rescale=False)
    assert np.array_equal(steps.values(steps.pixels(image)), as_bytes)
    steps = read(tmp_path, size={"height": 8, "width": 8}, do_rescale=False, do_flip_channel_order=True)
    assert np.array_equal(steps.values(steps.pixels(image)), as_bytes[..., ::-1])


def test_a_small_image_is_surrounded_with_black(tmp_path):
    """Nothing is enlarged where the configuration does not say so."""
    steps = read(tmp_path, do_resize=False, crop_size=10)
    pixels = steps.pixels(Image.new("RGB", (4, 6), "white"))
    assert pixels.shape == (10, 10, 3)
    assert pixels.sum() == 4 * 6 * 3 * 255
    assert pixels[2:8, 3:7].min() == 255


def test_gray_images_take_the_mean_of_the_channels(tmp_path):
    """A model with one channel reads one number per pixel."""
    steps = read(tmp_path, size={"height": 4, "width": 4}, image_mean=[0.2, 0.4, 0.6], image_std=[1, 2, 3])
    gray = steps.values(steps.pixels(Image.new("L", (4, 4), 255)))
    assert gray.shape == (4, 4)
    assert np.allclose(gray, (1 - 0.4) / 2)


@pytest.mark.parametrize(
    "config",
    [
        {"size": {"height": 0, "width": 8}},
        {"size": {"height": 10**9, "width": 8}},
        {"size": {"width": 8}},
        {"size": "large"},
        {"size": 8, "image_mean": [1, 2], "image_std": [1, 1]},
        {"size": 8, "image_mean": [0, 0, 0], "image_std": [1, 0, 1]},
        {"size": 8, "image_mean": [0, 0, float("nan")], "image_std": [1, 1, 1]},
        {"size": 8, "resample": 17},
        {"do_resize": True},
        {"size": 1e999},
        {"size": {"shortest_edge": 8}, "crop_pct": 1e-300},
        {"size": 8, "image_mean": 1e300, "image_std": 1},
        {"size": 8, "do_pad": True},
        [1, 2],
    ],
)
def test_an_impossible_configuration_is_refused_in_a_sentence(tmp_path, config):
    """The file is named."""
    file = tmp_path / "preprocessor_config.json"
    file.write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"preprocessor_config\.json does not describe") as refused:
        Preprocessing.read(file)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_no_json_is_refused_in_a_sentence(tmp_path):
    """A page of a web site that was saved instead, for example."""
    file = tmp_path / "preprocessor_config.json"
    file.write_text("<html>Not found</html>")
    with pytest.raises(InputError, match="can't be read"):
        Preprocessing.read(file)


def test_steps_survive_json(tmp_path):
    """A pool keeps them."""
    for steps in (read(tmp_path, **CLIP), Preprocessing.imagenet(224, 192), read(tmp_path, size=7)):
        assert Preprocessing.from_spec(json.loads(json.dumps(steps.spec()))) == steps


def test_the_interpolation_is_that_of_the_image_processor(tmp_path):
    """Where the configuration leaves it out: bilinear for ViT, bicubic for CLIP."""
    for kind, resample in (
        ("ViTImageProcessor", 2),
        ("CLIPImageProcessor", 3),
        ("MobileNetV2ImageProcessor", 2),
    ):
        assert read(tmp_path, size=8, image_processor_type=kind).resample == resample
    assert read(tmp_path, size=8, resample=0).resample == 0


def test_efficientnet_has_steps_of_its_own(tmp_path):
    """It divides twice, or scales to −1 … 1."""
    image = photograph(8, 8)
    as_bytes = np.asarray(image) / 255
    size = {"height": 8, "width": 8}
    steps = read(tmp_path, size=size, image_mean=[0.4] * 3, image_std=[0.5] * 3, include_top=True)
    assert np.allclose(steps.values(steps.pixels(image)), (as_bytes - 0.4) / 0.5 / 0.5, atol=1e-5)
    steps = read(tmp_path, size=size, rescale_factor=2 / 255, rescale_offset=True)
    assert np.allclose(steps.values(steps.pixels(image)), 2 * as_bytes - 1, atol=1e-6)
