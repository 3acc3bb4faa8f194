"""Neighbourhood components analysis through a network, and the codes that come of it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import expit

from closecall.core.errors import InputError
from closecall.core.hashing import DeepCodes, RandomHyperplaneLSH
from closecall.core.hashing.deep import by_class, by_distance, levelled
from closecall.core.hashing.nca import activations, objective, slopes_of, tuned
from closecall.core.hashing.rbm import pretrained
from closecall.core.linear.hyperplane import euclidean

D = 6


def network(sizes=(D, 5, 4), seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal(shape), rng.standard_normal(shape[1])) for shape in pairwise(sizes)]


def neighbours(n=9, seed=1):
    """Some or no neighbours of each point, not all of them mutual."""
    near = np.random.default_rng(seed).random((n, n)) < 0.3
    np.fill_diagonal(near, False)
    near[2] = False
    return near


def by_hand(F, near):
    """O by its definition, a sum over pairs."""
    total = 0.0
    for n in range(len(F)):
        others = [m for m in range(len(F)) if m != n]
        far = {m: np.exp(-((F[n] - F[m]) ** 2).sum()) for m in others}
        total += sum(far[m] for m in others if near[n, m]) / sum(far.values())
    return total


def blobs(n=900, d=12, n_classes=6, seed=0, apart=1.5):
    """Unit rows about as many centres, and which is where."""
    rng = np.random.default_rng(seed)
    centres = apart * np.random.default_rng(99).standard_normal((n_classes, d))
    y = rng.integers(n_classes, size=n)
    X = centres[y] + rng.standard_normal((n, d))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), y


def sheet(n, seed):
    """Rows about a crumpled sheet of three dimensions in twenty."""
    rng = np.random.default_rng(seed)
    crumpled = np.random.default_rng(99).standard_normal((3, 20))
    inside = rng.uniform(-1, 1, (n, 3))
    return (np.sin(1.5 * inside @ crumpled) + 0.1 * rng.standard_normal((n, 20))).astype(np.float32)


def small(**words):
    given = {"layers": (30,), "n_steps": 300, "n_tuning": 150, "most_passes": 1000, "n_functions": 16}
    return DeepCodes(**{**given, **words})


def test_the_objective_is_its_definition():
    """For points near and far, of which one has no neighbour."""
    for size in (0.1, 1.0, 5.0):
        F, near = size * np.random.default_rng(0).standard_normal((9, 4)), neighbours()
        assert objective(F, near)[0] == pytest.approx(by_hand(F, near))


def test_its_gradient_is_that_of_the_objective():
    """By the points, against central differences of the definition."""
    F, near = np.random.default_rng(0).standard_normal((9, 4)), neighbours()
    gradient = objective(F, near)[1]
    for place in np.ndindex(F.shape):
        step = np.zeros_like(F)
        step[place] = 1e-6
        difference = (by_hand(F + step, near) - by_hand(F - step, near)) / 2e-6
        assert gradient[place] == pytest.approx(difference, abs=1e-8)


@pytest.mark.parametrize("sizes", [(D, 3), (D, 5, 4), (D, 7, 5, 3)])
def test_it_is_propagated_through_the_whole_network(sizes):
    """By every weight and offset of every layer, against central differences."""
    X, near, layers = np.random.default_rng(3).standard_normal((9, D)), neighbours(), network(sizes)
    value, gradients = slopes_of(X, layers, near)
    assert value == pytest.approx(by_hand(activations(X, layers)[-1], near))
    largest = max(np.abs(part).max() for layer in gradients for part in layer)
    assert largest > 0.01
    for layer, slopes in zip(layers, gradients, strict=True):
        for part, slope in zip(layer, slopes, strict=True):
            assert slope.shape == part.shape
            for place in np.ndindex(part.shape):
                before, sides = part[place], []
                for step in (1e-5, -1e-5):
                    part[place] = before + step
                    sides.append(by_hand(activations(X, layers)[-1], near))
                part[place] = before
                assert slope[place] == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-6 * max(1, largest))


def test_points_far_from_all_others_have_a_gradient():
    """However far: the exponentials are of differences to the nearest."""
    F = np.array([[0.0], [100.0], [201.0]])
    near = np.array([[0, 1, 0], [0, 0, 1], [0, 1, 0]], dtype=bool)
    value, gradient = objective(F, near)
    assert value == pytest.approx(2)
    assert np.isfinite(gradient).all()


@pytest.mark.slow
def test_fine_tuning_raises_the_objective():
    """That of all rows, and of the batches it meets; and it leaves the layers it began with alone."""
    X, y = blobs()
    layers = [(part[0].astype(np.float32), part[1].astype(np.float32)) for part in network((12, 20, 8))]
    before = [part.copy() for layer in layers for part in layer]
    found, met = tuned(X, layers, by_class(y), n_steps=120, rng=np.random.default_rng(0))
    everything = by_class(y)(np.arange(len(X)))
    values = [objective(activations(X, own)[-1], everything)[0] / len(X) for own in (layers, found)]
    assert met[0] == pytest.approx(values[0])
    assert values[1] > values[0] + 0.05
    assert met[-20:].mean() > met[:20].mean() + 0.03
    for mine, theirs in zip(before, [part for layer in layers for part in layer], strict=True):
        assert np.array_equal(mine, theirs)
    assert all(part.dtype == np.float32 for layer in found for part in layer)


def test_adam_takes_its_first_steps_as_published():
    """Two steps by hand, from Kingma and Ba's algorithm 1, with all rows in one batch."""
    X, y = blobs(50)
    X = X.astype(float)
    layers = network((12, 3))
    near = by_class(y)
    found, _ = tuned(X, layers, near, n_steps=2, rng=np.random.default_rng(0))
    own = [part.copy() for part in layers[0]]
    m, v = ([np.zeros_like(part) for part in own] for _ in range(2))
    for t in (1, 2):
        _, ((W, b),) = slopes_of(X, [tuple(own)], near(np.arange(50)))
        for i, g in enumerate((W / 50, b / 50)):
            m[i] = 0.9 * m[i] + 0.1 * g
            v[i] = 0.999 * v[i] + 0.001 * g**2
            own[i] += 0.001 * (m[i] / (1 - 0.9**t)) / (np.sqrt(v[i] / (1 - 0.999**t)) + 1e-8)
    assert np.allclose(found[0][0], own[0], rtol=1e-9, atol=1e-12)
    assert np.allclose(found[0][1], own[1], rtol=1e-9, atol=1e-12)


