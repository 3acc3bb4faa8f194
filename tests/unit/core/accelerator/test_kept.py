"""Scans on a device, here PyTorch's own use of the CPU, have the results of scans without it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import closecall.core.accelerator.kept as kept_module
from closecall.core.accelerator.device import Device
from closecall.core.accelerator.kept import KeptRows
from closecall.core.accelerator.parts import BytePart, FloatPart
from closecall.core.audit import Frame
from closecall.core.evaluation.rank import BruteForce
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.pool import Pool
from closecall.core.pool.segment_rows import SegmentRows
from closecall.core.selection import ArrayPool, PoolExhausted, Request, make_strategy
from closecall.core.selection.examples import most_similar
from closecall.core.similar.index import ExactSearch
from closecall.core.similar.nearness import ByAngle
from tests.contract.kit import labeled
from tests.crews import ThreadCrew
from tests.fakes import FakeSource
from tests.pools import small_pool

CPU = Device("cpu", "cpu")
N_FEATURES = 100
DTYPES = ("float32", "float16", "byte")


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Several parts, and several blocks in each."""
    monkeypatch.setattr(kept_module, "PART_BYTES", 4 * N_FEATURES * 90)
    monkeypatch.setattr(kept_module, "BLOCK_VALUES", N_FEATURES * 17)


@pytest.fixture(scope="module", params=DTYPES)
def pool(request, tmp_path_factory) -> Pool:
    source = FakeSource(400, N_FEATURES, held_out=range(0, 400, 7), lean=2.0)
    return small_pool(tmp_path_factory.mktemp(request.param) / "pool", source, dtype=request.param)


def on_device(pool: Pool) -> Pool:
    """The pool with all rows on the device."""
    own = pool.kept_on(KeptRows(CPU))
    own.keep_up()
    assert own.kept is not None
    assert own.kept.holds(len(pool))
    return own


def planes(n: int, pool: Pool | ArrayPool, *, seed: int = 0) -> list[Hyperplane]:
    """Some through the middle of the rows, and some beside all of them."""
    rng = np.random.default_rng(seed)
    normals = rng.standard_normal((n, pool.n_features))
    middle = pool.rows(np.arange(len(pool))).astype(np.float64).mean(axis=0)
    beside = rng.choice([0, 0.1, 20], n)
    return [Hyperplane(w, b - w @ middle) for w, b in zip(normals, beside, strict=True)]


@pytest.fixture
def _no_scan_without_device(monkeypatch):
    """The processors score no whole segment."""

    def refused(*_: object, **__: object) -> Iterator[object]:
        raise AssertionError("scanned without the device")

    monkeypatch.setattr(SegmentRows, "score_blocks", refused)


def requests(pool: Pool | ArrayPool) -> list[Request]:
    rng = np.random.default_rng(1)
    some = rng.permutation(pool.ids)
    return [
        Request(plane, n, exclude=some[:excluded])
        for plane in planes(4, pool)
        for n, excluded in ((1, 0), (7, 30), (1000, 100), (3, len(pool) - 2), (5, len(pool)))
    ]


@pytest.mark.parametrize("name", ["exhaustive", "likely-positive"])
def test_selections_are_those_of_the_processors(pool, name):
    """Ids and margins, for one item and for more than there are, with few left or none."""
    device = make_strategy(name).fit(on_device(pool))
    together = device.select_many(requests(pool))
    for request, expected, found in zip(
        requests(pool), make_strategy(name).fit(pool).select_many(requests(pool)), together, strict=True
    ):
        if expected is None:
            assert found is None
            with pytest.raises(PoolExhausted):
                device.select(request.hyperplane, request.n, exclude=request.exclude)
            continue
        alone = device.select(request.hyperplane, request.n, exclude=request.exclude)
        for one in (found, alone):
            assert one.ids.tolist() == expected.ids.tolist()
            assert one.margins.tolist() == expected.margins.tolist()
            assert not set(one.ids.tolist()) & set(request.exclude.tolist())
            assert one.scored == len(pool)


@pytest.mark.usefixtures("_no_scan_without_device")
def test_they_are_the_nearest_by_brute_force(pool):
    """By the definition, in float64, without any scan by the processors."""
    strategy = make_strategy("exhaustive").fit(on_device(pool))
    X = pool.rows(np.arange(len(pool))).astype(np.float64)
    for plane in planes(20, pool, seed=5):
        margins = np.abs(X @ plane.normal + plane.bias)
        found = strategy.select(plane, 10)
        assert np.allclose(found.margins, np.sort(margins)[:10], rtol=1e-12, atol=1e-13)
        assert found.ids[0] == pool.ids[margins.argmin()]


