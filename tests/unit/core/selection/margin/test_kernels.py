"""The kernels of the margin index against numpy, on the index of a small pool."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.jit import prefetch
from closecall.core.quantization.quantizer import BLOCK
from closecall.core.selection import ArrayPool
from closecall.core.selection.margin import MarginIndex, kernels
from closecall.core.selection.margin.index import _NOTHING
from closecall.core.selection.margin.layout import read_only
from closecall.core.selection.margin.tables import Found, Outlook
from tests.contract.kit import gaussian_pool
from tests.margin_kit import clustered_pool, features, near_exact, planes_of
from tests.scale import scaled

DIMENSIONS = [3, 64, 65, 200]
NONE = np.empty(0, dtype=np.int64)


@pytest.fixture(scope="module", params=DIMENSIONS)
def index(request):
    return near_exact(clustered_pool(900, request.param), n_clusters=40)


def some_planes(index: MarginIndex, n: int = 3) -> list[Hyperplane]:
    return [plane for where in ("bulk", "side", "beside") for plane in planes_of(index.pool_, n, where)]


def outlook_of(index: MarginIndex, plane: Hyperplane) -> Outlook:
    return kernels._outlook(index.statistics_, *kernels.turned(index.statistics_, plane.normal, plane.bias))


def by_place(index: MarginIndex, values: np.ndarray) -> np.ndarray:
    return values[index.layout_.order]


def by_row(index: MarginIndex, values: np.ndarray) -> np.ndarray:
    return values[np.argsort(index.layout_.order)]


def clusters_by_place(index: MarginIndex) -> np.ndarray:
    return index.layout_.labels[index.layout_.order]


def looks(index: MarginIndex, outlook: Outlook) -> np.ndarray:
    """Scores by the bytes up to each block, of shape (n_blocks, N), by place."""
    sums = (index.layout_.codes.astype(np.int64) * outlook.weights[:, None]).sum(axis=2)
    return outlook.offsets[clusters_by_place(index)] + np.cumsum(outlook.units[:, None] * sums, axis=0)


def deviations(outlook: Outlook) -> np.ndarray:
    """Standard deviation of what is wrong after each block, for an average row; of shape (n_blocks,)."""
    return np.sqrt(outlook.unread + outlook.rounded)


def tolerances(index: MarginIndex, outlook: Outlook, tilt: float) -> np.ndarray:
    """How far its rest may bring each row after each block, of shape (n_blocks, N), by place."""
    scales = index.statistics_.scales[index.layout_.tails].astype(np.float64)
    variances = outlook.unread[:, None] * scales**2 + outlook.rounded[:, None]
    return index.z_ * np.sqrt(variances) + tilt * variances


def search(index: MarginIndex, plane: Hyperplane, n: int = 1, **given: Any) -> Found:
    asked = {"excluded": NONE, "limit": index.n_items, "z": index.z_, "memory": _NOTHING, **given}
    memory = asked["memory"]
    return kernels.search(
        index.statistics_, index.tables_, plane.normal, plane.bias, read_only(asked["excluded"]), n,
        asked["limit"], asked["z"], False,
        memory.scores, memory.normal, memory.at_centre,
    )  # fmt: skip


def test_the_turned_hyperplane_is_the_hyperplane(index):
    """Its score of a row is the sum over principal directions, plus the score at the centre."""
    q = index.layout_.quantizer
    P = (features(index.pool_) - q.centre) @ q.directions.astype(np.float64)
    for plane in some_planes(index):
        along, at_centre = kernels.turned(index.statistics_, plane.normal, plane.bias)
        assert at_centre == pytest.approx(plane.bias + plane.normal @ q.centre, abs=1e-12)
        assert np.allclose(P @ along + at_centre, plane.scores(features(index.pool_)), rtol=0, atol=1e-5)


def test_bytes_give_scores_as_exactly_as_is_said(index):
    """After each block the error has the standard deviation stated, and at last half a step a coordinate."""
    steps = np.abs(index.layout_.quantizer.steps)
    for plane in some_planes(index):
        outlook = outlook_of(index, plane)
        wrong = looks(index, outlook) - by_place(index, plane.scores(features(index.pool_)))
        stated = deviations(outlook)
        actual = np.sqrt((wrong**2).mean(axis=1))
        assert (actual < 1.15 * stated).all()
        assert (actual > 0.8 * stated).all()
        along, _ = kernels.turned(index.statistics_, plane.normal, plane.bias)
        assert np.abs(wrong[-1]).max() < np.abs(along * steps).sum() / 2 * 1.01


def test_the_weights_of_a_block_use_all_of_int16(index):
    """The largest is 32767, and none is rounded by more than half a unit."""
    plane = some_planes(index)[0]
    outlook = outlook_of(index, plane)
    along, _ = kernels.turned(index.statistics_, plane.normal, plane.bias)
    steps = np.zeros(index.layout_.quantizer.n_blocks * BLOCK)
    steps[: len(along)] = along * index.layout_.quantizer.steps
    assert (np.abs(outlook.weights).max(axis=1) == 32767).all()
    wrong = outlook.weights * outlook.units[:, None] - steps.reshape(outlook.weights.shape)
    assert (np.abs(wrong) <= 0.501 * outlook.units[:, None]).all()


def test_a_coordinate_that_the_hyperplane_ignores_weighs_nothing():
    """Where a whole block does, too; and where the hyperplane has no direction at all."""
    index = near_exact(clustered_pool(300, 130), n_clusters=4)
    V = index.layout_.quantizer.directions.astype(np.float64)
    outlook = outlook_of(index, Hyperplane(V[:, :60] @ np.ones(60), 0.5))
    assert (np.abs(outlook.weights[1:] * outlook.units[1:, None]) < 1e-6).all()
    outlook = outlook_of(index, Hyperplane(np.zeros(130), -0.25))
    assert not outlook.weights.any()
    assert not outlook.unread.any()
    assert (outlook.offsets == -0.25).all()
    assert (outlook.means == -0.25).all()


def test_means_and_variances_of_a_cluster_are_those_of_its_rows_and_an_average_row(index):
    """By what the leading bytes of its rows stand for, one row after the other; directions independent."""
    q = index.layout_.quantizer
    P = np.zeros((index.n_items, BLOCK))
    n_leading = min(BLOCK, len(q.steps))
    P[:, :n_leading] = index.layout_.codes[0][:, :n_leading] * q.steps[:n_leading].astype(np.float64)
    average = (P**2).mean(axis=0)
    labels = clusters_by_place(index)
    for plane in some_planes(index, 1):
        along, at_centre = kernels.turned(index.statistics_, plane.normal, plane.bias)
        outlook = outlook_of(index, plane)
        weights = np.zeros(BLOCK)
        weights[:n_leading] = along[:n_leading]
        rest = outlook.unread[0]
        for c in range(len(q.centroids)):
            rows = P[labels == c]
            mean = rows.sum(axis=0) / (len(rows) + 1)
            variance = ((rows**2).sum(axis=0) + average) / (len(rows) + 1) - mean**2
            offset = at_centre + along[: q.centroids.shape[1]] @ q.centroids[c]
            assert outlook.offsets[c] == pytest.approx(offset, abs=1e-5)
            assert outlook.means[c] == pytest.approx(offset + weights @ mean, abs=1e-5)
            assert outlook.variances[c] == pytest.approx(weights**2 @ variance + rest, rel=1e-3)


@pytest.mark.parametrize("d", [64, 65, 130])
def test_scores_are_as_far_from_their_cluster_s_mean_as_is_said(d):
    """What the order of reading rests on: standardised, normal scores have mean 0 and variance 1."""
    index = near_exact(gaussian_pool(3000, d, lean=0.5), n_clusters=10)
    labels = clusters_by_place(index)
    for plane in some_planes(index):
        outlook = outlook_of(index, plane)
        scores = by_place(index, plane.scores(features(index.pool_)))
        standard = (scores - outlook.means[labels]) / np.sqrt(outlook.variances[labels])
        assert abs(standard.mean()) < 0.05
        assert 0.85 < standard.var() < 1.15


def test_the_slope_of_the_density_is_that_of_a_normal_distribution(index):
    """|mean| / variance of all scores."""
    for plane in some_planes(index):
        scores = plane.scores(features(index.pool_))
        slope = kernels._slope_of_density(index.statistics_, outlook_of(index, plane))
        assert slope == pytest.approx(abs(scores.mean()) / scores.var(), rel=0.15, abs=0.15 / scores.std())


def test_the_edge_of_a_pool_is_above_nearly_all_of_its_rows(index):
    """Seen from beyond the pool: hardly a row exceeds the edge, and it is within the spread of the scores."""
    for plane in some_planes(index):
        beyond = Hyperplane(plane.normal, -1.1 * plane.norm)
        outlook = outlook_of(index, beyond)
        edge = (outlook.means - kernels._at_edge(index.statistics_, outlook).means)[0]
        scores = beyond.scores(features(index.pool_))
        assert np.mean(scores > edge) < 0.01
        assert edge < scores.max() + 2 * scores.std()
    inside = Hyperplane(plane.normal, -float(np.median(features(index.pool_) @ plane.normal)))
    outlook = outlook_of(index, inside)
    assert np.array_equal(kernels._at_edge(index.statistics_, outlook).means, outlook.means)


def test_the_slope_of_change_leaves_the_smallest_rest():
    """Of a multiple of a hyperplane nothing; of another one, the variance within clusters is smallest."""
    index = near_exact(clustered_pool(2000, 64), n_clusters=1)
    rng = np.random.default_rng(0)
    X = features(index.pool_)
    for _ in range(10):
        before, change = rng.standard_normal((2, 64))
        now = 0.7 * before + rng.uniform(0, 2) * change
        turned = [kernels.turned(index.statistics_, normal, 0.0)[0] for normal in (before, -3 * before, now)]
        assert kernels._slope_of_change(index.statistics_, turned[1], turned[0]) == pytest.approx(
            -3, rel=1e-5
        )
        slope = kernels._slope_of_change(index.statistics_, turned[2], turned[0])
        rests = [(X @ (now - at * before)).var() for at in (slope - 0.1, slope, slope + 0.1)]
        assert rests[1] < min(rests[0], rests[2])
    assert kernels._slope_of_change(index.statistics_, turned[2], np.zeros(64, dtype=np.float32)) == 0


def densest_first(index: MarginIndex, outlook: Outlook) -> np.ndarray:
    logs = -(outlook.means**2) / outlook.variances - np.log(outlook.variances)
    return np.argsort(-logs, kind="stable")


def test_the_densest_clusters_are_read_first(index):
    """As many as have the rows wanted; of all of them, only the first few are put in order."""
    sizes = np.diff(index.tables_.starts)
    for plane in some_planes(index):
        outlook = outlook_of(index, plane)
        order = densest_first(index, outlook)
        for limit in (1, 50, 300, index.n_items - 1):
            clusters = kernels._reading(index.statistics_, outlook, limit)
            assert clusters.tolist() == order[: len(clusters)].tolist()
            assert sizes[clusters[:-1]].sum() < limit <= sizes[clusters].sum()
        for limit in (index.n_items, index.n_items + 5):
            clusters = kernels._reading(index.statistics_, outlook, limit)
            assert clusters[: kernels.FRONT].tolist() == order[: kernels.FRONT].tolist()
            assert sorted(clusters) == list(range(40))


@pytest.mark.parametrize("limit", [1, 100, 899, 900])
def test_all_rows_within_the_tolerance_are_kept_and_no_others(index, limit):
    """By the looks at each row in the clusters read; and there are rows of both kinds.

    The reach is never less than with the best that were found. So a row that is within this tolerance at
    every look is kept, and one that is beyond it at the last look is not.
    """
    kept = left_out = 0
    for number, plane in enumerate(some_planes(index)):
        outlook = outlook_of(index, plane)
        distances = np.abs(looks(index, outlook))
        clusters = kernels._reading(index.statistics_, outlook, limit)
        starts = index.tables_.starts
        read = np.concatenate([np.arange(starts[c], starts[c + 1]) for c in clusters])[:limit]
        excluded = np.sort(index.pool_.ids[number :: 2 + number])
        read_free = read[~np.isin(index.pool_.ids[index.layout_.order[read]], excluded)]
        tilt = kernels._slope_of_density(index.statistics_, outlook)
        errors = tolerances(index, outlook, tilt)
        own_errors = errors[:, read_free]
        for n in (1, 7):
            found = search(index, plane, n, limit=limit, excluded=excluded)
            assert found.looked == limit
            assert found.error == pytest.approx(float(errors[-1, 0]), rel=0.01)
            own = distances[:, read_free]
            best = np.sort(found.distances)[n - 1] if len(found.rows) >= n else np.inf
            must = read_free[(own <= best + found.error + own_errors - 1e-5).all(axis=0)]
            may = read_free[own[-1] <= best + 2 * found.error + 1e-5]
            assert set(index.layout_.order[must]) <= set(found.rows.tolist()) <= set(index.layout_.order[may])
            assert len(np.unique(found.rows)) == len(found.rows)
            assert np.allclose(by_row(index, distances[-1])[found.rows], found.distances, rtol=0, atol=1e-5)
            kept, left_out = kept + len(must), left_out + len(read_free) - len(may)
    assert limit == 1 or min(kept, left_out) > 50


def test_with_a_wide_tolerance_nothing_near_is_lost(index):
    """At eight standard deviations the nearest are there; of their bytes, all are looked at."""
    for plane in some_planes(index):
        margins = np.abs(plane.scores(features(index.pool_)))
        for n in (1, 5, 50):
            found = search(index, plane, n, z=8.0)
            assert set(np.argsort(margins)[:n]) <= set(found.rows.tolist())
            assert (np.abs(found.distances - margins[found.rows]) <= found.error).all()
            assert found.looked == index.n_items


def test_beside_a_pool_the_nearest_was_brought_near_by_its_rest():
    """The first look deceives about just that row: by zσ it is left out too often, by zσ + κσ² it isn't."""
    index = near_exact(clustered_pool(3000, 200), 0.9)
    kept = []
    for plane in planes_of(index.pool_, scaled(quick=100, all=200), "side"):
        outlook = outlook_of(index, plane)
        distances = by_place(index, np.abs(plane.scores(features(index.pool_))))
        nearest = distances.argmin()
        tilt = kernels._slope_of_density(index.statistics_, outlook)
        first_look = abs(looks(index, outlook)[0, nearest])
        variance = outlook.unread[0] + outlook.rounded[0]
        errors = index.z_ * np.sqrt(variance) + np.array([0, tilt]) * variance
        kept.append(first_look <= distances[nearest] + errors)
    without, with_tilt = np.mean(kept, axis=0)
    assert without < 0.8
    assert with_tilt > 0.97


