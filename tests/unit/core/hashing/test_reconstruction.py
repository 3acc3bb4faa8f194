"""Points reconstructed from their codes: least squares, against definitions written out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from closecall.core.hashing import BHHash, EHHash, HHash
from closecall.core.hashing.reconstruction import Moments
from closecall.core.linear.hyperplane import Hyperplane


@pytest.fixture(scope="module", name="X")
def _rows():
    """Points that lie unevenly: some directions matter more, and all lean to one side."""
    rng = np.random.default_rng(0)
    return (rng.standard_normal((5000, 6)) * [3, 2, 1, 0.5, 0.3, 0.2] + 1).astype(np.float32)


def sample(n=400, n_bits=12, n_embedded=4, seed=0):
    rng = np.random.default_rng(seed)
    bits = rng.random((n, n_bits)) < 0.6
    bits[:, 1] = bits[:, 0]  # a bit that says nothing new
    E = (
        (2.0 * bits - 1) @ rng.standard_normal((n_bits, n_embedded))
        + rng.standard_normal((n, n_embedded))
        + 3
    )
    return bits, E.astype(np.float32)


def test_moments_do_not_depend_on_the_blocks():
    """Means and covariances are those of numpy, however the sample is cut."""
    bits, E = sample()
    signs = 2.0 * bits - 1
    for cuts in ([0, 400], [0, 1, 130, 400]):
        blocks = [(bits[a:b], E[a:b]) for a, b in pairwise(cuts)]
        moments = Moments.of(blocks)
        assert moments.samples == 400
        assert np.allclose(moments.bits, signs.mean(axis=0))
        assert np.allclose(moments.embedded, E.mean(axis=0), atol=1e-5)
        both = np.cov(np.column_stack([signs, E]).T, bias=True)
        assert np.allclose(moments.covariance, both[:12, :12], atol=1e-5)
        assert np.allclose(moments.cross, both[:12, 12:], atol=1e-4)


@pytest.mark.parametrize("some", [None, np.array([0, 1, 5]), np.array([7])])
def test_it_is_the_ridge_regression_on_those_bits(some):
    """Written out once more: centred least squares with a little ridge, and a constant."""
    bits, E = sample()
    reconstruction = Moments.of([(bits, E)]).reconstruction(some)
    signs = (2.0 * bits - 1)[:, slice(None) if some is None else some]
    centred, ridge = signs - signs.mean(axis=0), signs.shape[1] / 400
    D = np.linalg.solve(centred.T @ centred / 400 + ridge * np.eye(signs.shape[1]), centred.T @ E / 400)
    rng = np.random.default_rng(1)
    for _ in range(5):
        e = rng.standard_normal(4).astype(np.float32)
        weights, offset = reconstruction.weights(e)
        assert np.allclose(weights, D @ e, atol=1e-4)
        assert offset + signs.mean(axis=0) @ weights == pytest.approx(E.mean(axis=0) @ e, abs=1e-3)


def test_moments_can_be_saved():
    """From their arrays come the same moments."""
    moments = Moments.of([sample()])
    again = Moments.from_arrays(moments.arrays())
    assert np.array_equal(again.reconstruction().parts, moments.reconstruction().parts)


@pytest.mark.parametrize("n_samples", [1, 2, 30])
def test_few_samples_and_many_bits_give_no_nonsense(X, n_samples):
    """A pool of one item has no covariances; its own mean is all that is known."""
    hasher = HHash(n_functions=50).fit(X[:n_samples])
    query = hasher.query(Hyperplane(np.ones(6), 0.5))
    assert np.isfinite(query.weights).all()
    assert np.isfinite(query.offset)


@pytest.mark.parametrize(
    "hasher",
    [
        HHash(n_functions=200),
        HHash(n_functions=200, n_directions=3),
        BHHash(n_functions=200),
        EHHash(n_functions=200, rank=2),
        EHHash(n_functions=200, rank="dense"),
    ],
    ids=["H", "H, directions", "BH", "EH, rank 2", "EH, dense"],
)
def test_the_weights_tell_the_score_better_than_the_hyperplanes_own_projections(X, hasher):
    """H-Hash's estimate goes with the score, the others' with its square; on points not fitted on."""
    hasher.fit(X[:4000])
    signs = 2.0 * hasher.hash_points(X[4000:]).unpacked() - 1
    rng = np.random.default_rng(0)
    by_weights, by_projections = [], []
    for _ in range(20):
        plane = Hyperplane(rng.standard_normal(6), rng.normal() - 1)
        scores = plane.scores(X[4000:])
        truth = scores if hasher.bits == 2 else scores**2
        query = hasher.query(plane)
        assert query.signed == (hasher.bits == 2)
        w = hasher.augmentation_.hyperplane(plane)
        projections = hasher._projections(w, query.embedded)
        by_weights.append(np.corrcoef(signs @ query.weights + query.offset, truth)[0, 1])
        by_projections.append(np.corrcoef(signs @ projections, truth)[0, 1])
    assert np.median(by_weights) > 0.9
    assert np.median(by_weights) > np.median(by_projections)


def test_the_estimate_is_in_the_scores_own_units_up_to_one_factor(X):
    """The estimates of H-Hash are unbiased, constant included: the likest are where the score is zero."""
    hasher = HHash(n_functions=300).fit(X)
    signs = 2.0 * hasher.hash_points(X).unpacked() - 1
    plane = Hyperplane(np.array([1.0, -2, 0.5, 3, 0.1, 1]), -4.0)
    query = hasher.query(plane)
    slope, at_zero = np.polyfit(signs @ query.weights + query.offset, plane.scores(X), 1)
    assert slope > 0
    assert abs(at_zero) < 0.05 * np.std(plane.scores(X))


def test_where_too_much_would_have_to_be_known_projections_serve(X):
    """Products of many features are too many to know their covariances with the bits."""
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((60, 50)).astype(np.float32)
    hasher = BHHash(n_functions=30).fit(wide)
    plane = Hyperplane(rng.standard_normal(50), 0.1)
    query = hasher.query(plane)
    assert hasher.moments_ is None
    assert query.embedded is None
    w = hasher.augmentation_.hyperplane(plane)
    factors = hasher.factors_.reshape(51, 2, 30)
    assert np.allclose(query.weights, (w @ factors[:, 0]) * (w @ factors[:, 1]), atol=1e-4)