@pytest.mark.usefixtures("_no_scan_without_device")
def test_the_strategies_that_scan_use_the_device(pool):
    """Near-exact search does if it is made certain; so does the search that begins with an example."""
    device, (plane,) = on_device(pool), planes(1, pool)
    nearest = make_strategy("exhaustive").fit(device).select(plane, 5)
    top = make_strategy("likely-positive").fit(device).select(plane, 5)
    certain = make_strategy("margin-index").fit(device).certain()
    assert certain.params()["confidence"] == 1
    assert certain.select(plane, 5).ids.tolist() == nearest.ids.tolist()
    auto = make_strategy("auto").fit(device).certain()
    assert auto.select(plane, 5, labels=labeled(1, 49)).ids.tolist() == top.ids.tolist()
    within = 0.5 / nearest.margins[0]
    smaller = Hyperplane(within * plane.normal, within * plane.bias)  # its margin holds the nearest item
    assert auto.select(smaller, 5, labels=labeled(25, 25)).ids.tolist() == nearest.ids.tolist()
    far = auto.select(Hyperplane(4 * smaller.normal, 4 * smaller.bias), 5, labels=labeled(25, 25))
    assert far.parts == ("unlike",) * 5
    assert most_similar(device, pool.rows([17]), 1).ids.tolist() == [pool.ids[17]]


@pytest.mark.usefixtures("_no_scan_without_device")
def test_a_device_with_all_rows_leaves_nothing_to_workers(pool):
    """The workers would take longer, and might not answer in time."""
    crew = ThreadCrew(dict.fromkeys("abc", "works"))
    device, (plane,) = on_device(pool.with_crew(crew)), planes(1, pool)
    for name in ("exhaustive", "likely-positive", "margin-index"):
        found = make_strategy(name).fit(device).certain().select(plane, 5)
        assert (found.scored, found.missing) == (len(pool), 0)
    assert most_similar(device, pool.rows([17]), 1).ids.tolist() == [pool.ids[17]]
    assert crew.asked == []


@pytest.mark.parametrize("loss", ["some rows", "the device"])
def test_workers_scan_for_a_device_without_all_rows(pool, loss, monkeypatch):
    """While rows are missing, and when the device fails during a scan."""
    crew = ThreadCrew(dict.fromkeys("abc", "works"))
    (request,) = (Request(plane, 5) for plane in planes(1, pool))
    device = pool.with_crew(crew).kept_on(KeptRows(CPU))
    if loss == "the device":
        device.keep_up()
        monkeypatch.setattr(KeptRows, "_near", _failing)
    (expected,), (found,) = (
        make_strategy("exhaustive").fit(one).select_many([request]) for one in (pool, device)
    )
    assert found.ids.tolist() == expected.ids.tolist()
    assert found.missing == 0
    assert crew.asked


def _failing(*_: object) -> None:
    raise RuntimeError("no kernel image")


def test_similar_items_are_those_of_the_processors(pool):
    """For one example and for several."""
    exclude = pool.ids[::3]
    for rows in ([5], [5, 50, 211]):
        expected, found = (
            ExactSearch(ByAngle(one)).neighbours(pool.rows(rows), 12, exclude=exclude)
            for one in (pool, on_device(pool))
        )
        assert found.ids.tolist() == expected.ids.tolist()
        assert found.values.tolist() == expected.values.tolist()


@pytest.mark.parametrize("has_float64", [True, False])
def test_ties_go_to_the_lower_id(monkeypatch, has_float64):
    """On a device without double precision, too, although it leaves more to the processors."""
    monkeypatch.setattr(Device, "has_float64", has_float64)
    few = np.random.default_rng(0).standard_normal((7, 5))
    pool = ArrayPool(few[np.random.default_rng(1).integers(0, 7, 300)], ids=5 + 3 * np.arange(300))
    device = pool.kept_on(KeptRows(CPU))
    for request in requests(pool):
        for name in ("exhaustive", "likely-positive"):
            (expected,), (found,) = (
                make_strategy(name).fit(one).select_many([request]) for one in (pool, device)
            )
            assert (found is None) == (expected is None)
            if expected is not None:
                assert found.ids.tolist() == expected.ids.tolist()
                assert found.margins.tolist() == expected.margins.tolist()


