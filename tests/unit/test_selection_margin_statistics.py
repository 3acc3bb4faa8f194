"""How often the margin index finds the nearest, and what a budget buys, on pools of a few thousand rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from core.geometry import Hyperplane
from core.selection import ArrayPool, make_strategy
from core.selection.margin import MarginIndex
from core.selection.margin import index as margin_index
from core.selection.margin import kernels
from tests.margin_kit import (
    WHERE,
    clustered_pool,
    features,
    heavy_tailed_pool,
    near_exact,
    planes_of,
    shares_found,
    true_margins,
)

N, D, QUERIES = 4000, 200, 300
CONFIDENCE = 0.9
ALPHA = 1e-3


@pytest.fixture(scope="module", autouse=True)
def several_fits():
    """The pool is fitted to half of its rows, block by block; the smallest budgets use clusters, too."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(margin_index, "FIRST_FIT", N // 2)
        monkeypatch.setattr(margin_index, "BLOCK_ROWS", 512)
        monkeypatch.setattr(margin_index, "LEAST_BUDGET", 1)
        yield


@pytest.fixture(scope="module", params=[clustered_pool, heavy_tailed_pool], ids=["clustered", "heavy tails"])
def pool(request):
    return request.param(N - 1, D)


@pytest.fixture(scope="module")
def asked(pool):
    """Hyperplanes by where they pass, with everything's true distance."""
    planes = {where: planes_of(pool, QUERIES, where) for where in WHERE}
    return {where: (some, true_margins(pool, some)) for where, some in planes.items()}


def at_least(share: float, n: int) -> float:
    """The smallest share that n trials of this probability have but for one case in a thousand."""
    return stats.binom.ppf(ALPHA, n, share) / n


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("n", [1, 5])
def test_the_nearest_are_found_as_often_as_is_promised(pool, asked, where, n):
    """Through the bulk of the pool, at its rim, and beside it."""
    index = near_exact(pool, CONFIDENCE)
    assert shares_found(index, *asked[where], n) >= at_least(CONFIDENCE, QUERIES)


@pytest.mark.parametrize("where", WHERE)
def test_a_greater_confidence_finds_them_more_often(pool, asked, where):
    """Nearly always, at 0.999."""
    assert shares_found(near_exact(pool, 0.999), *asked[where]) >= at_least(0.999, QUERIES)


def test_rows_that_float32_cannot_tell_apart_are_all_kept():
    """Near-duplicates: their bytes could tell them apart, but not after float32 has rounded the sum."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4, 160))[rng.integers(4, size=2000)]
    pool = ArrayPool(X + 1e-6 * rng.standard_normal(X.shape))
    index = near_exact(pool)
    assert index.quantizer_.steps.max() < 1e-6
    for where in WHERE:
        planes = planes_of(pool, 60, where)
        assert shares_found(index, planes, true_margins(pool, planes)) >= at_least(0.99, 60)
