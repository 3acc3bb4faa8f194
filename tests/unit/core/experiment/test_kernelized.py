"""Recall of kernelized LSH: exact neighbours, recall of the nearest, and the choice of forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from closecall.core.errors import InputError
from closecall.core.experiment.kernelized import Form, choose, codes_of, nearest, recall_of_nearest
from closecall.core.hashing import Codes, NystromLSH
from closecall.core.hashing.klsh import hash_together
from closecall.core.mercer import ChiSquared, Intersection, Kernel, Transformed

PARAMS = {"n_landmarks": 40, "n_sampled": 15, "n_functions": 64}


def histograms(n: int, seed: int = 0) -> np.ndarray:
    """Of twelve kinds."""
    rng = np.random.default_rng([seed, 7])
    centres = np.random.default_rng(5).dirichlet(np.ones(16), 12)
    return (0.3 * rng.dirichlet(np.ones(16), n) + 0.7 * centres[np.arange(n) % 12]).astype(np.float32)


X, Q = histograms(3000), histograms(50, 1)
BLOCKS = [(first, X[first : first + 700]) for first in range(0, 3000, 700)]


@pytest.mark.parametrize("kernel", [ChiSquared(), Intersection(), Transformed(ChiSquared(), 5)])
def test_the_nearest_are_the_nearest(kernel: Kernel) -> None:
    """As in the whole matrix of the kernel, however the pool is cut."""
    K = kernel.matrix(Q, X)
    for blocks in ([(0, X)], BLOCKS):
        rows, values = nearest(kernel, blocks, Q)
        np.testing.assert_allclose(values, K.max(axis=1), rtol=1e-6)
        np.testing.assert_allclose(K[np.arange(50), rows], K.max(axis=1), rtol=1e-6)


def test_the_first_of_equal_ones_is_nearest() -> None:
    """Also where the others are in later blocks."""
    twice = np.concatenate([X, X])
    rows, _ = nearest(Intersection(), [(0, twice)], Q)
    assert (rows < 3000).all()


def test_recall_is_that_of_hamming_distances() -> None:
    """As scipy has them, for codes of one word and of more, and of no whole number of them."""
    rng = np.random.default_rng(0)
    for n_bits in (5, 64, 200):
        points, queries = (rng.random((n, n_bits)) < 0.5 for n in (300, 20))
        neighbours = rng.integers(0, 300, 20)
        distances = np.rint(cdist(queries, points, "hamming") * n_bits)
        own = distances[np.arange(20), neighbours][:, None]
        nearer, equal = (distances < own).sum(axis=1), (distances == own).sum(axis=1)
        for R in (0.7, 3, 40):
            found = recall_of_nearest(Codes.from_bits(points), Codes.from_bits(queries), neighbours, R)
            assert found == pytest.approx(np.clip((R - nearer) / equal, 0, 1).mean())


def test_hashing_together_is_hashing_alone() -> None:
    """Of forms with and without a scale, of low and full rank, by both families."""
    forms = [
        Form("chi2"),
        Form("chi2", rank=5, scale=3.0),
        Form("chi2", rank=9, centred=True),
    ]
    hashers = [form.hasher(**PARAMS).fit(X) for form in forms]
    hashers.append(NystromLSH(kernel="chi2:scale=2", n_landmarks=40, n_functions=64).fit(X))
    for together in (hash_together(hashers, X), codes_of(hashers, BLOCKS, len(X))):
        for codes, hasher in zip(together, hashers, strict=True):
            assert np.array_equal(codes.packed, hasher.hash_points(X).packed)
    assert len(hash_together(hashers, X[:0])[0]) == 0


def test_hashing_together_needs_the_same_landmarks() -> None:
    """And the same kernel but for its transformation."""
    one = Form("chi2").hasher(**PARAMS).fit(X)
    with pytest.raises(InputError, match="must have the same landmarks"):
        hash_together([one, Form("chi2").hasher(random_state=1, **PARAMS).fit(X)], X)
    with pytest.raises(InputError, match="the same kernel apart from its scale, got chi2 and inter"):
        hash_together([one, Form("intersection").hasher(**PARAMS).fit(X)], X)


def test_the_choice_follows_the_rule() -> None:
    """Step by step the best of what was tried, and recalls are those of the forms themselves."""
    ranks, scales = (3, 6, 12), (2.0, 6.0)
    choice = choose("chi2", X, Q, share=5e-3, ranks=ranks, scales=scales, **PARAMS)
    tried = choice.recalls
    assert choice.plain == Form("chi2")
    assert choice.low_rank == max((Form("chi2", rank) for rank in ranks), key=tried.__getitem__)
    steep = [Form("chi2", choice.low_rank.rank, scale) for scale in scales]
    assert choice.transformed == max(steep, key=tried.__getitem__)
    again = [Form("chi2", rank, choice.transformed.scale) for rank in ranks]
    assert choice.both == max(again, key=tried.__getitem__)
    assert tried[choice.both] >= tried[choice.transformed]
    assert len(tried) == 1 + 3 + 2 + 2
    neighbours, _ = nearest(ChiSquared(), BLOCKS, Q)
    for form, recall in tried.items():
        hasher = form.hasher(**PARAMS).fit(X)
        own = recall_of_nearest(hasher.hash_points(X), hasher.hash_queries(Q), neighbours, 15)
        assert own == pytest.approx(recall)


def test_a_low_rank_finds_more_than_all_components() -> None:
    """The first of the paper's two improvements, where the data has few dimensions and much noise."""
    plain, low = (Form("chi2", rank, centred=False) for rank in (None, 12))
    neighbours, _ = nearest(ChiSquared(), BLOCKS, Q)
    found = {plain: 0.0, low: 0.0}
    for seed in range(5):
        hashers = [form.hasher(random_state=seed, **PARAMS).fit(X) for form in found]
        points, queries = hash_together(hashers, X), hash_together(hashers, Q)
        for form, p, q in zip(found, points, queries, strict=True):
            found[form] += recall_of_nearest(p, q, neighbours, 30) / 5
    assert found[low] > found[plain]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"share": 0.0}, "share must be above 0 and at most 1, got 0.0"),
        ({"share": 1.5}, "share must be above 0 and at most 1, got 1.5"),
        ({"ranks": ()}, "some ranks, scales and queries are needed"),
        ({"scales": ()}, "some ranks, scales and queries are needed"),
        ({"ranks": (40,)}, "rank must be None or from 1 to 39"),
        ({"scales": (0.0,)}, "scale of a transformed kernel must be positive and finite, got 0.0"),
        ({"n_landmarks": 5000}, "at least as many rows as landmarks, 5000, got 3000"),
    ],
)
def test_choices_that_cannot_be_made(changed: dict, message: str) -> None:
    """One sentence, with what is allowed."""
    with pytest.raises(InputError, match=message):
        choose("chi2", X, Q, **{**PARAMS, "ranks": (3,), "scales": (2.0,), **changed})
