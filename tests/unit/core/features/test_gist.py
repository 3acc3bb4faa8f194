from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.features import Gist, compute, n_features, of_image
from closecall.core.sources import Digits
from tests.fakes import FakeSource


@pytest.fixture(scope="module")
def pictures() -> NDArray[np.float32]:
    """Grey images of many kinds: noise, gradients, a few bright pixels, digits."""
    rng = np.random.default_rng(3)
    noise = rng.random((6, 32, 32))
    ramps = np.stack([np.outer(np.linspace(0, 1, 32), np.ones(32)) ** power for power in (0.5, 1, 3)])
    sparks = np.zeros((3, 32, 32))
    sparks[np.arange(3), [0, 15, 31], [0, 20, 31]] = [1.0, 0.01, 0.5]
    digits, _ = Digits(10).grey(np.arange(8))
    return np.concatenate([noise, ramps, sparks, digits]).astype(np.float32)


@cache
def slow_low_pass(n: int) -> NDArray[np.float64]:
    gains = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            fy, fx = (i if i < n / 2 else i - n), (j if j < n / 2 else j - n)
            gains[i, j] = np.exp(-(fy**2 + fx**2) / (4 / np.sqrt(np.log(2))) ** 2)
    return gains


@cache
def slow_filter(scale: int, orientation: int) -> NDArray[np.float64]:
    gains = np.zeros((32, 32))
    for i in range(32):
        for j in range(32):
            fy, fx = (i if i < 16 else i - 32), (j if j < 16 else j - 32)
            angle = np.arctan2(fy, fx) + np.pi * orientation / 8
            angle = angle - 2 * np.pi if angle > np.pi else angle
            apart = np.hypot(fy, fx) / 32 / (0.3 / 1.85**scale) - 1
            gains[i, j] = np.exp(-10 * 0.35 * apart**2 - 2 * np.pi * angle**2)
    return gains


def slow_gist(grey: NDArray[np.float32]) -> NDArray[np.float64]:
    """One image's GIST as the publication and its authors' program describe it, step by step in float64."""
    x = np.pad(np.log(1 + 255 * grey.astype(np.float64)), 5, mode="symmetric")

    def smoothed(image: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.fft.ifft2(np.fft.fft2(image) * slow_low_pass(len(image))).real

    x = x - smoothed(x)
    x = x / (0.2 + np.sqrt(np.abs(smoothed(x**2))))
    spectrum = np.fft.fft2(x[5:-5, 5:-5])
    features = []
    for scale in range(3):
        for orientation in range(8):
            response = np.abs(np.fft.ifft2(spectrum * slow_filter(scale, orientation)))
            features += [
                response[a : a + 8, b : b + 8].mean() for a in range(0, 32, 8) for b in range(0, 32, 8)
            ]
    return np.array(features) / np.linalg.norm(features)


def test_agrees_with_a_slow_and_plain_computation(pictures: NDArray[np.float32]) -> None:
    """The fast features are those of the publication to 1e-5, on noise, gradients, sparks and digits."""
    fast = Gist().transform(pictures)
    for row, picture in zip(fast, pictures, strict=True):
        np.testing.assert_allclose(row, slow_gist(picture), atol=1e-5)


def test_rows_are_float32_of_unit_norm(pictures: NDArray[np.float32]) -> None:
    """Every image gives 384 finite numbers ≥ 0 whose squares add up to 1."""
    features = Gist().transform(pictures)
    assert features.dtype == np.float32
    assert features.shape == (len(pictures), 384) == (len(pictures), Gist.n_features)
    assert (features >= 0).all()
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, atol=1e-6)


def test_batches_and_threads_change_no_bit(pictures: NDArray[np.float32]) -> None:
    """An image has the same features alone, in any batch, and computed beside other threads."""
    together = Gist().transform(pictures)
    alone = np.concatenate([Gist().transform(picture[None]) for picture in pictures])
    assert (alone == together).all()
    with ThreadPoolExecutor(4) as pool:
        shuffled = list(pool.map(Gist().transform, [pictures[::-1]] * 8))
    assert all((part[::-1] == together).all() for part in shuffled)


