from __future__ import annotations

import numpy as np
import pytest

from closecall.core.sources.heat_map import heat_map

ZERO, POSITIVE, NEGATIVE = (30, 34, 44), (255, 194, 84), (92, 176, 255)


@pytest.mark.parametrize(
    ("n", "grid"),
    [
        (1, (1, 1)),
        (2, (2, 1)),
        (128, (16, 8)),
        (384, (24, 16)),
        (784, (28, 28)),
        (960, (32, 30)),
        (97, (10, 10)),  # prime
        (22, (5, 5)),  # 11 × 2 would be flat
    ],
)
def test_the_grid_is_nearly_square(n: int, grid: tuple[int, int]) -> None:
    """Without empty cells if the length allows."""
    columns, rows = grid
    assert heat_map(np.ones(n, dtype=np.float32), 4 * columns).size == (4 * columns, 4 * rows)


def test_each_cell_has_the_colour_of_its_number() -> None:
    """In rows from left to right: zero, the largest numbers, and half of them in between."""
    values = np.array([4, -4, 0, 2, -2, 4], dtype=np.float32)
    picture = heat_map(values, 9)
    assert (picture.mode, picture.size) == ("RGB", (9, 6))
    half = [tuple(round((a + b) / 2) for a, b in zip(ZERO, c, strict=True)) for c in (POSITIVE, NEGATIVE)]
    wanted = [POSITIVE, NEGATIVE, ZERO, half[0], half[1], POSITIVE]
    for y in range(6):
        for x in range(9):
            found = picture.getpixel((x, y))
            assert np.abs(np.subtract(found, wanted[3 * (y // 3) + x // 3])).max() <= 1


@pytest.mark.parametrize("size", [7, 60, 560])
def test_length_makes_no_difference(size: int) -> None:
    """Vectors of one direction look the same, however small or large."""
    values = np.random.default_rng(0).normal(size=150).astype(np.float32)
    assert heat_map(values, size).tobytes() == heat_map(values * np.float32(2**-90), size).tobytes()
    assert heat_map(values, size).tobytes() != heat_map(-values, size).tobytes()


def test_flattened_images_are_recognized() -> None:
    """A row of 28 × 28 pixels looks like the image it was made from."""
    image = np.zeros((28, 28), dtype=np.float32)
    image[4:9, 20] = 255
    drawn = np.asarray(heat_map(image.ravel(), 28))
    assert ((drawn == POSITIVE).all(axis=2) == (image > 0)).all()
