from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import closecall.core.linear.scoring
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import ArrayPool, Request, make_strategy
from closecall.core.selection.nearest import float32_error, within_reach
from tests.contract.kit import hyperplanes


def test_what_a_scan_remembers_does_not_grow_with_the_pool(monkeypatch):
    """Not even where all items are equally near, so that none can be left out by its float32 score."""
    monkeypatch.setattr(closecall.core.linear.scoring, "_SCORES", 1 << 10)
    X = np.zeros((100_000, 2))
    X[:, 0] = 1
    strategy = make_strategy("exhaustive").fit(ArrayPool(X))
    requests = [Request(plane, 5, exclude=[2]) for plane in hyperplanes(3, d=2)]
    strategy.select_many(requests)
    peaks = []
    for _ in range(5):  # other threads of the process use memory, too, but not all the time
        tracemalloc.start()
        found = strategy.select_many(requests)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert [one.ids.tolist() for one in found] == [[0, 1, 3, 4, 5]] * 3
    assert min(peaks) < 100_000


def test_float32_is_never_further_off_than_stated():
    """The bound on which exactness rests holds for rows and normals of any shape, and isn't idle."""
    rng = np.random.default_rng(2)
    used = 0.0
    for _ in range(200):
        d = int(rng.integers(1, 500))
        x = rng.standard_normal((20, d)) * rng.exponential(size=d)
        pool = ArrayPool(x)
        plane = Hyperplane(rng.standard_normal(d) * 10 ** rng.uniform(-3, 3, size=d), rng.standard_normal())
        wrong = np.abs(pool.scores(plane) - plane.scores(pool.rows(np.arange(20)))).max()
        used = max(used, wrong / float32_error(plane))
    assert 0.001 < used < 1


@given(
    margins=st.lists(st.integers(0, 20) | st.just(np.inf), min_size=1, max_size=40),
    n=st.integers(1, 50),
    error=st.sampled_from([0.0, 0.5, 3.0]),
)
def test_within_reach_leaves_out_nothing_that_may_be_among_the_nearest(margins, n, error):
    """Everything up to the n-th smallest plus twice the error, and nothing infinite."""
    array = np.array(margins, dtype=np.float32)
    finite = np.sort(array[np.isfinite(array)])
    reach = finite[min(n, len(finite)) - 1] + 2 * error if len(finite) else -1.0
    expected = np.flatnonzero(np.isfinite(array) & ((array <= reach) | (len(finite) <= n)))
    assert within_reach(array, n, error).tolist() == expected.tolist()