def test_neighbours_of_a_batch_are_its_nearest_or_of_the_class():
    """Against sorting all distances, and comparing all classes; never a row itself."""
    X, y = blobs(60)
    batch = np.random.default_rng(0).permutation(60)[:25]
    far = euclidean(X[batch], X[batch])
    np.fill_diagonal(far, np.inf)
    near = by_distance(X, 4)(batch)
    assert np.array_equal(near, far.argsort(axis=1).argsort(axis=1) < 4)
    alike = by_class(y)(batch)
    assert alike.tolist() == [[bool(i != j and y[i] == y[j]) for j in batch] for i in batch]
    assert by_distance(X, 50)(np.arange(3)).sum(axis=1).tolist() == [1, 1, 1]


def test_bits_are_what_the_stack_gives():
    """The network of machines pre-trained by hand from the same seed, levelled, above one half."""
    X, _ = blobs(300)
    family = small(n_tuning=0, layers=(10, 7), n_functions=40).fit(X)
    rng, seen = np.random.default_rng(0), ((X - family.means_) / family.scales_).clip(-5, 5)
    assert seen.std(axis=0) == pytest.approx(1, abs=0.02)
    for number, n in enumerate((10, 7, 40)):
        own = pretrained(seen, n, gaussian=number == 0, n_steps=300, rng=rng)
        weights, offsets = levelled(seen, own.weights)
        seen = expit(seen @ weights + offsets)
    sure = np.abs(seen - 0.5) > 1e-4
    assert sure.mean() > 0.99
    assert np.array_equal(family.hash_points(X).unpacked()[sure], (seen > 0.5)[sure])


def test_layers_are_levelled():
    """Each unit above one half for half of the rows, none all about one half, and none made smaller."""
    rng = np.random.default_rng(0)
    below, weights = rng.random((501, 8)).astype(np.float32), rng.standard_normal((8, 5)).astype(np.float32)
    weights *= [0.001, 0.1, 1, 10, 0]
    inputs = below @ weights
    more, offsets = levelled(below, weights)
    after = below @ more + offsets
    assert np.median(after, axis=0) == pytest.approx(np.zeros(5), abs=1e-4)
    spread = inputs.std(axis=0)
    assert after.std(axis=0) == pytest.approx([*np.maximum(spread[:4], 1), 0], rel=1e-3)


