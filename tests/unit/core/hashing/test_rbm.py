"""Restricted Boltzmann machines, against enumeration of all their states."""

from __future__ import annotations

from itertools import islice, product

import numpy as np
import pytest

from closecall.core.hashing.rbm import RBM, batches, bits, contrastive_divergence, pretrained
from tests.scale import scaled
from tests.yardsticks import free_energy, reconstructed

N_VISIBLE, N_HIDDEN = 4, 3

both_kinds = pytest.mark.parametrize("gaussian", [False, True])


def machine(gaussian, seed=0, size=0.7):
    rng = np.random.default_rng(seed)
    shapes = ((N_VISIBLE, N_HIDDEN), N_VISIBLE, N_HIDDEN)
    return RBM(*(size * rng.standard_normal(shape) for shape in shapes), gaussian)


def states(n):
    """All of n binary units."""
    return np.array(list(product([0.0, 1.0], repeat=n)))


def energy(own, v, h):
    """Eq. 16, for one state."""
    unary = ((v - own.visible) ** 2).sum() / 2 if own.gaussian else -own.visible @ v
    return unary - own.hidden @ h - v @ own.weights @ h


def data(gaussian, n=40):
    rng = np.random.default_rng(7)
    common = rng.standard_normal((n, 1))
    X = common + rng.standard_normal((n, N_VISIBLE))
    return X if gaussian else (X > 0.2).astype(float)


def of_the_model(own):
    """⟨v h⟩, ⟨v⟩ and ⟨h⟩ of the model itself, by enumeration.

    Of Gaussian units the hidden states are enumerated: ∫ exp(−E) dv is exp(cᵀh + ‖b + Wh‖²/2 − ‖b‖²/2) times
    a constant, and v has then the mean b + Wh.
    """
    H = states(N_HIDDEN)
    if own.gaussian:
        means = own.visible + H @ own.weights.T
        logs = H @ own.hidden + (means**2).sum(axis=1) / 2
        p = np.exp(logs - logs.max())
        p /= p.sum()
        return (means * p[:, None]).T @ H, p @ means, p @ H
    V = states(N_VISIBLE)
    p = np.exp([[-energy(own, v, h) for h in H] for v in V])
    p /= p.sum()
    return V.T @ p @ H, p.sum(axis=1) @ V, p.sum(axis=0) @ H


def exact_gradient(own, X):
    """Of the mean log p(v), in the shapes of W, b and c."""
    H = states(N_HIDDEN)
    p = np.exp([[-energy(own, v, h) for h in H] for v in X])
    p /= p.sum(axis=1, keepdims=True)
    hidden = p @ H
    of_data = X.T @ hidden / len(X), X.mean(axis=0), hidden.mean(axis=0)
    return [mine - model for mine, model in zip(of_data, of_the_model(own), strict=True)]


def likelihood_of(own, X):
    """Mean log p(v), but for the constant of the Gaussian."""
    if own.gaussian:
        H = states(N_HIDDEN)
        means = own.visible + H @ own.weights.T
        logs = H @ own.hidden + (means**2).sum(axis=1) / 2 - own.visible @ own.visible / 2
        return -free_energy(own, X).mean() - np.log(np.exp(logs).sum())
    return -free_energy(own, X).mean() - np.log(np.exp(-free_energy(own, states(N_VISIBLE))).sum())


def flat(parts):
    return np.concatenate([part.ravel() for part in parts])


@both_kinds
def test_the_free_energy_is_that_of_all_hidden_states(gaussian):
    """F(v) = −log Σ_h exp(−E(v, h))."""
    own, X = machine(gaussian), data(gaussian)
    by_hand = [-np.log(sum(np.exp(-energy(own, v, h)) for h in states(N_HIDDEN))) for v in X]
    assert free_energy(own, X) == pytest.approx(by_hand)


@both_kinds
def test_units_of_a_side_are_as_probable_as_their_energies_say(gaussian):
    """p(h | v) and p(v | h) against enumeration, or the Gaussian's least energy."""
    own, X = machine(gaussian), data(gaussian, 6)
    H, V = states(N_HIDDEN), states(N_VISIBLE)
    for v, means in zip(X, own.hidden_means(X), strict=True):
        p = np.exp([-energy(own, v, h) for h in H])
        assert means == pytest.approx(p @ H / p.sum())
    for h, means in zip(H, own.visible_means(H), strict=True):
        if gaussian:
            around = [energy(own, means + step, h) for step in 0.1 * np.vstack([np.eye(4), -np.eye(4)])]
            assert around == pytest.approx([energy(own, means, h) + 0.005] * 8)
        else:
            p = np.exp([-energy(own, v, h) for v in V])
            assert means == pytest.approx(p @ V / p.sum())


