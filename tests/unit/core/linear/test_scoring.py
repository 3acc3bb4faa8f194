from __future__ import annotations

import numpy as np
import pytest

from closecall.core.linear import scoring
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.linear.scoring import score_blocks


def planes(k: int, d: int) -> list[Hyperplane]:
    rng = np.random.default_rng(1)
    return [Hyperplane(rng.standard_normal(d), rng.standard_normal()) for _ in range(k)]


def joined(blocks: list) -> np.ndarray:
    """The scores of all blocks, which must follow each other."""
    starts = np.cumsum([0, *(scores.shape[1] for _, scores in blocks)])
    assert [first for first, _ in blocks] == starts[:-1].tolist()
    return np.concatenate([scores for _, scores in blocks], axis=1)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("k", [1, 2, 7, 300])
@pytest.mark.parametrize("d", [1, 3, 50])
def test_scores_are_those_of_each_hyperplane_alone(monkeypatch, dtype, k, d):
    """However the rows are cut into segments, blocks and products."""
    monkeypatch.setattr(scoring, "_SCORES", 2_000)
    monkeypatch.setattr(scoring, "_CACHED_ROWS", 24)
    monkeypatch.setattr(scoring, "_SMALL_PRODUCT", 3_000)
    X = np.random.default_rng(0).standard_normal((1_234, d)).astype(dtype)
    X.flags.writeable = False
    segments = [(0, X[:100]), (100, X[100:101]), (101, X[101:])]
    scores = joined(list(score_blocks(segments, planes(k, d))))
    expected = [plane.scores(X) for plane in planes(k, d)]
    assert scores.dtype == np.float32
    assert np.allclose(scores, expected, rtol=0, atol=1e-5 * np.sqrt(d))


def test_blocks_are_bounded_and_the_callers_own():
    """No block is longer than it may be, and one can be overwritten without harm to the next."""
    X = np.ones((3_000, 2), dtype=np.float32)
    for k in (1, 500, 3_000):
        for _, scores in score_blocks([(0, X)], planes(k, 2)):
            assert scores.size <= max(scoring._SCORES, scoring._CACHED_ROWS * k)
            assert np.all(scores == scores[:, :1])
            scores[:] = np.nan


def test_every_finite_half_is_converted_exactly():
    """All 63,488 of them: both signs, zeros and subnormal numbers, too."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)].reshape(-1, 31)
    halves.flags.writeable = False
    converted = scoring._as_float32(halves, np.empty(halves.shape, np.float32))
    assert np.array_equal(converted.view(np.uint32), halves.astype(np.float32).view(np.uint32))