def test_no_row_is_lost_to_rounding():
    """The margins of all rows differ by less than float32 can tell, and the last is the nearest."""
    rng = np.random.default_rng(2)
    w = rng.standard_normal(N_FEATURES)
    X = rng.standard_normal((200, N_FEATURES))
    X -= np.outer(X @ w / (w @ w), w)
    pool = ArrayPool(X)
    exact = np.abs(pool.rows(np.arange(200)).astype(np.float64) @ w)
    assert np.ptp(exact) < 1e-5
    found = make_strategy("exhaustive").fit(pool.kept_on(KeptRows(CPU))).select(Hyperplane(w, 0.0), 200)
    assert found.ids.tolist() == np.lexsort((np.arange(200), exact)).tolist()


def test_the_device_leaves_few_rows_to_the_processors(pool):
    """It decides in double precision among those that float32 can't tell apart."""
    for plane in planes(20, pool):
        (rows,) = on_device(pool).kept.near([plane], np.abs, [4], [np.empty(0, np.int64)], len(pool))
        assert 4 <= len(rows) <= 6


def test_scores_are_as_exact_as_those_of_the_processors(pool):
    """Blocks in the order of the rows; from the first row to the last."""
    several = planes(6, pool)
    blocks = list(on_device(pool).score_blocks(several))
    ends = np.cumsum([scores.shape[1] for _, scores in blocks])
    assert [first for first, _ in blocks] == [0, *ends[:-1]]
    X = pool.rows(np.arange(len(pool))).astype(np.float64)
    exact = np.array([X @ plane.normal + plane.bias for plane in several])
    assert np.abs(np.concatenate([scores for _, scores in blocks], axis=1) - exact).max() < 1e-4
    plane = several[0]
    ranks = [BruteForce(one, plane).rank(int(pool.ids[3])) for one in (pool, on_device(pool))]
    assert ranks[0] == ranks[1]


def test_the_strata_of_audits_have_the_same_bits(pool):
    """The log keeps them, and they are made again where there is no device."""
    (plane,) = planes(1, pool)
    device = on_device(pool)
    assert device.alone().scores(plane).tolist() == pool.scores(plane).tolist()
    assert Frame(device, plane).strata.params() == Frame(pool, plane).strata.params()


@pytest.mark.parametrize("n_rows", [1, 130, 333])
def test_a_snapshot_with_fewer_rows_is_searched_only_so_far(pool, n_rows):
    """Even if it ends within a segment that the device has as a whole."""
    prefix = on_device(pool).prefix(n_rows)
    assert prefix.kept is not None
    alone = pool.prefix(n_rows)
    for request in requests(alone):
        expected, found = (
            make_strategy("exhaustive").fit(one).select_many([request])[0] for one in (alone, prefix)
        )
        assert (found is None) == (expected is None)
        assert expected is None or found.ids.tolist() == expected.ids.tolist()
    assert len(prefix.scores(planes(1, pool)[0])) == n_rows


def test_a_pool_that_grows_sends_only_its_new_rows(pool, monkeypatch):
    """Until they have arrived, the processors scan."""
    kept = KeptRows(CPU)
    early = pool.prefix(len(Pool.open(pool.path, 3))).kept_on(kept)
    early.keep_up()
    assert kept.n_rows == len(early) < len(pool)
    later = early.refreshed()
    assert later.kept is kept
    assert len(later) == len(pool)
    (plane,) = planes(1, pool)
    nobody = np.empty(0, np.int64)
    assert kept.near([plane], np.abs, [1], [nobody], len(later)) is None
    expected = make_strategy("exhaustive").fit(pool).select(plane, 9).ids.tolist()
    assert make_strategy("exhaustive").fit(later).select(plane, 9).ids.tolist() == expected
    assert np.allclose(later.scores(plane), pool.scores(plane), atol=1e-4)
    sent = []
    count_sent(monkeypatch, sent)
    later.keep_up()
    assert sum(sent) == len(later) - len(early)
    assert kept.near([plane], np.abs, [1], [nobody], len(later)) is not None
    assert make_strategy("exhaustive").fit(later).select(plane, 9).ids.tolist() == expected
    assert make_strategy("exhaustive").fit(early).select(plane).items == len(early)
    sent.clear()
    later.keep_up()
    assert sent == []