def test_what_is_excluded_does_not_narrow_the_search(index):
    """However near the excluded rows are, the nearest of the others is found as if they weren't there."""
    for plane in some_planes(index):
        margins = np.abs(plane.scores(features(index.pool_)))
        nearest = np.argsort(margins)
        for n_excluded in (1, 200, 890):
            excluded = np.sort(index.pool_.ids[nearest[:n_excluded]])
            found = search(index, plane, 3, excluded=excluded, z=8.0)
            assert set(nearest[n_excluded : n_excluded + 3]) <= set(found.rows.tolist())
            assert not np.isin(index.pool_.ids[found.rows], excluded).any()


def test_fewer_free_rows_than_wanted_are_all_found(index):
    """Without a limit to how near they must be."""
    excluded = np.delete(index.pool_.ids, [4, 500, 899])
    for plane in some_planes(index, 1):
        found = search(index, plane, 5, excluded=excluded)
        assert sorted(found.rows) == [4, 500, 899]
    assert len(search(index, plane, 5, excluded=index.pool_.ids).rows) == 0


@pytest.mark.parametrize("change", [0.0, 0.05, 3.0])
def test_remembered_scores_leave_out_only_what_cannot_be_near(index, change):
    """The nearest are found as without, and the less has changed, the fewer bytes are looked at."""
    rng = np.random.default_rng(1)
    looked = []
    for plane in some_planes(index):
        before = Hyperplane(
            plane.normal + change * rng.standard_normal(len(plane.normal)), plane.bias + 0.1 * change
        )
        memory = index.remember([before])[0]
        margins = np.abs(plane.scores(features(index.pool_)))
        for n in (1, 5):
            found = search(index, plane, n, z=8.0, memory=memory)
            assert set(np.argsort(margins)[:n]) <= set(found.rows.tolist())
            assert (np.abs(found.distances - margins[found.rows]) <= found.error + 1e-5).all()
            assert len(found.rows) <= found.looked <= index.n_items
        looked.append(search(index, plane, memory=memory).looked)
    assert change > 0 or np.median(looked) < 0.6 * index.n_items


