"""A margin index that grows: what is kept, when clusters are made anew, and that nothing else matters."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from closecall.core.errors import InputError
from closecall.core.quantization.quantizer import Quantizer
from closecall.core.selection import ArrayPool
from closecall.core.selection.margin import MarginIndex, kernels, layout
from closecall.core.selection.margin import index as margin_index
from tests.fakes import FakeSource
from tests.margin_kit import clustered_pool, near_exact, planes_of, shares_found, true_margins
from tests.pools import small_pool

FIT, BLOCK = 500, 128
D = 70


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Clusters are made anew at 500, 1000, 2000, ... rows; rows are encoded 128 at a time; few may stray."""
    monkeypatch.setattr(layout, "FIRST_FIT", FIT)
    monkeypatch.setattr(layout, "BLOCK_ROWS", BLOCK)
    monkeypatch.setattr(layout, "STRAYED", 0.01)


@pytest.fixture(scope="module")
def pool():
    X = np.random.default_rng(1).uniform(-1, 1, (1990, D))
    X[:, 0] += 5
    return ArrayPool(X, ids=3 + 2 * np.arange(1990))


@pytest.fixture(scope="module")
def straying():
    """From row 1200 on, everything comes from elsewhere."""
    X = np.random.default_rng(0).uniform(-0.3, 0.3, (1990, D))
    X[:, 0] += 3
    X[1200:, 3] += 6
    return ArrayPool(X)


def grown(pool: ArrayPool, *steps: int) -> MarginIndex:
    index = near_exact(pool.prefix(steps[0]))
    for n_rows in steps[1:]:
        index = index.extended(pool.prefix(n_rows))
    return index


def assert_same(one: MarginIndex, other: MarginIndex) -> None:
    for name, array in one.arrays().items():
        assert np.array_equal(array, other.arrays()[name]), name


@pytest.mark.parametrize("which", ["pool", "straying"])
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((1, 2, 499, 500, 501, 999, 1000, 1001, 1199, 1300, 1989, 1990), id="at every edge"),
        pytest.param((1150, 1250, 1700, 1990), id="within a doubling"),
        pytest.param((512, 640, 1024, 1152, 1280, 1990), id="whole blocks"),
        pytest.param((1989, 1990), id="one more"),
        pytest.param((1990, 1990), id="none more"),
    ],
)
def test_growing_gives_the_index_that_fitting_at_once_gives(request, which, steps):
    """To the last byte, wherever it stopped on the way, also where clusters were made anew."""
    pool = request.getfixturevalue(which)
    assert_same(grown(pool, *steps), near_exact(pool))


@pytest.mark.parametrize("which", ["pool", "straying"])
def test_clusters_are_made_anew_at_each_doubling_and_when_rows_stray(request, monkeypatch, which):
    """Before the first fit whenever it grows; then as seldom as is said."""
    pool = request.getfixturevalue(which)
    fitted_to = []
    fitted = Quantizer.fitted.__func__
    count = lambda cls, X, *rest: fitted_to.append(len(X)) or fitted(cls, X, *rest)  # noqa: E731
    monkeypatch.setattr(Quantizer, "fitted", classmethod(count))
    index = near_exact(pool.prefix(100))
    expected = [100]
    for n_rows, fits in [(300, [300]), (600, [500]), (900, []), (999, []), (1000, [1000]), (1199, [])]:
        index = index.extended(pool.prefix(n_rows))
        expected += fits
        assert fitted_to == expected
        assert index.layout_.fit_rows == expected[-1]
    index = index.extended(pool)
    assert fitted_to == expected + ([1990] if which == "straying" else [])
    assert index.layout_.fit_rows == fitted_to[-1]
    assert len(index.layout_.strayed) <= 0.01 * 1990


def test_new_rows_are_encoded_and_old_bytes_only_moved(pool, monkeypatch):
    """Only the rows since the last whole block are looked at again."""
    index = near_exact(pool.prefix(1300))
    rows = []
    encode = Quantizer.encode
    monkeypatch.setattr(Quantizer, "encode", lambda q, X, labels: rows.append(len(X)) or encode(q, X, labels))
    monkeypatch.setattr(Quantizer, "fitted", pytest.fail)
    later = index.extended(pool)
    assert sum(rows) == 1990 - 1300 // BLOCK * BLOCK
    assert later.layout_.quantizer is index.layout_.quantizer
    old = index.layout_.codes[:, np.argsort(index.layout_.order)]
    new = later.layout_.codes[:, np.argsort(later.layout_.order)]
    assert np.array_equal(new[:, :1300], old)


