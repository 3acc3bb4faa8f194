"""The strata of an audit that were computed on another machine."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.app.verification.audits import difference_of
from closecall.core.audit import Frame
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import ArrayPool

N_ITEMS = 50_000


@pytest.fixture(scope="module")
def pool() -> ArrayPool:
    """Items on an arc, so close to each other that several are at each cut."""
    angle = np.linspace(1.0, 1.1, N_ITEMS)
    return ArrayPool(np.stack([np.cos(angle), np.sin(angle)], axis=1))


@pytest.fixture(scope="module")
def strata(pool):
    strata = Frame(pool, Hyperplane(np.array([1.0, 0.0]), -np.cos(1.02))).strata
    assert len(strata.cuts) > 2
    return strata


def test_equal_strata_have_no_difference(strata, pool):
    assert difference_of(strata, strata.params(), pool) == 0


def test_items_at_a_cut_may_be_in_the_next_stratum(strata, pool):
    """The bound is as large as the difference between the probabilities of draws."""
    logged = strata.params()
    logged["cuts"][0] += 1e-9
    assert difference_of(strata, logged, pool) == 0
    logged["sizes"][0] += 1
    logged["sizes"][1] -= 1
    difference = difference_of(strata, logged, pool)
    rates = np.array(logged["sizes"]) / strata.sizes
    assert np.abs(rates - 1).max() <= difference < 0.01


@pytest.mark.parametrize("change", ["cut", "size", "last", "stratum", "nothing"])
def test_other_strata_are_noticed(strata, pool, change):
    """Rounding doesn't explain them."""
    logged = strata.params()
    if change == "cut":
        logged["cuts"][0] += 1e-4
    elif change == "size":
        logged["sizes"][0] += 2000
    elif change == "last":
        logged["last"] -= 1
    elif change == "stratum":
        logged["sizes"].append(0)
    else:
        del logged["cuts"]
    assert difference_of(strata, logged, pool) is None