@pytest.mark.thorough
@pytest.mark.slow
def test_fine_tuned_codes_find_more_neighbours():
    """By distance: more than before, and more than random hyperplanes, which know no rows."""
    X, Q = sheet(2000, 0), sheet(100, 1)
    wanted = np.zeros((100, 2000), dtype=bool)
    np.put_along_axis(wanted, np.argsort(euclidean(Q, X), axis=1)[:, :20], True, axis=1)
    after, before = (small(layers=(100,), n_tuning=n, n_near=20).fit(X) for n in (300, 0))
    found = precision(after, X, Q, wanted)
    assert found > precision(before, X, Q, wanted) + 0.05
    plain = [RandomHyperplaneLSH(n_functions=16, random_state=seed).fit(X) for seed in range(5)]
    assert found > np.mean([precision(family, X, Q, wanted) for family in plain]) + 0.03


@pytest.mark.thorough
@pytest.mark.slow
def test_classes_teach_what_distances_do_not():
    """Where the class is in a feature that hardly changes any distance, and some classes are unknown."""
    rng = np.random.default_rng(0)
    y = np.arange(1200) % 2
    X = rng.standard_normal((1200, 10)).astype(np.float32) * 3
    X[:, 4] = 0.5 * rng.standard_normal(1200) + y
    some = np.where(np.arange(1200) % 3 == 0, -1, y)[:1000]
    Q, wanted = X[1000:], y[1000:, None] == y[:1000]
    learned = small(neighbours="class").fit(X[:1000], some)
    plain = small().fit(X[:1000], some)
    assert precision(learned, X[:1000], Q, wanted) > precision(plain, X[:1000], Q, wanted) + 0.1


def precision(family, X, Q, wanted, k=20):
    """The share of wanted rows among the first k by Hamming distance."""
    points, queries = (family.hash_points(some).unpacked().astype(int) for some in (X, Q))
    first = np.argsort((queries[:, None] != points).sum(axis=2), axis=1, kind="stable")[:, :k]
    return np.take_along_axis(wanted, first, axis=1).mean()


def test_few_rows_are_passed_so_often_and_no_more():
    """Fine-tuning ends after so many batches as make `most_passes` passes."""
    X, _ = blobs(2100)
    assert len(small(n_tuning=7, most_passes=3).fit(X).met_) == 6
    assert len(small(n_tuning=5, most_passes=3).fit(X).met_) == 5
    assert len(small(n_tuning=7, most_passes=3).fit(X[:40]).met_) == 3


def test_odd_rows_do_no_harm():
    """A feature that is constant, and one that is nearly so, with a number far beyond all others."""
    X, _ = blobs(300)
    X[:, 3], X[:, 5] = 0.2, 0
    X[7, 5] = 1e6
    family = small().fit(X)
    assert all(np.isfinite(part).all() for layer in family.layers_ for part in layer)
    bits = family.hash_points(X).unpacked()
    assert len(np.unique(bits, axis=0)) > 20


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"neighbours": "colour"}, "neighbours must be one of distance, class, got 'colour'"),
        ({"layers": (5, 0)}, r"layers must be integers of at least 1, got \[5, 0\]"),
        ({"layers": (4.5,)}, r"layers must be integers of at least 1, got \[4.5\]"),
        ({"n_near": 0}, "n_near must be at least 1, got 0"),
        ({"n_steps": -1}, "n_steps must be at least 0, got -1"),
        ({"n_tuning": -1}, "n_tuning must be at least 0, got -1"),
        ({"most_passes": -1}, "most_passes must be at least 0, got -1"),
    ],
)
def test_parameters_are_checked(words, message):
    """One sentence each."""
    with pytest.raises(InputError, match=message):
        DeepCodes(**words).fit(blobs(30)[0])


def test_rows_that_teach_nothing_are_refused():
    """Too few, sparse, or without the classes that were asked for."""
    X, _ = blobs(30)
    with pytest.raises(InputError, match=r"at least 3 rows are needed .*, got 2"):
        DeepCodes().fit(X[:2])
    with pytest.raises(InputError, match="rbm needs dense rows, got sparse ones"):
        DeepCodes().fit(csr_array(X))
    with pytest.raises(InputError, match="y must be given, got None"):
        DeepCodes(neighbours="class").fit(X)
    with pytest.raises(InputError, match="got 30 labels of 1 class"):
        DeepCodes(neighbours="class").fit(X, np.zeros(30))