def count_sent(monkeypatch, sent: list[int]) -> None:
    """Append the number of rows of each transfer to `sent`."""
    original, of = KeptRows._sent, BytePart.of
    monkeypatch.setattr(KeptRows, "_sent", lambda self, X: sent.append(len(X)) or original(self, X))
    monkeypatch.setattr(BytePart, "of", lambda first, X, device: sent.append(len(X)) or of(first, X, device))


def test_sending_can_be_stopped_and_continued(pool):
    """As when the server stops, or the pool is closed."""

    class StoppedError(Exception):
        pass

    calls = []

    def go_on() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise StoppedError

    own = pool.kept_on(KeptRows(CPU))
    with pytest.raises(StoppedError):
        own.keep_up(go_on)
    assert 0 < own.kept.n_rows < len(pool)
    own.keep_up(go_on)
    assert own.kept.n_rows == len(pool)


def test_a_sparse_pool_stays_with_the_processors():
    from scipy.sparse import csr_array

    pool = ArrayPool(csr_array(np.eye(4)))
    assert pool.kept_on(KeptRows(CPU)).kept is None


def test_a_pool_that_does_not_fit_says_so(pool, monkeypatch, caplog):
    """And the processors scan it."""
    monkeypatch.setattr(Device, "free_bytes", lambda _: 10_000_000)
    own = pool.kept_on(KeptRows(CPU))
    own.keep_up()
    assert own.kept.n_rows == 0
    assert "The pool needs 537 MB of memory on cpu, where 10 MB are free: the processors scan" in caplog.text
    assert own.kept.problem in caplog.text
    (plane,) = planes(1, pool)
    found, expected = (make_strategy("exhaustive").fit(one).select(plane, 3).ids for one in (own, pool))
    assert found.tolist() == expected.tolist()
    own.keep_up()
    assert len(caplog.records) == 1
    monkeypatch.setattr(Device, "free_bytes", lambda _: 10**9)
    own.keep_up()
    assert own.kept.holds(len(pool))
    assert own.kept.problem is None


def test_a_pool_that_is_closed_frees_the_memory(pool):
    """A session that still uses it goes on with the processors."""
    device, (plane,) = on_device(pool), planes(1, pool)
    strategy = make_strategy("exhaustive").fit(device)
    expected = strategy.select(plane).ids
    device.kept.release()
    assert device.kept.n_rows == 0
    assert strategy.select(plane).ids == expected
    device.keep_up()
    assert device.kept.n_rows == 0
    assert device.kept.problem is None


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate …\nSee …"), "cpu ran out of memory"),
        (RuntimeError("CUDA error: unspecified launch failure\n…"), "cpu failed (CUDA error: unspecified"),
    ],
)
def test_a_device_that_fails_in_a_scan_is_given_up(pool, monkeypatch, error, reason):
    """The scan itself ends with the processors; so do scores that were half computed."""
    (plane,) = planes(1, pool)
    expected = make_strategy("exhaustive").fit(pool).select(plane, 3).ids.tolist()
    kind = BytePart if pool.byte_segments else FloatPart
    scores, calls = kind.scores, []

    def failing(self, weights, at):
        calls.append(1)
        if len(calls) == fails_at:
            raise error
        return scores(self, weights, at)

    monkeypatch.setattr(kind, "scores", failing)
    for fails_at in (1, 6):  # noqa: B007
        calls.clear()
        device = on_device(pool)
        assert make_strategy("exhaustive").fit(device).select(plane, 3).ids.tolist() == expected
        assert device.kept.problem.startswith(reason)
        assert device.kept.n_rows == 0
        calls.clear()
        device = on_device(pool)
        assert np.allclose(device.scores(plane), pool.scores(plane), atol=1e-4)
        assert device.kept.problem.startswith(reason)


def test_rows_that_cannot_be_sent_are_given_up(pool, monkeypatch):
    """As when another program takes the memory meanwhile."""

    def failing(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(BytePart, "of", failing)
    monkeypatch.setattr(KeptRows, "_sent", failing)
    own = pool.kept_on(KeptRows(CPU))
    own.keep_up()
    assert own.kept.problem == "cpu ran out of memory: the processors scan the pool instead"