def test_answers_are_right_before_and_after_rows_stray(straying, monkeypatch):
    """While they are few, rows are scored whose bytes don't do; then clusters are made anew for them."""
    for n_rows in (1190, 1208, 1700, 1990):
        pool = straying.prefix(n_rows)
        planes = [*planes_of(pool, 30, "bulk"), *planes_of(pool, 30, "side")]
        true = true_margins(pool, planes)
        index = near_exact(pool, 0.9999)
        assert index.layout_.fit_rows == (1000 if n_rows < 1220 else n_rows)
        assert (len(index.layout_.strayed) > 5) == (n_rows == 1208)
        for n in (1, 4, 40):
            assert shares_found(index, planes, true, n) == 1.0
    monkeypatch.setattr(layout, "STRAYED", 1.0)
    index = near_exact(straying, 0.9999)
    assert len(index.layout_.strayed) > 0.3 * 1990
    index.layout_ = replace(index.layout_, strayed=index.layout_.strayed[:0])
    assert shares_found(index, planes, true) < 0.9


def test_rows_that_have_strayed_are_counted_and_can_be_excluded(straying):
    """With and without memory; what is excluded is never found, and nothing is found twice."""
    pool = straying.prefix(1208)
    index = near_exact(pool, 0.9999)
    strayed = pool.ids[index.layout_.strayed]
    for plane in [*planes_of(pool, 20, "side"), *planes_of(pool, 20, "bulk")]:
        for memory in (None, *index.remember([plane])):
            found = index.select(plane, 50, exclude=strayed[::2], memory=memory)
            assert len(np.unique(found.ids)) == 50
            assert not np.isin(found.ids, strayed[::2]).any()
            assert len(strayed[1::2]) <= found.scored <= 1208
        found = index.select(plane, len(pool))
        assert sorted(found.ids) == pool.ids.tolist()


def test_a_saved_index_is_mapped_and_read_only_and_grows_like_the_one_that_was_saved(pool, tmp_path):
    """Nothing of it is copied into memory that is as long as the pool, and nothing can change it."""
    index = near_exact(pool.prefix(1300))
    index.save(tmp_path / "index")
    loaded = MarginIndex.load(tmp_path / "index", pool)
    for name, array in loaded.arrays().items():
        assert isinstance(array, np.memmap) or array.size <= D * D, name
        assert name == "fit-rows" or not array.flags.writeable, name
    assert not any(table.flags.writeable for table in (*loaded.statistics_, *loaded.tables_))
    assert_same(index, loaded)
    assert_same(loaded.extended(pool), near_exact(pool))
    assert_same(index, MarginIndex.load(tmp_path / "index", pool))


def test_an_older_index_is_left_as_it_was(pool):
    """Whoever still asks it gets what he got."""
    index = near_exact(pool.prefix(1300))
    before = {name: array.copy() for name, array in index.arrays().items()}
    index.extended(pool)
    assert all(np.array_equal(array, before[name]) for name, array in index.arrays().items())


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_segments_of_any_length_make_the_same_index(tmp_path, dtype):
    """A pool on disk in many parts, of either number format, is indexed like its rows at once."""
    stored = small_pool(tmp_path / "pool", FakeSource(1100, 20, held_out=range(0, 1100, 13)), dtype=dtype)
    at_once = ArrayPool(np.eye(20), ids=np.arange(20))
    at_once._X, at_once.ids = stored.rows(np.arange(len(stored))), stored.ids
    index = near_exact(stored.prefix(700)).extended(stored)
    assert_same(index, near_exact(at_once))
    planes = planes_of(at_once, 50, "bulk")
    assert shares_found(index, planes, true_margins(at_once, planes)) >= 0.98


@pytest.mark.parametrize("d", [5, 64, 200])
def test_neither_threads_nor_cores_change_anything(monkeypatch, d):
    """The same bytes with any number of threads in the linear algebra, and of cores in the machine."""
    pool = clustered_pool(1500, d)
    indexes = []
    for threads, cores in [(1, 1), (2, 1), (3, 7), (1, None), (2, 64)]:
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        with threadpool_limits(threads):
            indexes.append(near_exact(pool))
    for one, other in pairwise(indexes):
        assert_same(one, other)


