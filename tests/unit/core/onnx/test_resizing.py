from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from closecall.core.onnx import resizing
from closecall.core.onnx.preprocessing import Preprocessing
from closecall.core.onnx.resizing import Resizing

Box = tuple[float, float, float, float]


def noise(width: int, height: int, mode: str = "RGB") -> Image.Image:
    """An image of this size."""
    shape = (height, width, 3) if mode == "RGB" else (height, width)
    return Image.fromarray(np.random.default_rng(width).integers(0, 256, shape, dtype=np.uint8))


def in_two_passes(image: Image.Image, size: tuple[int, int], resample: int, box: Box) -> Image.Image:
    """The image resized by Pillow along all its rows, and then along its columns."""
    left, top, right, bottom = box
    rows = image.resize((size[0], image.height), resample, (left, 0, right, image.height))
    return rows.resize(size, resample, (0, top, size[0], bottom))


class Counted:
    """An image that tells of how many pixels copies were made at once."""

    def __init__(self, image: Image.Image) -> None:
        self.image = image
        self.size = image.size
        self.most = 0

    def crop(self, box: tuple[int, int, int, int]) -> Image.Image:
        """A part of the image."""
        self.most = max(self.most, (box[2] - box[0]) * (box[3] - box[1]))
        return self.image.crop(box)


@pytest.mark.parametrize("resample", list(Image.Resampling))
@pytest.mark.parametrize("size", [(24, 20), (24, 90), (80, 20), (61, 20), (24, 47), (61, 47), (90, 90)])
def test_rows_by_rows_the_result_is_that_of_the_whole(monkeypatch, size, resample):
    """Bit for bit, smaller and larger, with every interpolation, and never much is copied."""
    monkeypatch.setattr(resizing, "MOST_COPIED", 200)
    for mode in ("RGB", "L"):
        image = noise(61, 47, mode)
        box = (0.0, 0.0, 61.0, 47.0)
        counted = Counted(image)
        resized = Resizing(size, box, int(resample), mode).of(counted)
        assert resized.tobytes() == in_two_passes(image, size, resample, box).tobytes()
        assert counted.most <= 200


@pytest.mark.parametrize("size", [(640, 480), (300, 451), (57, 64), (40, 30)])
def test_a_photograph_that_keeps_its_shape_is_resized_as_by_pillow(monkeypatch, size):
    """By every version of Pillow, because rows and columns shrink alike."""
    monkeypatch.setattr(resizing, "MOST_COPIED", 1000)
    image = noise(*size)
    plan = Preprocessing(56, (48, 48)).resizing(*size)
    assert plan.of(image).tobytes() == image.resize(plan.size, plan.resample).tobytes()


def test_only_the_part_that_is_needed_is_copied():
    """Of a long image, from which a crop takes the middle."""
    image = Counted(noise(9000, 5))
    plan = Resizing((8, 8), (4000.5, 0.0, 4005.5, 5.0), 3)
    whole = image.image.resize((8, 8), 3, plan.box)
    assert abs(np.asarray(plan.of(image)).astype(int) - np.asarray(whole)).max() <= 1
    assert image.most <= 15 * 5


def test_colors_become_gray_before_they_are_resized():
    """As a plain script would do it for a model that reads one channel."""
    image = noise(61, 47)
    given = Resizing((24, 20), (0, 0, 61, 47), 2, "L").of(image)
    assert given.tobytes() == in_two_passes(image.convert("L"), (24, 20), 2, (0, 0, 61, 47)).tobytes()


def test_a_high_narrow_image_takes_no_more_memory_squeezed_than_as_it_is(monkeypatch):
    """Its columns are resized first: after its rows it would be as high, and much wider."""
    made = []
    new = Image.new
    monkeypatch.setattr(Image, "new", lambda mode, size, *color: made.append(size) or new(mode, size, *color))
    image = noise(2, 200_000, "L")
    resized = Resizing((224, 224), (0, 0, 2, 200_000), 2, "L").of(image)
    assert all(width * height <= resizing.MOST_BETWEEN for width, height in made)
    expected = image.resize((2, 224), 2).resize((224, 224), 2)
    assert abs(np.asarray(resized).astype(int) - np.asarray(expected)).max() <= 1
