from __future__ import annotations

import numpy as np
from scipy.stats import kstest, norm

from closecall.core.numerics.randomness import hashed, normal, seed_for, uniform


def test_an_item_draws_the_same_in_any_company() -> None:
    """What item i draws depends on the seed and i alone, and draw k not on how many follow."""
    together = uniform(5, np.arange(1000), 6)
    assert (uniform(5, [999, 17], 4) == together[[999, 17], :4]).all()


def test_seeds_items_and_draws_all_matter() -> None:
    """No two of a hundred thousand neighbouring (seed, item, draw) share their 64 bits."""
    bits = np.concatenate([hashed(seed, np.arange(2500), 8).ravel() for seed in range(-2, 3)])
    assert len(np.unique(bits)) == len(bits)


def test_draws_are_uniform_and_normal_and_independent() -> None:
    """Kolmogorov–Smirnov finds nothing at the 0.1 % level, nor do correlations of neighbours exceed 4 σ."""
    u = uniform(0, np.arange(20_000), 3)
    assert ((u > 0) & (u < 1)).all()
    for draw in range(3):
        assert kstest(u[:, draw], "uniform").pvalue > 0.001
        assert kstest(normal(1, np.arange(20_000), 3)[:, draw], norm.cdf).pvalue > 0.001
    bound = 4 / np.sqrt(20_000)
    assert abs(np.corrcoef(u[:, 0], u[:, 1])[0, 1]) < bound
    assert abs(np.corrcoef(u[:-1, 0], u[1:, 0])[0, 1]) < bound
    assert abs(np.corrcoef(u[:, 0], uniform(1, np.arange(20_000), 1)[:, 0])[0, 1]) < bound


def test_the_largest_items_and_seeds_work() -> None:
    """Nothing overflows at the ends of the 64-bit range."""
    assert uniform(2**63, [2**62, 0], 2).shape == (2, 2)
    assert (uniform(-1, [3], 1) == uniform(2**64 - 1, [3], 1)).all()


def test_purposes_have_nothing_in_common() -> None:
    """Two purposes with one seed draw independent numbers; the same purpose and seed draw the same again."""
    one, other = (uniform(seed_for(purpose, 1), np.arange(20_000), 1)[:, 0] for purpose in ("a", "b"))
    plain = uniform(1, np.arange(20_000), 1)[:, 0]
    for x, y in ((one, other), (one, plain)):
        assert abs(np.corrcoef(x, y)[0, 1]) < 4 / np.sqrt(20_000)
    assert seed_for("a", 1) == seed_for("a", 1)
    assert len({seed_for(purpose, seed) for purpose in ("a", "b", "") for seed in range(-3, 100)}) == 309
