from __future__ import annotations

import numpy as np
import pytest

from closecall.core.duplicates import Groups, Rule, folder_of, load_groups, near_duplicates, save_groups
from closecall.core.errors import InputError
from tests.contract.kit import gaussian_pool

RULE = Rule("near", 0.3)


@pytest.fixture
def pool():
    return gaussian_pool(60)


def test_saved_groups_are_loaded(tmp_path, pool):
    """With their rule, also when the pool has grown, and after they were replaced."""
    folder = folder_of(tmp_path, "near")
    first = pool.prefix(40)
    for angle in (0.1, 0.3):
        save_groups(folder, first, Rule("near", angle), near_duplicates(first, angle))
    groups = near_duplicates(first, 0.3)
    assert groups.n_repeated
    for one in (first, pool):
        saved = load_groups(folder, one)
        assert saved.rule == RULE
        assert np.array_equal(saved.groups.leaders, groups.leaders)
        assert np.array_equal(saved.groups.angles, groups.angles)
    assert [path.name for path in folder.parent.iterdir()] == ["near"]


def test_groups_of_another_pool_are_refused(tmp_path, pool):
    """Of other rows, or of more than there are."""
    save_groups(tmp_path / "near", pool, RULE, near_duplicates(pool, 0.3))
    with pytest.raises(InputError, match="was made for another pool"):
        load_groups(tmp_path / "near", gaussian_pool(60, seed=1))
    with pytest.raises(InputError, match="covers 60 rows, but the pool has only 20"):
        load_groups(tmp_path / "near", pool.prefix(20))


@pytest.mark.parametrize("name", ["index.json", "leaders.npy", "angles.npy"])
def test_damaged_groups_are_refused(tmp_path, pool, name):
    """A flipped byte is found."""
    save_groups(tmp_path / "near", pool, RULE, near_duplicates(pool, 0.3))
    file = tmp_path / "near" / name
    content = bytearray(file.read_bytes())
    content[-20] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match="is damaged"):
        load_groups(tmp_path / "near", pool)


def test_groups_of_a_part_are_not_saved_for_the_whole(tmp_path, pool):
    """They would be taken for the groups of all rows."""
    groups = Groups(np.arange(10), np.zeros(10, dtype=np.float32))
    with pytest.raises(InputError, match="groups of 10 rows can't be saved for a pool of 60"):
        save_groups(tmp_path / "near", pool, RULE, groups)
    assert not (tmp_path / "near").exists()