@pytest.mark.parametrize("orientation", range(8))
@pytest.mark.parametrize(("scale", "period"), [(0, 32 / 10), (1, 32 / 5), (2, 32 / 3)])
def test_a_grating_excites_the_filter_made_for_it(scale: int, orientation: int, period: float) -> None:
    """Stripes of a period and direction answer most at that scale and orientation; 0 is vertical stripes."""
    angle = -np.pi * orientation / 8
    y, x = np.mgrid[:32, :32]
    stripes = 0.5 + 0.4 * np.cos(2 * np.pi * (np.cos(angle) * x + np.sin(angle) * y) / period)
    energy = Gist().transform(stripes[None])[0].reshape(3, 8, 16).sum(axis=2)
    assert np.unravel_index(energy.argmax(), energy.shape) == (scale, orientation)


def test_energy_lies_where_the_contrast_is() -> None:
    """A small object raises the features of its own cell of the 4×4 grid, row by row."""
    for row, column in ((0, 0), (1, 2), (3, 3)):
        picture = np.zeros((32, 32), dtype=np.float32)
        picture[8 * row + 3 : 8 * row + 5, 8 * column + 3 : 8 * column + 5] = 1
        cells = Gist().transform(picture[None])[0].reshape(24, 16)[:8].sum(axis=0)
        assert cells.argmax() == 4 * row + column


@pytest.mark.parametrize("level", [0.0, 0.3, 1.0])
def test_constant_images_prefer_no_filter(level: float) -> None:
    """A blank image has a direction: the one in which all features are equal."""
    features = Gist().transform(np.full((1, 32, 32), level))
    assert (features == features[0, 0]).all()
    assert np.linalg.norm(features) == pytest.approx(1)


def test_one_pixel_of_one_grey_level_is_not_constant() -> None:
    """The smallest difference that eight bits can hold is seen, and has unit norm."""
    picture = np.zeros((1, 32, 32), dtype=np.float32)
    picture[0, 16, 16] = 1 / 255
    features = Gist().transform(picture)
    assert features.std() > 0.01
    assert np.linalg.norm(features) == pytest.approx(1)


def test_no_images_give_no_rows() -> None:
    """An empty batch is allowed."""
    assert Gist().transform(np.empty((0, 32, 32))).shape == (0, 384)


@pytest.mark.parametrize(
    ("grey", "words"),
    [
        (np.zeros((32, 32)), r"\(n_images, 32, 32\), got \(32, 32\)"),
        (np.zeros((2, 28, 28)), r"got \(2, 28, 28\)"),
        (np.full((1, 32, 32), 255.0), "between 0 and 1"),
        (np.full((1, 32, 32), np.nan), "between 0 and 1"),
    ],
)
def test_unsuitable_input_is_refused(grey: NDArray[np.float64], words: str) -> None:
    """Other shapes, other ranges and NaN are refused in one sentence."""
    with pytest.raises(InputError, match=words):
        Gist().transform(grey)


def test_compute_leaves_out_what_cannot_be_read() -> None:
    """Rows, ids and problems together account for every item, in the order asked for."""
    source = FakeSource(30, n_features=None, unreadable=[4, 11])
    items = np.array([11, 3, 20, 4, 5])
    X, ids, problems = compute(source, items)
    assert ids.tolist() == [3, 20, 5]
    assert [problem.item for problem in problems] == [11, 4]
    assert (Gist().transform(source.grey(ids)[0]) == X).all()
    assert n_features(source) == 384


def test_compute_takes_the_users_own_embeddings() -> None:
    """Where a source has embeddings these are the features, made unit-norm."""
    source = FakeSource(10, n_features=5)
    X, ids, problems = compute(source, np.arange(10))
    assert X.shape == (10, 5) == (10, n_features(source))
    assert ids.tolist() == list(range(10))
    assert problems == []
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, atol=1e-6)


def test_an_uploaded_picture_compares_with_the_pools() -> None:
    """The drawing of an item, taken for an upload, has nearly the item's own features."""
    digits = Digits(10)
    own = compute(digits, np.array([105]))[0][0]
    uploaded = of_image(digits.image(105, 256).convert("RGB"))
    other = of_image(Image.effect_noise((64, 64), 60))
    assert own @ uploaded > 0.97
    assert own @ other < own @ uploaded
