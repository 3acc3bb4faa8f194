"""What passes over the bytes tell: moments of clusters, and tails of rows."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.quantization import moments
from closecall.core.quantization.quantizer import BLOCK
from closecall.core.selection import ArrayPool
from tests.margin_kit import features, near_exact, uneven_pool


def test_moments_are_those_of_the_bytes_of_each_cluster():
    """Added to what is there already; rows with a byte at the limit are marked, and stay marked."""
    rng = np.random.default_rng(0)
    codes = rng.integers(-126, 127, (500, BLOCK)).astype(np.int8)
    codes[3, 0], codes[7, 63], codes[9, 5] = 127, -127, 127
    labels = rng.integers(5, size=500).astype(np.uint16)
    sums, squares = np.full((2, 6, BLOCK), 10, dtype=np.int64)
    strayed = np.arange(500) == 100
    moments.add_moments(codes, labels, sums, squares, strayed)
    wide = codes.astype(np.int64)
    for c in range(6):
        assert np.array_equal(sums[c], 10 + wide[labels == c].sum(axis=0))
        assert np.array_equal(squares[c], 10 + (wide[labels == c] ** 2).sum(axis=0))
    assert np.flatnonzero(strayed).tolist() == [3, 7, 9, 100]


@pytest.mark.parametrize("d", [64, 65, 200])
def test_a_tail_s_byte_is_what_is_left_of_the_row_rounded_up(d):
    """s² = Σ m_j p_j² / Σ m_j² over the coordinates to come, at most 5 % more; after the last, nothing."""
    layout = near_exact(uneven_pool(600, d), n_clusters=5).layout_
    q = layout.codes.transpose(1, 0, 2).reshape(600, -1)[:, :d].astype(np.float64)
    squares = (q * layout.quantizer.steps) ** 2
    m = squares.mean(axis=0)
    stored = moments.scales()[layout.tails].astype(np.float64)
    n_blocks = layout.codes.shape[0]
    assert stored.shape == (n_blocks, 600)
    assert not layout.tails[-1].any()
    for block in range(n_blocks - 1):
        rest = slice((block + 1) * BLOCK, d)
        s = np.sqrt(squares[:, rest] @ m[rest] / (m[rest] ** 2).sum())
        assert (stored[block] >= s * (1 - 1e-6)).all()
        assert (stored[block] <= np.maximum(s, moments.scales()[0]) * 2 ** (1 / 16) * (1 + 1e-6)).all()


def test_tails_at_both_ends_of_a_byte():
    """A row without any has the least scale; one beyond the greatest, a scale that nothing is beyond."""
    codes = np.zeros((2, 200_000, BLOCK), dtype=np.int8)
    codes[1, 0] = 127
    tails = moments.tails(codes, (codes.astype(np.float64) ** 2).mean(axis=1), np.ones(2 * BLOCK, np.float32))
    assert tails[:, 0].tolist() == [255, 0]
    assert not tails[:, 1:].any()
    scales = moments.scales()
    assert np.isfinite(scales).all()
    assert (np.diff(scales) > 0).all()
    assert scales[128] == 1
    assert scales[255] > 1e9


def test_steps_of_any_size_give_the_same_tails():
    """Near-duplicates have steps of which the fourth power is no number any more."""
    rng = np.random.default_rng(0)
    codes = rng.integers(-126, 127, (3, 50, BLOCK)).astype(np.int8)
    second = (codes.astype(np.float64) ** 2).mean(axis=1)
    steps = rng.uniform(0.5, 1, 3 * BLOCK).astype(np.float32)
    expected = moments.tails(codes, second, steps)
    for power in (-100, 100):
        assert np.array_equal(moments.tails(codes, second, steps * np.float32(2.0**power)), expected)


def test_by_its_own_scale_what_is_left_of_a_row_is_normal():
    """For hyperplanes that are sums of rows. By one scale for all, unusual rows are far out in its tail."""
    pool = uneven_pool(20_000, 200)
    index = near_exact(pool, n_clusters=1)
    layout, X = index.layout_, features(pool)[index.layout_.order]
    P = (X - layout.quantizer.centre) @ layout.quantizer.directions
    rng = np.random.default_rng(1)
    plain, scaled = [], []
    for _ in range(20):
        along = rng.standard_normal(60) @ P[rng.choice(len(P), 60, replace=False)]
        rest = P[:, BLOCK:] @ along[BLOCK:]
        plain.append(rest / rest.std())
        scaled.append(rest / rest.std() / moments.scales()[layout.tails[0]])
    beyond = 4.0  # of 400,000 normal ones, about 25
    assert (np.abs(plain) > beyond).sum() > 400
    assert (np.abs(scaled) > beyond).sum() < 50


def test_an_unusual_row_is_found_as_often_as_any_other():
    """Each hyperplane passes through a row with three times the usual tail, and no other is as near."""
    confidence, pool = 0.9, uneven_pool(4000, 200)
    index, X = near_exact(pool, confidence), features(pool)
    rng = np.random.default_rng(2)
    found = []
    for row in rng.choice(np.arange(0, 4000, 50), 400):
        normal = rng.standard_normal(60) @ (X[rng.choice(len(X), 60, replace=False)] - X.mean(axis=0))
        plane = Hyperplane(normal, -float(normal @ X[row]))
        found.append(index.select(plane).ids[0] == pool.ids[row])
    assert np.mean(found) > confidence


def test_a_pool_without_any_spread_has_tails():
    """All rows alike: nothing is left of any of them."""
    index = near_exact(ArrayPool(np.ones((50, 130))))
    assert not index.layout_.tails.any()
    plane = Hyperplane(np.ones(130), -np.sqrt(130))
    assert index.select(plane).margins[0] == pytest.approx(0, abs=1e-4)
