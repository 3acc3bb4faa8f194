from __future__ import annotations

import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.path import Path

from closecall.core.errors import InputError
from closecall.core.map import inside, lasso
from tests.scale import examples

WIDTH = 12


def crosses_an_odd_number(x: Fraction, y: Fraction, polygon: list[tuple[int, int]]) -> bool:
    """The even-odd rule by exact arithmetic, with a ray to the right."""
    odd = False
    for (x0, y0), (x1, y1) in zip(polygon, [*polygon[1:], polygon[0]], strict=True):
        if (y0 > y) != (y1 > y):
            at = x0 + Fraction(x1 - x0, y1 - y0) * (y - y0)
            odd ^= x < at
    return odd


def is_on_a_side(x: Fraction, y: Fraction, polygon: list[tuple[int, int]]) -> bool:
    for (x0, y0), (x1, y1) in zip(polygon, [*polygon[1:], polygon[0]], strict=True):
        on_the_line = (x1 - x0) * (y - y0) == (y1 - y0) * (x - x0)
        if on_the_line and min(x0, x1) <= x <= max(x0, x1) and min(y0, y1) <= y <= max(y0, y1):
            return True
    return False


corner = st.tuples(st.integers(0, WIDTH), st.integers(0, WIDTH))


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(corner, min_size=3, max_size=9))
def test_a_lasso_has_the_points_of_the_even_odd_rule(polygon):
    """Of any polygon, its sides crossing or not, at all points of a grid that are on no side."""
    grid = [
        (Fraction(i, 2), Fraction(j, 2)) for i in range(-1, 2 * WIDTH + 2) for j in range(-1, 2 * WIDTH + 2)
    ]
    points = [point for point in grid if not is_on_a_side(*point, polygon)]
    found = inside(np.array(points, dtype=np.float64), polygon)
    assert found.tolist() == [crosses_an_odd_number(*point, polygon) for point in points]


def test_a_star_has_no_middle():
    """Where a lasso overlaps itself, the points are outside; a float32 map is fine."""
    angles = np.pi / 2 + np.arange(5) * 4 * np.pi / 5
    star = np.column_stack([np.cos(angles), np.sin(angles)])
    points = np.array([(0, 0), (0, 0.7), (2, 2)], dtype=np.float32)
    assert inside(points, star).tolist() == [False, True, False]


def test_a_lasso_lets_other_threads_run(monkeypatch):
    """Matplotlib keeps them all waiting, so it gets few points at a time if there are many corners."""
    asked: list[int] = []

    class Watched(Path):
        def contains_points(self, points):
            asked.append(len(points) * len(self.vertices))
            return super().contains_points(points)

    monkeypatch.setattr(lasso, "_path", lambda: Watched)
    monkeypatch.setattr(lasso, "TESTS_AT_ONCE", 1000)
    points = np.random.default_rng(0).random((2000, 2))
    polygon = [(0.1, 0.1), (0.9, 0.2), (0.5, 0.9)]
    assert inside(points, polygon).tolist() == [
        crosses_an_odd_number(Fraction(x), Fraction(y), [(Fraction(a), Fraction(b)) for a, b in polygon])
        for x, y in points.tolist()
    ]
    assert len(asked) > 1
    assert max(asked) <= 1000
    circle = np.column_stack([np.cos(np.arange(1200)), np.sin(np.arange(1200))])
    assert inside(points[:3], circle * 10).shape == (3,)


def test_a_lasso_around_nothing():
    assert inside(np.ones((4, 2)), [(2, 2), (3, 2), (3, 3)]).tolist() == [False] * 4
    assert inside(np.empty((0, 2)), [(2, 2), (3, 2), (3, 3)]).tolist() == []


@pytest.mark.parametrize("polygon", [[], [(0, 0), (1, 1)], [(0, 0), (1, 1), (np.inf, 0)], [(0, 0, 0)] * 3])
def test_what_is_no_polygon_is_refused(polygon):
    with pytest.raises(InputError, match="a lasso needs at least 3 corners, each of 2 finite coordinates"):
        inside(np.ones((4, 2)), polygon)


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    """In one sentence."""
    monkeypatch.setitem(sys.modules, "matplotlib.path", None)
    with pytest.raises(InputError, match=r'matplotlib, which cannot be .*: pip install "closecall\[map\]"$'):
        inside(np.ones((4, 2)), [(2, 2), (3, 2), (3, 3)])
