from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from closecall.core.errors import InputError
from closecall.core.hashing import BHHash, Codes, EHHash, HHash
from closecall.core.hashing.augment import Augmentation
from closecall.core.hashing.base import BLOCK_ROWS
from closecall.core.hashing.pool import hash_rows
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import ArrayPool

HASHERS = {
    "H": HHash(n_functions=200),
    "BH": BHHash(n_functions=200),
    "EH, rank 3": EHHash(n_functions=200, rank=3),
    "EH, dense": EHHash(n_functions=200, rank="dense"),
    "EH, sampled": EHHash(n_functions=200, rank="dense", query_samples=500),
    "H, directions": HHash(n_functions=200, n_directions=3),
}
every_hasher = pytest.mark.parametrize("name", HASHERS)
PLANE = Hyperplane(np.array([1.0, -2, 0.5, 3, 0.1, 1]), -0.7)


@pytest.fixture(scope="module", name="X")
def _rows():
    rng = np.random.default_rng(0)
    return (rng.standard_normal((2 * BLOCK_ROWS + 300, 6)) + 1).astype(np.float32)


@given(bits=st.integers(1, 2), n=st.integers(0, 5), k=st.integers(1, 150), seed=st.integers(0, 99))
def test_codes_keep_every_bit_in_whole_words(bits, n, k, seed):
    """Packing is undone by unpacking, and joining by cutting; unused bits are zero."""
    given_bits = np.random.default_rng(seed).random((n, k * bits)) < 0.5
    codes = Codes.from_bits(given_bits, bits)
    assert (codes.n_functions, codes.bits, len(codes)) == (k, bits, n)
    assert np.array_equal(codes.unpacked(), given_bits)
    assert codes.words.shape == (n, -(-k * bits // 64))
    assert np.unpackbits(codes.packed, axis=1).sum() == given_bits.sum()
    assert np.array_equal(codes.joined(codes).unpacked(), np.concatenate([given_bits, given_bits]))


def test_codes_of_other_functions_are_not_joined():
    """Joining, and packing into too few bytes, are refused with the shapes that clash."""
    with pytest.raises(
        InputError, match="70 functions of 1 bits cannot be joined with 35 functions of 2 bits"
    ):
        Codes(np.zeros((1, 16), np.uint8), 70).joined(Codes(np.zeros((1, 16), np.uint8), 35, 2))
    with pytest.raises(
        InputError, match=r"need contiguous uint8 of shape \(n, 16\), got uint8 of shape \(1, 9\)"
    ):
        Codes(np.zeros((1, 9), np.uint8), 70)


@every_hasher
def test_a_code_is_a_function_of_the_row_alone(name, X):
    """Whatever else is hashed with it, and however the pool is cut into segments."""
    hasher = HASHERS[name].fit(X[:1000])
    whole = hasher.hash_points(X).packed
    for rows in (slice(0, 1), slice(5, 6), slice(100, 2200), slice(BLOCK_ROWS, None)):
        assert np.array_equal(hasher.hash_points(X[rows]).packed, whole[rows])
    for cuts in ([0], [0, 1, 2, 2047, 2050, 4095, 4096], [0, 2048, 4097], list(range(0, 4300, 100))):
        blocks = [(a, X[a:b]) for a, b in zip(cuts, [*cuts[1:], len(X)], strict=True)]
        told = []
        codes = hash_rows(hasher, blocks, len(X), told.append)
        assert np.array_equal(codes.packed, whole)
        assert told == [*range(BLOCK_ROWS, len(X), BLOCK_ROWS), len(X)]


@every_hasher
def test_the_same_seed_draws_the_same_functions_and_another_seed_others(name, X):
    """A hasher is a function of its parameters and of the rows it was fitted on."""
    old = HASHERS[name]
    kind, params = type(old), {key: value for key, value in vars(old).items() if not key.endswith("_")}
    if kind is BHHash:
        params = {key: value for key, value in params.items() if key not in ("rank", "query_samples")}
    one, two = kind(**params).fit(X), kind(**params).fit(X)
    other = kind(**{**params, "random_state": 1}).fit(X)
    assert np.array_equal(one.hash_points(X).packed, two.hash_points(X).packed)
    assert np.array_equal(one.hash_hyperplane(PLANE).packed, two.hash_hyperplane(PLANE).packed)
    differing = one.hash_points(X).unpacked() != other.hash_points(X).unpacked()
    assert 0.3 < differing.mean() < 0.7
    restored = kind(**params).restored(one.arrays())
    assert np.array_equal(one.hash_points(X[:50]).packed, restored.hash_points(X[:50]).packed)
    assert np.array_equal(one.hash_hyperplane(PLANE).packed, restored.hash_hyperplane(PLANE).packed)


@every_hasher
def test_only_the_direction_of_a_hyperplane_matters(name, X):
    """The same hyperplane in other units has the same code; turned round it still has the same neighbours."""
    hasher = HASHERS[name].fit(X)
    scaled = hasher.hash_hyperplane(Hyperplane(PLANE.normal * 40, PLANE.bias * 40))
    if name != "EH, sampled":  # its sample is drawn for each hyperplane anew
        assert np.array_equal(scaled.packed, hasher.hash_hyperplane(PLANE).packed)
    turned = hasher.hash_hyperplane(Hyperplane(-PLANE.normal, -PLANE.bias))
    if name in ("BH", "EH, rank 3", "EH, dense"):
        assert np.array_equal(turned.packed, hasher.hash_hyperplane(PLANE).packed)


@pytest.mark.parametrize("scale", [0.1, 1.0, 7.0])
@pytest.mark.parametrize("centred", [True, False])
def test_augmentation_keeps_every_score(X, scale, centred):
    """The inner product of the augmented vectors is wᵀx + b, but for one positive factor."""
    augmentation = Augmentation.fitted(X, centred=centred, scale=scale, n_directions=None)
    products = augmentation.points(X).astype(np.float64) @ augmentation.hyperplane(PLANE)
    ratios = products / PLANE.scores(X)
    sure = np.abs(PLANE.scores(X)) > 0.1
    assert ratios[0] > 0
    assert np.allclose(ratios[sure], np.median(ratios), rtol=1e-4)
    assert np.linalg.norm(augmentation.hyperplane(PLANE)) == pytest.approx(1, abs=1e-6)


def test_few_directions_keep_the_score_within_them(X):
    """With directions P, the score that is kept is wᵀ(PPᵀ(x − μ) + μ) + b."""
    augmentation = Augmentation.fitted(X, centred=True, scale=1.0, n_directions=2)
    P, mu = augmentation.directions.astype(np.float64), augmentation.centre.astype(np.float64)
    assert np.allclose(P.T @ P, np.eye(2), atol=1e-6)
    projected = (X - mu) @ P @ P.T + mu
    ratios = (
        augmentation.points(X).astype(np.float64) @ augmentation.hyperplane(PLANE) / PLANE.scores(projected)
    )
    sure = np.abs(PLANE.scores(projected)) > 0.1
    assert np.allclose(ratios[sure], np.median(ratios), rtol=1e-4)
    values = np.linalg.eigvalsh(np.cov(X.T, bias=True))
    assert augmentation.constant == pytest.approx(np.sqrt(values[-2:].sum()), rel=1e-4)


@every_hasher
def test_near_points_agree_with_the_hyperplane_more_often(name, X):
    """What all of it is for: among the likest codes are points nearer to the hyperplane than others."""
    pool = ArrayPool(X)
    rows = pool.rows(np.arange(len(pool)))
    hasher = HASHERS[name].fit(rows)
    same = hasher.hash_points(rows).unpacked() == hasher.hash_hyperplane(PLANE).unpacked()
    agree = same.reshape(len(rows), 200, hasher.bits).all(axis=2).sum(axis=1)
    margins = np.abs(PLANE.scores(rows))
    likest = np.argsort(-agree, kind="stable")[:200]
    assert np.median(margins[likest]) < 0.8 * np.median(margins)
