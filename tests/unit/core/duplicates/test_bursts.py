from __future__ import annotations

import numpy as np
import pytest

from closecall.core.duplicates import find_bursts
from closecall.core.errors import InputError
from closecall.core.selection import ArrayPool
from tests.contract.kit import bags

UNKNOWN = float("nan")


def turned(*degrees: float) -> ArrayPool:
    """Rows in the plane, at these angles from the first direction."""
    radians = np.radians(np.array(degrees))
    return ArrayPool(np.stack([np.cos(radians), np.sin(radians)], axis=1))


def found(pool: ArrayPool, names, times=None, *, degrees=10.0, gap=5.0) -> list[int]:
    """The leaders."""
    times = [UNKNOWN] * len(pool) if times is None else times
    return find_bursts(pool, names, np.array(times), angle=np.radians(degrees), gap=gap).leaders.tolist()


def test_a_burst_ends_when_the_scene_has_changed():
    """However slowly it does: likeness to the first photograph counts, and bursts do not chain."""
    names = [f"{i}.jpg" for i in range(6)]
    assert found(turned(0, 4, 8, 12, 16, 20), names) == [0, 0, 0, 3, 3, 3]
    assert found(turned(0, 4, 90, 0, 4, 8), names) == [0, 0, 2, 3, 3, 3]


def test_a_burst_ends_when_the_scene_changes_at_once():
    """If successive photographs differ by more than half of the angle, even if both are like the first."""
    names = [f"{i}.jpg" for i in range(5)]
    assert found(turned(0, 4, -2, 2, 6), names) == [0, 0, 2, 2, 2]


def test_names_are_in_numerical_order():
    """10 comes after 9, whatever the order of the pool."""
    assert found(turned(0, 30, 4, 29), ["9.jpg", "11.jpg", "10.jpg", "100.jpg"]) == [0, 1, 0, 1]


def test_folders_have_their_own_bursts():
    """Equal images in two folders are in two bursts."""
    assert found(turned(0, 0, 0, 0), ["a/1.jpg", "b/1.jpg", "a/2.jpg", "b/2.jpg"]) == [0, 1, 0, 1]


def test_times_come_before_names():
    """A late photograph begins a burst even if it looks alike; the leader is the first in time."""
    names = ["4.jpg", "3.jpg", "2.jpg", "1.jpg"]
    assert found(turned(0, 0, 0, 0), names, [10.0, 14.0, 20.0, 0.0]) == [0, 0, 2, 3]
    assert found(turned(0, 0, 0, 0), names, [10.0, 14.0, 18.0, 6.0]) == [3, 3, 3, 3]


def test_a_folder_with_an_unknown_time_is_in_order_of_names():
    """Times of some say nothing about the place of the others; other folders keep their times."""
    names = ["a/2.jpg", "a/1.jpg", "b/1.jpg", "b/2.jpg"]
    assert found(turned(0, 0, 0, 0), names, [0.0, UNKNOWN, 0.0, 60.0]) == [1, 1, 2, 3]


def test_long_sequences_are_followed_across_blocks(monkeypatch):
    """The definition, step by step."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr("closecall.core.duplicates.bursts._ROWS_AT_ONCE", 7)
    pool = turned(*np.cumsum(rng.random(500) * 6))
    X = pool.rows(np.arange(500)).astype(np.float64)
    expected, leader = [], 0
    for row in range(500):
        to_leader, to_predecessor = (
            2 * np.arcsin(np.linalg.norm(X[row] - X[one]) / 2) for one in (leader, max(row - 1, 0))
        )
        if to_leader > np.radians(10) or to_predecessor > np.radians(5):
            leader = row
        expected.append(leader)
    names = [str(i) for i in range(500)]
    groups = find_bursts(pool, names, np.full(500, UNKNOWN), angle=np.radians(10), gap=0)
    assert groups.leaders.tolist() == expected
    cosines = (X * X[expected]).sum(axis=1)
    assert np.allclose(groups.angles, np.arccos(np.clip(cosines, -1, 1)), atol=1e-3)


@pytest.mark.parametrize(
    ("pool", "names", "options", "sentence"),
    [
        (turned(0, 1), ["a", "b"], {"degrees": 200}, "angle must be from 0 to π"),
        (turned(0, 1), ["a", "b"], {"gap": -1}, "gap must be at least 0, got -1"),
        (turned(0, 1), ["a"], {}, "2 rows need as many names and times, got 1 and 2"),
        (bags(2), ["a", "b"], {}, "bursts are found among photographs"),
    ],
)
def test_what_cannot_be(pool, names, options, sentence):
    """One sentence each."""
    with pytest.raises(InputError, match=sentence):
        found(pool, names, **options)