@both_kinds
def test_the_gradient_by_enumeration_is_that_of_the_likelihood(gaussian):
    """What the next tests compare with, itself against central differences of the mean log p(v)."""
    own, X = machine(gaussian), data(gaussian)
    slopes = []
    for part in (own.weights, own.visible, own.hidden):
        for place in np.ndindex(part.shape):
            before = part[place]
            sides = []
            for step in (1e-5, -1e-5):
                part[place] = before + step
                sides.append(likelihood_of(own, X))
            part[place] = before
            slopes.append((sides[0] - sides[1]) / 2e-5)
    assert flat(exact_gradient(own, X)) == pytest.approx(slopes, abs=1e-7)


@pytest.mark.slow
@both_kinds
def test_after_many_steps_the_gradient_is_the_exact_one(gaussian):
    """Contrastive divergence over a hundred steps of many chains, but for its standard error."""
    own, X = machine(gaussian), data(gaussian)
    rng = np.random.default_rng(1)
    many = np.array(
        [flat(contrastive_divergence(own, X, rng, 100)) for _ in range(scaled(quick=200, all=600))]
    )
    errors = np.abs(many.mean(axis=0) - flat(exact_gradient(own, X)))
    assert (errors < 4.5 * many.std(axis=0) / np.sqrt(len(many))).all()
    assert np.abs(flat(exact_gradient(own, X))).max() > 20 * errors.max()


@both_kinds
def test_one_step_already_goes_uphill(gaussian):
    """CD-1's direction and the exact gradient's are at an acute angle, for machines of many kinds."""
    X = data(gaussian)
    for seed in range(10):
        own = machine(gaussian, seed, 0.3)
        rng = np.random.default_rng(seed)
        mean = np.mean([flat(contrastive_divergence(own, X, rng)) for _ in range(50)], axis=0)
        exact = flat(exact_gradient(own, X))
        assert mean @ exact > 0.3 * np.linalg.norm(mean) * np.linalg.norm(exact)


@both_kinds
def test_learning_makes_the_data_likelier(gaussian):
    """By enumeration, and their reconstruction better."""
    X = data(gaussian, 400).astype(np.float32)
    if gaussian:
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    learned = [
        pretrained(X, N_HIDDEN, gaussian=gaussian, n_steps=n, rng=np.random.default_rng(0)) for n in (0, 1500)
    ]
    errors = [((reconstructed(own, X) - X) ** 2).mean() for own in learned]
    assert errors[1] < 0.8 * errors[0]
    assert likelihood_of(learned[1], X) > likelihood_of(learned[0], X) + 0.1


@both_kinds
def test_learning_is_a_function_of_the_seed(gaussian):
    """Twice the same, and something else from another one."""
    X = data(gaussian).astype(np.float32)
    one, two, other = (
        pretrained(X, 5, gaussian=gaussian, n_steps=30, rng=np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    assert np.array_equal(one.weights, two.weights)
    assert not np.array_equal(one.weights, other.weights)
    assert one.weights.dtype == one.hidden.dtype == np.float32


def test_more_hidden_units_do_not_make_it_diverge():
    """Many of them, of features that are nearly all the same one."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 1)) + 0.2 * rng.standard_normal((500, 200))
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    for n_hidden in (2, 800):
        own = pretrained(X, n_hidden, gaussian=True, n_steps=150, rng=np.random.default_rng(0))
        assert ((reconstructed(own, X) - X) ** 2).mean() < 0.7


def test_batches_are_all_rows_again_and_again():
    """Each once before any a second time."""
    for n, size in ((10, 3), (7, 100), (1000, 100)):
        parts = batches(n, size, np.random.default_rng(0))
        for _ in range(2):
            once = list(islice(parts, max(1, round(n / size))))
            assert sorted(np.concatenate(once).tolist()) == list(range(n))


def test_bits_are_as_frequent_as_their_means():
    """Within five standard errors, in the number format of the means."""
    for dtype in (np.float32, np.float64):
        means = np.tile(np.array([0.0, 0.1, 0.5, 1.0], dtype=dtype), (10_000, 1))
        drawn = bits(means, np.random.default_rng(0))
        assert drawn.dtype == dtype
        assert drawn.mean(axis=0) == pytest.approx(means[0], abs=0.025)
        assert set(np.unique(drawn)) == {0, 1}