def test_one_index_answers_many_threads(pool):
    """With and without memory, with exclusions; each gets what it gets alone."""
    index = near_exact(pool)
    planes = planes_of(pool, 20, "bulk")
    memories = [None, *index.remember(planes[:3])]
    calls = [
        (plane, {"n": 1 + number % 3, "exclude": pool.ids[number::3], "memory": memories[number % 4]})
        for number, plane in enumerate(planes * 3)
    ]

    def ask(call):
        found = index.select(call[0], **call[1])
        return found.ids.tolist(), found.margins.tolist(), found.scored

    alone = list(map(ask, calls))
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, calls)) == alone


def test_one_compiled_search_serves_all(pool, tmp_path):
    """However the index came to be, and in whatever form items are excluded: no query has to be compiled."""
    plane = planes_of(pool, 1, "bulk")[0]
    index = near_exact(pool.prefix(1300))
    index.save(tmp_path / "index")
    fixed = np.array([5, 7])
    fixed.flags.writeable = False
    forms = [(), [3], {3, 5}, pool.ids[::3], pool.ids[1000:0:-1], fixed, np.array([4], dtype=np.int32)]
    for one in (index, index.extended(pool), MarginIndex.load(tmp_path / "index", pool)):
        (memory,) = one.remember([plane])
        for exclude in forms:
            one.select(plane, np.int64(2), exclude=exclude)
            one.select(plane, exclude=exclude, memory=memory)
    assert len(kernels.search.signatures) == 1


def test_progress_never_goes_back_and_ends_with_all_rows(pool):
    """Of a first fit and of growing."""
    for young in (None, near_exact(pool.prefix(1150))):
        told = []
        index = MarginIndex(budget=None)
        if young is None:
            index.fit(pool.prefix(1900), progress=lambda *now, told=told: told.append(now))
        else:
            young.extended(pool.prefix(1900), progress=lambda *now, told=told: told.append(now))
        assert told == sorted(told)
        assert len(set(told)) > 5
        assert told[-1] == (1900, 1900)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"budget": 0}, "budget must be at least 1, or none, got 0"),
        ({"confidence": 0.0}, "confidence must be above 0 and at most 1, or none, got 0.0"),
        ({"confidence": 1.1}, "confidence must be above 0 and at most 1, or none, got 1.1"),
        ({"confidence": float("nan")}, "confidence must be above 0 and at most 1, or none, got nan"),
        (
            {"confidence": 1.0, "budget": 9000},
            "a confidence of 1 needs all rows: give margin-index no budget",
        ),
        ({"confidence": 1.0, "share": 0.5}, "a confidence of 1 needs all rows: give margin-index no budget"),
        ({"n_clusters": 0}, "n_clusters must be from 1 to 8192, or none, got 0"),
        ({"n_clusters": 8193}, "n_clusters must be from 1 to 8192, or none, got 8193"),
    ],
)
def test_bad_parameters_are_refused(pool, params, message):
    """In one sentence, before anything is built, and also where an index is taken over."""
    with pytest.raises(InputError, match=message):
        MarginIndex(**params).fit(pool)


def test_a_budget_asks_for_less_confidence(pool, monkeypatch):
    """Unless it says how much, or reads all rows."""
    monkeypatch.setattr(margin_index, "LEAST_BUDGET", 1)
    whole = MarginIndex().fit(pool)
    assert MarginIndex(confidence=margin_index.NEAR_EXACT).sharing(whole).z_ == whole.z_
    assert MarginIndex(budget=len(pool)).sharing(whole).z_ == whole.z_
    some = MarginIndex(budget=len(pool) - 1).sharing(whole)
    assert some.z_ == MarginIndex(budget=9, confidence=margin_index.WITH_BUDGET).sharing(whole).z_
    assert some.z_ < whole.z_ / 1.5


@pytest.mark.parametrize("confidence", [1e-12, 0.5, 1 - 1e-15, float(np.nextafter(1, 0))])
def test_every_confidence_between_none_and_all_is_one(pool, confidence):
    """The closer to 1, the wider the tolerance."""
    index = near_exact(pool.prefix(300), confidence)
    planes = planes_of(pool.prefix(300), 40, "bulk")
    share = shares_found(index, planes, true_margins(pool.prefix(300), planes))
    assert share >= 0.5
    assert confidence < 0.99 or share == 1.0
