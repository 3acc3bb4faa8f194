"""Each contender against a plain reading of its definition."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.linear.svm import train
from closecall.core.numerics.rows import is_sparse
from closecall.core.selection import ArrayPool, make_strategy, strategy_names
from closecall.core.selection.contenders import CONTENDERS, cosines
from closecall.core.selection.requests import LabeledItems
from tests.contract.kit import bags, dense_rows, gaussian_pool, hyperplanes

PLANES = hyperplanes(12)
N_SHORT = 25


@pytest.fixture(scope="module", params=[gaussian_pool, bags], ids=["dense", "sparse"])
def pool(request) -> ArrayPool:
    return request.param(600)


@pytest.fixture
def labels(pool) -> LabeledItems:
    """Labels in no order, among them that of an example image."""
    rng = np.random.default_rng(1)
    ids = rng.choice(pool.ids, 30, replace=False)
    y = dense_rows(pool)[np.searchsorted(pool.ids, ids)] @ PLANES[0].normal > 0
    y[:2] = [True, False]
    return LabeledItems(np.append(ids, -1), np.append(y, True))


def features(pool: ArrayPool) -> np.ndarray:
    """All rows, rounded as contenders round them, in float64."""
    return np.rint(dense_rows(pool).astype(np.float64) * 4096) / 4096


def shortlist(pool: ArrayPool, plane, labels: LabeledItems) -> np.ndarray:
    """Rows of the nearest items without a label, the nearest first."""
    margins = np.abs(dense_rows(pool).astype(np.float64) @ plane.normal + plane.bias)
    margins[np.isin(pool.ids, labels.ids)] = np.inf
    return np.lexsort((pool.ids, margins))[:N_SHORT]


def density(pool, near, sample, plane, labels):
    X = features(pool)
    return [np.sort(X[sample] @ X[row])[-20:].mean() for row in near]


def output_change(pool, near, sample, plane, labels):
    X, values = features(pool), []
    scores = dense_rows(pool)[sample].astype(np.float64) @ plane.normal + plane.bias
    for row in near:
        change = (X[sample] @ X[row] + 1) / 2
        flips = [np.sum((scores + sign * change > 0) != (scores > 0)) for sign in (1, -1)]
        values.append(np.mean(flips))
    return values


def variance_reduction(pool, near, sample, plane, labels):
    """The mean variance of the scores before the label, minus that after it, in weight space."""
    X = np.column_stack([features(pool), np.ones(len(pool))])
    known = X[np.isin(pool.ids, labels.ids)]

    def mean_variance(rows: np.ndarray) -> float:
        covariance = np.linalg.inv(np.eye(X.shape[1]) + rows.T @ rows / 0.1)
        return float(np.einsum("ij,jk,ik->i", X[sample], covariance, X[sample]).mean())

    before = mean_variance(known)
    return [before - mean_variance(np.vstack([known, X[row]])) for row in near]


def disagreement(pool, near, sample, plane, labels):
    ids = np.sort(labels.ids[labels.ids >= 0])
    y = dict(zip(labels.ids.tolist(), labels.y.tolist(), strict=True))
    X, rows = dense_rows(pool).astype(np.float64), pool.rows(np.searchsorted(pool.ids, ids))
    planes = [train(rows, [y[item] for item in ids.tolist()], ids, C=C) for C in (0.1, 10.0)]
    one, other = ((X[near] @ own.normal + own.bias) / np.linalg.norm(own.normal) for own in planes)
    return np.abs(one - other)


READINGS = {
    "density": density,
    "output-change": output_change,
    "variance-reduction": variance_reduction,
    "disagreement": disagreement,
}


@pytest.mark.parametrize("name", READINGS)
def test_it_selects_the_most_valuable_of_the_nearest(pool, labels, name):
    """Over all planes; near-ties may go either way, so the value is compared, not the item."""
    strategy = make_strategy(name, shortlist=N_SHORT, n_sampled=80).fit(pool)
    n_moved = 0
    for plane in PLANES:
        near = shortlist(pool, plane, labels)
        values = np.array(READINGS[name](pool, near, strategy.sample_rows_, plane, labels))
        found = strategy.select(plane, 3, exclude=labels.ids, labels=labels)
        places = [near.tolist().index(np.searchsorted(pool.ids, item)) for item in found.ids]
        assert values[places] == pytest.approx(np.sort(values)[::-1][:3], rel=1e-6, abs=1e-8)
        n_moved += places[0] != 0
    assert n_moved > len(PLANES) / 2  # otherwise, this would be the margin index


def test_a_shortlist_of_one_is_the_nearest_item(pool, labels):
    """All of them then select as the full scan does."""
    scan = make_strategy("exhaustive").fit(pool)
    for name in READINGS:
        strategy = make_strategy(name, shortlist=1, confidence=1.0).fit(pool)
        for plane in PLANES:
            found = strategy.select(plane, exclude=labels.ids, labels=labels)
            assert found.ids.tolist() == scan.select(plane, exclude=labels.ids).ids.tolist()


def test_disagreement_without_both_answers_is_nearness(pool):
    """As at the beginning with example images."""
    scan = make_strategy("exhaustive").fit(pool)
    for ids, y in (([], []), ([int(pool.ids[3])], [True]), ([-1, int(pool.ids[3])], [False, True])):
        labels = LabeledItems(np.array(ids, np.int64), np.array(y, np.bool_))
        strategy = make_strategy("disagreement", confidence=1.0).fit(pool)
        found = strategy.select(PLANES[1], 4, labels=labels)
        assert found.ids.tolist() == scan.select(PLANES[1], 4).ids.tolist()


def planted(sizes: list[int], seed: int = 0) -> tuple[ArrayPool, np.ndarray]:
    """A pool of tight clusters of these sizes, shuffled, and the cluster of each row."""
    rng = np.random.default_rng(seed)
    cluster = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    centres = np.linalg.qr(rng.standard_normal((16, 16)))[0][: len(sizes)]
    return ArrayPool(centres[cluster] + 0.05 * rng.standard_normal((len(cluster), 16))), cluster


def test_typiclust_selects_from_the_largest_cluster_without_a_label():
    """The most typical of its items; the largest clusters come first."""
    pool, cluster = planted([90, 70, 50, 30])
    strategy = make_strategy("typiclust", n_sampled=240).fit(pool)
    X = features(pool)
    labeled = np.empty(0, dtype=np.int64)
    for wanted in range(4):
        labels = LabeledItems(pool.ids[labeled], np.ones(len(labeled), np.bool_))
        if len(labeled) >= 2:  # as many clusters as were planted
            (item,) = strategy.select(None, exclude=labels.ids, labels=labels).ids
            row = int(np.searchsorted(pool.ids, item))
            assert cluster[row] == wanted
            own = np.flatnonzero(cluster == wanted)
            typicality = [np.sort(X @ X[one])[-21:-1].mean() for one in own]
            assert row == own[np.argmax(typicality)]
        labeled = np.append(labeled, np.flatnonzero(cluster == wanted)[0])


def test_typiclust_goes_on_at_random_when_there_are_more_labels_than_clusters():
    pool, _ = planted([100, 100])
    strategy = make_strategy("typiclust", n_sampled=200).fit(pool)
    labels = LabeledItems(pool.ids[:150], np.ones(150, np.bool_))
    found = {
        int(strategy.select(None, exclude=labels.ids, labels=labels, seed=seed).ids[0]) for seed in range(30)
    }
    assert len(found) > 10
    assert not found & set(labels.ids.tolist())


def test_probcover_selects_what_covers_the_most():
    """Greedily, item by item, until everything is covered."""
    pool, cluster = planted([80, 60, 40])
    strategy = make_strategy("probcover", share=0.3, n_sampled=180).fit(pool)
    X = features(pool)
    products = X @ X.T
    covers = products >= np.sort(products.ravel())[int(0.7 * (products.size - 1))]
    is_left = np.ones(180, np.bool_)
    found = strategy.select(None, 3).ids
    for item in found:
        row = int(np.searchsorted(pool.ids, item))
        gains = (covers & is_left).sum(axis=1)
        assert gains[row] == gains.max()
        is_left &= ~covers[row]
    assert sorted(cluster[np.searchsorted(pool.ids, found)].tolist()) == [0, 1, 2]
    labels = LabeledItems(found[:2], np.ones(2, np.bool_))
    (third,) = strategy.select(None, exclude=labels.ids, labels=labels).ids
    assert third == found[2]


@pytest.mark.parametrize("name", ["typiclust", "probcover"])
def test_first_items_have_margins_only_where_there_is_a_hyperplane(pool, name):
    strategy = make_strategy(name, n_sampled=100).fit(pool)
    assert np.isnan(strategy.select(None, 4).margins).all()
    found = strategy.select(PLANES[0], 4)
    rows = dense_rows(pool)[np.searchsorted(pool.ids, found.ids)]
    assert np.allclose(found.margins, np.abs(PLANES[0].scores(rows)), atol=1e-12)


def test_inner_products_do_not_depend_on_the_order_of_summation(pool):
    """They are exact sums of exact products."""
    X = cosines.rounded(pool.rows(np.arange(100)))
    wide = X.toarray() if is_sparse(X) else X
    assert np.abs(wide - dense_rows(pool)[:100]).max() <= 2.0**-13
    expected = cosines.inner_products(X, X)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(wide.shape[1])
        assert np.array_equal(wide[:, order] @ wide[:, order].T, expected)
        assert np.array_equal((wide[:, order, None] * wide.T[order][None]).sum(axis=1), expected)
    assert np.allclose(cosines.squared_norms(X), np.diag(expected))


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("density", {"shortlist": 0}, "shortlist and n_sampled must be at least 1, got 0 and 1000"),
        ("disagreement", {"n_sampled": 0}, "shortlist and n_sampled must be at least 1, got 100 and 0"),
        ("typiclust", {"n_sampled": 0}, "n_sampled must be at least 1, got 0"),
        ("probcover", {"share": 1.0}, "share must be between 0 and 1, got 1.0"),
    ],
)
def test_bad_parameters_are_refused(pool, name, params, message):
    with pytest.raises(InputError, match=message):
        make_strategy(name, **params).fit(pool)


def test_pages_do_not_offer_them():
    """They can be named, as in comparisons."""
    assert not set(CONTENDERS) & set(strategy_names())
