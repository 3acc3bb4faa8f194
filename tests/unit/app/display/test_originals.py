"""Decoded images are decoded once, and not kept for long."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from closecall.app.display import originals
from closecall.app.display.originals import Originals
from closecall.app.display.thumbnails import Pictures
from closecall.core.sources import Folder
from closecall.core.sources.listed_images import ListedImages


@pytest.fixture
def pictures(tmp_path: Path) -> Pictures:
    for number in range(4):
        Image.new("RGB", (1000, 800), (60 * number, 0, 0)).save(tmp_path / f"{number}.png")
    return Pictures(Folder(tmp_path))


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The items that were decoded whole, in turn."""
    seen: list[int] = []
    whole = ListedImages.whole_image

    def counted(source: ListedImages, item: int) -> Image.Image:
        seen.append(item)
        return whole(source, item)

    monkeypatch.setattr(ListedImages, "whole_image", counted)
    return seen


def test_all_tiles_of_an_image_need_one_decoding(pictures: Pictures, decoded: list[int]) -> None:
    """However many are wanted at once, and of whichever level."""
    cache = Originals()
    places = [(0, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1), (1, 0, 0)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda place: cache.tile(pictures, 2, *place), places * 4))
    assert decoded == [2]


def test_no_more_pixels_are_kept_than_allowed(
    pictures: Pictures, decoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those used last stay; one image stays whatever its size."""
    monkeypatch.setattr(originals, "KEPT_PIXELS", 2 * 1000 * 800)
    cache = Originals()
    for item in (0, 1, 0, 2, 0, 1):
        cache.tile(pictures, item, 0, 0, 0)
        assert len(cache) <= 2
    assert decoded == [0, 1, 2, 1]
    monkeypatch.setattr(originals, "KEPT_PIXELS", 1)
    cache.tile(pictures, 3, 0, 0, 0)
    assert len(cache) == 1


def test_what_is_not_used_is_forgotten(pictures: Pictures, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is given back a while after the last closer look."""
    monkeypatch.setattr(originals, "KEPT_SECONDS", 0.05)
    cache = Originals()
    cache.tile(pictures, 0, 0, 0, 0)
    assert cache._timer is not None
    while (timer := cache._timer) is not None:
        timer.join(10)
    assert len(cache) == 0


def test_a_smaller_level_of_a_photograph_is_decoded_by_itself(tmp_path: Path, decoded: list[int]) -> None:
    """Until the whole one is there: then the smaller levels are made from it."""
    for number in range(2):
        Image.linear_gradient("L").resize((1001, 801)).save(tmp_path / f"{number}.jpg")
    pictures, cache = Pictures(Folder(tmp_path)), Originals()
    small = Image.open(io.BytesIO(cache.tile(pictures, 0, 1, 0, 0)))
    assert small.size == (501, 401)
    assert decoded == []
    cache.tile(pictures, 0, 0, 0, 0)
    assert decoded == [0]
    cache.tile(pictures, 0, 2, 0, 0)
    cache.tile(pictures, 1, 0, 0, 0)
    made = Image.open(io.BytesIO(cache.tile(pictures, 1, 1, 0, 0)))
    assert decoded == [0, 1]
    assert np.abs(np.asarray(made, dtype=float) - np.asarray(small, dtype=float)).mean() < 2
