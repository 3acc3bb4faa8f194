"""Points in rectangles: eigenfunctions against a Laplacian on a grid, scores against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from closecall.core.errors import InputError
from closecall.core.experiment.rectangles import (
    METHODS,
    ON_SPECTRAL,
    TEN_DIMENSIONS,
    Box,
    Method,
    distances,
    eigenfunctions,
    score,
    true_neighbours,
)
from closecall.core.hashing import Codes, SpectralHash
from closecall.core.hashing.pairs import Pairs

BOX = Box.of_aspect(2)


def test_a_rectangle_has_its_aspect_and_area_1():
    """And its points are uniform in it, by a test of each coordinate."""
    for aspect in (1, 2, 4.5):
        a, b = Box.of_aspect(aspect).lengths
        assert (a / b, a * b) == (pytest.approx(aspect), pytest.approx(1))
    for box in (BOX, TEN_DIMENSIONS):
        points = box.uniform(2000, np.random.default_rng(0))
        assert points.dtype == np.float32
        for column, length in zip(points.T, box.lengths, strict=True):
            assert stats.kstest(column, "uniform", (0, length)).pvalue > 1e-3
    for wrong in (0.5, float("nan"), float("inf")):
        with pytest.raises(InputError, match=f"a finite number of at least 1, got {wrong}"):
            Box.of_aspect(wrong)


def test_a_grid_has_the_centres_of_square_cells():
    """Computed by hand for a rectangle of 4 to 2 cells."""
    grid = Box("2 to 1", (2.0, 1.0)).grid(8)
    assert grid.shape == (2, 4, 2)
    assert grid[..., 0].tolist() == [[0.25, 0.75, 1.25, 1.75]] * 2
    assert grid[..., 1].tolist() == [[0.25] * 4, [0.75] * 4]


def test_eigenfunctions_are_those_of_the_laplacian_on_a_grid():
    """With reflecting edges: the smallest eigenvalues within 2 %, and the functions up to rounding."""
    steps = 40
    grid = BOX.grid(2 * steps**2)
    high, wide = grid.shape[:2]

    def second_differences(n):
        L = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
        L[0, 0] = L[-1, -1] = 1
        return L * (steps / BOX.lengths[1]) ** 2

    across, upwards = second_differences(wide), second_differences(high)
    found = eigenfunctions(BOX, 12)
    # The Laplacian is the Kronecker sum of both, so its eigenvalues are the sums of theirs.
    sums = np.add.outer(np.linalg.eigvalsh(upwards), np.linalg.eigvalsh(across))
    wanted = np.sort(sums, axis=None)[1:13]
    np.testing.assert_allclose([one.squared for one in found], wanted, rtol=0.02)
    for one in found:
        values = one.values(grid, BOX).reshape(high, wide)
        ratio = values @ across + upwards @ values
        value = np.sum(values * ratio) / np.sum(values**2)
        assert value == pytest.approx(one.squared, rel=0.02)
        np.testing.assert_allclose(ratio, value * values, atol=1e-3 * value)
        k, m = one.modes
        assert one.is_product is (k > 0 and m > 0)


def test_spectral_hashing_takes_those_that_are_no_products():
    """In the same order, of a grid that fills the rectangle, up to sign."""
    grid = Box("long", (3.0, 1.0)).grid(3 * 60**2)
    family = SpectralHash(n_functions=6).fit(grid.reshape(-1, 2))
    edges = Box("centres", tuple(np.ptp(grid.reshape(-1, 2), axis=0).tolist()))
    single = [one for one in eigenfunctions(edges, 20) if not one.is_product][:6]
    np.testing.assert_allclose([one.squared for one in single], family.eigenvalues, rtol=1e-5)
    found = family.eigenfunctions(grid.reshape(-1, 2))
    for own, one in zip(found.T, single, strict=True):
        values = one.values(grid.reshape(-1, 2) - grid[0, 0], edges)
        assert min(np.abs(own - values).max(), np.abs(own + values).max()) < 1e-3


def test_scores_are_those_of_brute_force():
    """With random codes: among points within 1 bit, and among the first k in random order of ties."""
    rng = np.random.default_rng(3)
    points, queries = BOX.uniform(200, rng), BOX.uniform(30, rng)
    every = np.concatenate([points, queries])
    neighbours = true_neighbours(points, queries, 7)
    for own, query in zip(neighbours, queries, strict=True):
        assert own.tolist() == np.argsort(np.linalg.norm(points - query, axis=1))[:7].tolist()
    for n_bits in (3, 6, 40):
        bits = rng.random((len(every), n_bits)) < 0.5

        def coder(P, bits=bits):
            rows = [int(np.flatnonzero((every == p).all(axis=1))[0]) for p in P]
            return Codes.from_bits(bits[rows])

        found, good, first = 0, 0, []
        for place, own in enumerate(neighbours):
            far = (bits[:200] != bits[200 + place]).sum(axis=1)
            found += (far <= 1).sum()
            good += (far[own] <= 1).sum()
            chances = [np.clip((7 - (far < d).sum()) / (far == d).sum(), 0, 1) for d in far[own]]
            first.append(np.mean(chances))
            assert np.array_equal(distances(coder, queries[place], points), far)
        one = score(coder, points, queries, neighbours)
        assert one.within == (pytest.approx(good / found) if found else None)
        assert one.first == pytest.approx(np.mean(first))
        assert one.retrieved == pytest.approx(found / 30)
    assert one.within is None  # of 40 random bits, nobody's differ in one only


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_method_gives_as_many_bits_and_repeats_itself(method):
    """The same seed gives the same codes; near points differ in fewer bits than others."""
    points = BOX.uniform(400, np.random.default_rng(1))
    coder = METHODS[method](points, 12, 10, 5)
    codes = coder(points)
    assert codes.n_functions == 12
    assert np.array_equal(codes.packed, METHODS[method](points, 12, 10, 5)(points).packed)
    near = true_neighbours(points, points, 11)[:, 1:]
    bits = codes.unpacked()
    apart = (bits[:, None] != bits[near]).mean()
    assert apart < 0.5 * (bits[:, None] != bits[None]).mean()


def test_lines_of_lsh_cut_the_rectangle_anywhere():
    """Two points differ in θ/π of 4,000 bits, θ their angle with the third coordinate."""
    points = BOX.uniform(500, np.random.default_rng(2))
    coder = METHODS[Method("lsh")](points, 4000, 50, 0)
    bits = coder(points).unpacked()
    mean = points.mean(axis=0, dtype=np.float64)
    height = np.sqrt(((points - mean) ** 2).sum(axis=1).mean())
    lifted = np.column_stack([points - mean, np.full(len(points), height)])
    lifted /= np.linalg.norm(lifted, axis=1, keepdims=True)
    for i in range(20):
        theta = np.arccos(np.clip(lifted[i] @ lifted[i + 20], -1, 1))
        low, high = stats.binom.interval(0.9999, 4000, theta / np.pi)
        assert low <= (bits[i] != bits[i + 20]).sum() <= high
    share = bits.mean(axis=0)
    assert share.min() < 0.02  # unlike lines through the mean, some cut off hardly anything


def test_boosting_on_spectral_bits_chooses_among_them():
    """The first of them is the stump that brute force finds best; each of its bits is one of theirs."""
    points = BOX.uniform(400, np.random.default_rng(4))
    spectral = METHODS[Method("spectral")](points, 8, 20, 0)(points).unpacked()
    chosen = METHODS[Method("boosted", ON_SPECTRAL)](points, 8, 20, 0)(points).unpacked()
    for own in chosen.T:
        assert (own[:, None] == spectral).all(axis=0).any()
    pairs = Pairs.by_distance(points, 20_000, 20, np.random.default_rng(0))
    agree = (spectral[pairs.rows[:, 0]] == spectral[pairs.rows[:, 1]]).astype(np.float64)
    z = np.where(pairs.near, 1.0, -1.0)
    errors = [((z - z.mean() - 0.2 * (a - a.mean())) ** 2).sum() for a in agree.T]
    assert np.array_equal(chosen[:, 0], spectral[:, np.argmin(errors)])


def test_an_rbm_on_spectral_bits_is_a_function_of_them():
    """Points with equal spectral bits have equal codes."""
    points = BOX.uniform(400, np.random.default_rng(4))
    spectral = METHODS[Method("spectral")](points, 6, 20, 0)(points).unpacked()
    codes = METHODS[Method("rbm", ON_SPECTRAL)](points, 6, 20, 0)(points).unpacked()
    _, cells = np.unique(spectral, axis=0, return_inverse=True)
    for cell in range(cells.max() + 1):
        assert len(np.unique(codes[cells == cell], axis=0)) == 1
    assert len(np.unique(codes, axis=0)) > 6