SOME_IDS = st.builds(lambda low, high: low + high * kernels._MARKS, st.integers(-5, 40), st.integers(-1, 2))
"""Many of them with the same last digits."""


@given(st.sets(SOME_IDS, max_size=20), st.lists(SOME_IDS, max_size=10))
def test_what_is_excluded(ids, others):
    """Marks and binary search in ascending ids say it as `in` does."""
    excluded = np.array(sorted(ids), dtype=np.int64)
    marks = kernels._marks(excluded)
    for wanted in (*ids, *others):
        assert kernels._is_excluded(excluded, marks, wanted) == (wanted in ids)


def test_products_of_bytes_are_whole_numbers_of_any_size():
    """Up to the greatest that there are."""
    rng = np.random.default_rng(0)
    codes = rng.integers(-127, 128, (50, BLOCK)).astype(np.int8)
    weights = rng.integers(-32767, 32768, (50, BLOCK)).astype(np.int16)
    codes[0], weights[0] = -127, 32767
    codes[1], weights[1] = -127, -32767
    for row, weight in zip(codes, weights, strict=True):
        assert kernels._product(row, weight) == int((row.astype(np.int64) * weight).sum())


def test_asking_for_places_that_are_not_there_does_no_harm():
    """Kernels ask ahead of where they read, and at the end of an array that is beyond it."""

    @njit
    def ask(array, row, column):
        prefetch(array, row, column)

    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    for row in (0, 2, 3, 1000, 10**12, -1, -(10**12)):
        for column in (0, 3, 4, 10**9):
            ask(array, row, column)
            ask(array[:0], row, column)
    assert np.array_equal(array.ravel(), np.arange(12))


def test_a_pool_of_one_row_has_an_outlook():
    """One cluster, no spread, one row."""
    index = near_exact(ArrayPool([[0.6, 0.8]]))
    found = search(index, Hyperplane(np.array([1.0, -1.0]), 0.0))
    assert found.rows.tolist() == [0]
    assert found.distances[0] == pytest.approx(0.2)
