"""Search by KLSH against a scan by the kernel: coverage and accuracy, each counted again by brute force."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.experiment.coverage import CoverageSweep, covered, has_classes
from closecall.core.experiment.families import Draw
from closecall.core.experiment.kernelized import Form
from closecall.core.experiment.queries import Items, held_out_queries
from closecall.core.pool.build import build
from closecall.core.search.orders import PermutedOrders
from tests.fakes import FakeSource
from tests.unit.app.experiments.histograms import ten_classes

K, SEED, BITS = 7, 4, 32
SWEEP = CoverageSweep(epsilons=(1.5, 3.0, 0.5), first=(20, 5), within=(5, 20, 40, 1_000))


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    return build(ten_classes(300, 60), tmp_path_factory.mktemp("coverage") / "pool", threads=1)


@pytest.fixture(scope="module")
def asked(pool):
    return held_out_queries(pool, 30, 30, known=True)


@pytest.fixture(scope="module")
def rows(pool, asked):
    queries, choosing = asked
    return list(SWEEP.measured(pool, drawn(pool, choosing), queries, k=K, n_functions=BITS))


def drawn(pool, choosing, **changed) -> Draw:
    words = {"kernel": "chi2", "n_landmarks": 60, "share": 0.02, "seed": SEED, **changed}
    return Draw.of(pool, choosing.X, **words)


def shares_of_one(X: np.ndarray) -> np.ndarray:
    wide = X.astype(np.float64)
    return wide / wide.sum(axis=1, keepdims=True)


def test_every_row_is_that_of_brute_force(pool, asked, rows):
    """In NumPy, apart from the codes and the candidates that the published orders propose for them."""
    queries, choosing = asked
    draw, every = drawn(pool, choosing), pool.rows(np.arange(len(pool)))
    X, Q, y = shares_of_one(every), shares_of_one(queries.X), pool.truth(pool.ids)
    kernel = np.array([(2 * q * X / (q + X)).sum(axis=1) for q in Q])
    scanned = np.argsort(-kernel, axis=1, kind="stable")
    assert [(row["search"], row["form"], row["epsilon"]) for row in rows] == [
        ("scan", None, None),
        *(
            ("orders", form, epsilon)
            for form in ("original", "low rank, transformed")
            for epsilon in (0.5, 1.5, 3.0)
        ),
    ]
    for row in rows:
        assert (row["first"], row["within"], row["seed"]) == ([5, 20], [5, 20, 40, 300], SEED)
        candidates = [np.arange(len(pool))] * len(Q)
        if row["search"] == "orders":
            form = Form("chi2", row["rank"], row["scale"])
            hasher = form.hasher(n_landmarks=60, random_state=SEED, n_functions=BITS).fit(draw.sample)
            orders = PermutedOrders.published(
                hasher.hash_points(every), row["epsilon"], n_bytes=10**9, seed=SEED
            )
            candidates = [orders.proposed(code, len(pool)) for code in hasher.queries(queries.X)]
        found = [own[np.isin(own, some)] for own, some in zip(scanned, candidates, strict=True)]
        for k, curve in zip(row["first"], row["covered"], strict=True):
            pairs = list(zip(found, scanned, strict=True))
            shares = [
                np.mean([len(set(own[:k]) & set(whole[:n])) / k for own, whole in pairs])
                for n in row["within"]
            ]
            np.testing.assert_allclose(curve, shares)
        right = []
        for own, true in zip(found, queries.truth, strict=True):
            votes = np.bincount(y[own[:K]], minlength=10)
            tied = [one for one in y[own[:K]] if votes[one] == votes.max()]
            right.append(tied[0] == true)
        assert row["accuracy"] == pytest.approx(np.mean(right))
        assert row["searched"] == pytest.approx(np.mean([len(own) for own in found]) / len(pool))


def test_no_search_covers_more_than_the_scan(rows):
    """The scan covers min(n/k, 1); a search with fewer than k candidates leaves some uncovered."""
    scan, *searches = rows
    np.testing.assert_allclose(scan["covered"], [[1, 1, 1, 1], [0.25, 1, 1, 1]])
    for row in searches:
        curves = np.array(row["covered"])
        assert (np.diff(curves) >= 0).all()
        assert (curves <= np.array(scan["covered"]) + 1e-12).all()
        if row["epsilon"] == 3:  # 18 entries for 20 items
            assert curves[1, -1] <= 18 / 20


def test_coverage_of_one_query():
    """By hand: item 9 is beyond the scan's items, and the search has only three."""
    found = covered(np.array([4, 2, 9]), np.array([1, 4, 7, 2]), [1, 2, 5], [1, 2, 4])
    np.testing.assert_allclose(found, [[0, 1, 1], [0, 0.5, 1], [0, 0.2, 0.4]])


def test_without_classes_there_is_no_accuracy(pool, asked, tmp_path):
    """Of the queries, or of all rows; coverage needs none."""
    queries, choosing = asked
    sweep = CoverageSweep(epsilons=(1.5,))
    unknown = Items(queries.X, np.where(np.arange(30) == 3, -1, queries.truth))
    rows = list(sweep.measured(pool, drawn(pool, choosing), unknown, n_functions=16))
    assert {row["accuracy"] for row in rows} == {None}
    assert has_classes(pool)
    bare = build(FakeSource(60, 4, classes=(), held_out=range(9)), tmp_path / "bare", threads=1)
    assert not has_classes(bare)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"epsilons": ()}, "coverage needs at least one ε, one k and one n, got none"),
        ({"first": ()}, "coverage needs at least one ε, one k and one n, got none"),
        ({"epsilons": (1.0, 0.0)}, "epsilon must be positive and finite, got 0"),
        ({"epsilons": (float("nan"),)}, "epsilon must be positive and finite, got nan"),
        ({"within": (10, 0)}, "k and n of coverage must be at least 1, got 0"),
    ],
)
def test_values_that_cannot_be_measured(words, message):
    """One sentence, with what is allowed."""
    with pytest.raises(InputError, match=message):
        CoverageSweep(**words)


def test_bad_searches_are_refused(pool, asked):
    """A vote of nobody, and rows that the kernel doesn't take."""
    queries, choosing = asked
    with pytest.raises(InputError, match="k must be at least 1, got 0"):
        list(SWEEP.measured(pool, drawn(pool, choosing), queries, k=0))
    with pytest.raises(InputError, match="at least as many rows as landmarks, 301, got 300"):
        list(SWEEP.measured(pool, drawn(pool, choosing, n_landmarks=301), queries))
