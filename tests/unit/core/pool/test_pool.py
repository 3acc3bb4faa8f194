from __future__ import annotations

import itertools
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import closecall.core.pool.build_plan
from closecall.core.errors import InputError
from closecall.core.features import compute
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.build import build
from closecall.core.pool.manifest import Manifest
from closecall.core.pool.pool import Pool
from closecall.core.sources.base import Problem
from tests.fakes import FakeSource
from tests.pools import small_parts, small_pool
from tests.scale import examples

SOURCE = FakeSource(333, 8, held_out=range(5, 333, 11), lean=1.0)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    """303 rows in 7 segments."""
    return small_pool(tmp_path_factory.mktemp("pool") / "p", SOURCE)


def hyperplane(n_features: int = 8, seed: int = 0) -> Hyperplane:
    rng = np.random.default_rng(seed)
    return Hyperplane(rng.standard_normal(n_features), float(rng.standard_normal()))


def features(ids: np.ndarray, source: FakeSource = SOURCE) -> np.ndarray:
    return compute(source, ids)[0]


def test_ids_are_all_items_that_are_not_held_out(pool: Pool) -> None:
    """A pool's rows are the source's items in their order, without those held out."""
    expected = np.setdiff1d(np.arange(333), SOURCE.held_out())
    assert np.array_equal(pool.ids, expected)
    assert len(pool) == len(expected) == pool.expected
    assert pool.version == 7
    assert pool.complete
    assert (pool.title, pool.classes, pool.n_features) == (SOURCE.title, SOURCE.classes, 8)
    with pytest.raises(ValueError, match="read-only"):
        pool.ids[0] = 7


def test_scores_equal_brute_force(pool: Pool) -> None:
    """Every row's score is wᵀx + b of the item's own features."""
    w = hyperplane()
    assert pool.scores(w).dtype == np.float32
    assert np.abs(pool.scores(w) - w.scores(features(pool.ids))).max() < 1e-5


def test_scores_of_several_hyperplanes_come_in_one_pass(pool: Pool) -> None:
    """Blocks follow each other without gaps, and have a row for each hyperplane."""
    planes = [hyperplane(seed=seed) for seed in range(3)]
    blocks = list(pool.score_blocks(planes))
    assert [first for first, _ in blocks] == [0, 20, 70, 120, 170, 220, 270]
    scores = np.concatenate([scores for _, scores in blocks], axis=1)
    expected = [plane.scores(features(pool.ids)) for plane in planes]
    assert np.abs(scores - expected).max() < 1e-5
    assert list(pool.score_blocks([])) == list(pool.prefix(0).score_blocks(planes)) == []


def test_rows_and_ids_lead_to_each_other(pool: Pool) -> None:
    """Rows come in the order asked for, repeats included, and ids find their rows."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(pool), 500)
    ids = pool.ids[rows]
    X = features(ids)
    assert np.array_equal(pool.row_of(ids), rows)
    assert np.array_equal(pool.rows(rows), X)
    assert np.array_equal(pool.rows_of(ids), X)
    assert np.array_equal(pool.truth(ids), SOURCE.truth(ids))
    assert pool.rows([]).shape == (0, 8)
    assert np.array_equal(pool.rows([2, 302, 2]), pool.rows(np.array([2, 302, 2], dtype=np.uint16)))


def test_blocks_are_the_features_in_their_order(pool: Pool) -> None:
    """Blocks from any row on join to the features of all rows from there."""
    X = features(pool.ids)
    for start in (0, 1, 19, 20, 21, 302, 303, 400):
        blocks = list(pool.blocks(start))
        firsts = [first for first, _ in blocks]
        lengths = [len(block) for _, block in blocks]
        assert firsts == [start + sum(lengths[:i]) for i in range(len(lengths))]
        assert np.array_equal(np.concatenate([np.empty((0, 8)), *(block for _, block in blocks)]), X[start:])


def test_held_out_items_are_apart(pool: Pool) -> None:
    """Held-out items have features and truth and no row."""
    held_out = pool.held_out
    assert np.array_equal(held_out.ids, SOURCE.held_out())
    assert np.array_equal(held_out.X, features(held_out.ids))
    assert np.array_equal(held_out.truth, SOURCE.truth(held_out.ids))
    mixed = np.array([6, 5, 332, 16])
    assert np.array_equal(pool.truth(mixed), SOURCE.truth(mixed))
    with pytest.raises(InputError, match="item 16 has no row"):
        pool.row_of([0, 16])


@pytest.mark.parametrize("bad", [-1, 333, 10**12])
def test_other_ids_are_refused(pool: Pool, bad: int) -> None:
    """An id that the source does not have is named."""
    with pytest.raises(InputError, match=rf"item {bad} has no row .* ids are 0 to 332"):
        pool.rows_of([3, bad])
    with pytest.raises(InputError, match=f"item {bad} "):
        pool.truth([3, bad])


def test_other_rows_are_refused(pool: Pool) -> None:
    """A row that is not there, or no whole number, is named."""
    for bad in (-1, 303):
        with pytest.raises(InputError, match=rf"from 0 to 302 .* got {bad}"):
            pool.rows([0, bad])
    with pytest.raises(InputError, match="whole numbers"):
        pool.rows([0.5])
    with pytest.raises(InputError, match="whole numbers"):
        pool.row_of([[1, 2]])


def test_hyperplane_of_another_length_is_refused(pool: Pool) -> None:
    """Both lengths are said."""
    with pytest.raises(InputError, match=r"the hyperplane has 9 features.* has 8"):
        pool.scores(hyperplane(9))
    with pytest.raises(InputError, match=r"the hyperplane has 9 features.* has 8"):
        pool.score_blocks([hyperplane(8), hyperplane(9)])


def test_prefix_is_the_pool_as_it_was(pool: Pool) -> None:
    """A prefix answers as the pool did when it had no more rows, at segment borders and between them."""
    w = hyperplane()
    for n in (0, 1, 19, 20, 21, 70, 150, 302, 303):
        was = pool.prefix(n)
        assert len(was) == n
        assert was.complete == (n == 303)
        assert np.array_equal(was.ids, pool.ids[:n])
        assert np.allclose(was.scores(w), pool.scores(w)[:n], atol=1e-6)
        assert np.array_equal(was.held_out.ids, pool.held_out.ids)
        assert len(was.refreshed()) == 303
    assert np.array_equal(pool.prefix(21).rows([20]), pool.rows([20]))
    with pytest.raises(InputError, match="has no row"):
        pool.prefix(21).row_of([pool.ids[21]])
    for bad in (-1, 304):
        with pytest.raises(InputError, match=f"n_rows must be from 0 to 303 .* got {bad}"):
            pool.prefix(bad)


def test_version_is_a_prefix_of_the_next(pool: Pool) -> None:
    """Each version begins with the rows of the one before; only the last is complete."""
    versions = [Pool.open(pool.path, version) for version in range(pool.version + 1)]
    assert [len(v) for v in versions] == [0, 20, 70, 120, 170, 220, 270, 303]
    for before, after in itertools.pairwise(versions):
        assert not before.complete
        assert np.array_equal(after.ids[: len(before)], before.ids)
        assert np.array_equal(after.rows(np.arange(len(before))), before.rows(np.arange(len(before))))
        assert after.prefix(len(before)).digest == before.digest != after.digest
    with pytest.raises(InputError, match=r"version must be from 0 to 7 .* got 8"):
        Pool.open(pool.path, 8)


def test_a_pool_knows_the_sizes_of_its_earlier_snapshots(pool: Pool) -> None:
    """And which items an earlier snapshot may still get, by its files as by its source."""
    for version in range(8):
        earlier = Pool.open(pool.path, version)
        assert pool.n_rows_of(version) == len(earlier)
        assert earlier.n_rows_of(7) == len(earlier)
        may = np.flatnonzero(earlier.can_have_rows())
        awaited = [item for item in range(400) if earlier.awaits(item)]
        assert awaited == np.setdiff1d(may, earlier.ids).tolist()
    assert pool.n_rows_of(99) == pool.prefix(100).n_rows_of(7) + 203 == 303
    assert pool.n_rows_of(-1) == 0


def test_readers_hold_their_snapshot_while_the_pool_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a reader has never changes; `refreshed` gives what is new, or the same object."""
    small_parts(monkeypatch)
    w = hyperplane()
    seen: list[tuple[Pool, np.ndarray]] = []

    def look(_: object) -> None:
        now = seen[-1][0].refreshed() if seen else Pool.open(tmp_path / "p")
        assert now.refreshed() is now
        if not seen or now is not seen[-1][0]:
            seen.append((now, now.scores(w)))

    whole = build(SOURCE, tmp_path / "p", progress=look)
    assert len({len(pool) for pool, _ in seen}) == 8
    for pool, scores in seen:
        assert np.array_equal(pool.scores(w), scores)
        assert np.allclose(scores, whole.scores(w)[: len(pool)], atol=1e-6)


def test_another_pool_in_its_place_is_noticed(tmp_path: Path) -> None:
    """A snapshot is not refreshed to another pool's rows."""
    path = tmp_path / "p"
    pool = small_pool(path, FakeSource(50))
    path.rename(tmp_path / "old")
    small_pool(path, FakeSource(60, seed=1))
    with pytest.raises(InputError, match="replaced by another"):
        pool.refreshed()
    assert np.array_equal(pool.rows([49]), features(np.array([49]), FakeSource(50)))


def test_float16_scores_are_computed_in_float32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A float16 pool's scores are those of its rounded features, not rounded themselves."""
    monkeypatch.setattr("closecall.core.linear.scoring._CACHED_ROWS", 16)
    monkeypatch.setattr("closecall.core.pool.segment_rows.COPIED_ROWS", 16)
    pool = small_pool(tmp_path / "p", SOURCE, dtype="float16")
    X = features(pool.ids).astype(np.float16)
    w = hyperplane()
    assert pool.dtype == np.float16
    assert np.abs(pool.scores(w) - w.scores(X)).max() < 1e-5
    assert pool.scores(w).dtype == pool.rows([0]).dtype == pool.held_out.X.dtype == np.float32
    assert np.array_equal(pool.rows(np.arange(len(pool))), X)
    blocks = [block for _, block in pool.blocks(3)]
    assert {block.dtype for block in blocks} == {np.dtype(np.float32)}
    assert np.array_equal(np.concatenate(blocks), X[3:])


def test_source_is_opened_from_the_pool(pool: Pool) -> None:
    """The pool can show its items: its source is made again from what the manifest keeps."""
    source = Pool.open(pool.path).source
    assert source.spec() == SOURCE.spec()
    assert source.image(77, 10).getpixel((3, 3)) == (0, 0, 77)


def test_many_threads_read_one_pool(pool: Pool) -> None:
    """Concurrent calls give what one call gives."""
    w = hyperplane()
    scores, rows = pool.scores(w), pool.rows(np.arange(0, 303, 3))
    barrier = threading.Barrier(8)

    def read(_: int) -> bool:
        mine = Pool.open(pool.path) if _ % 2 else pool
        barrier.wait()
        return all(
            np.array_equal(mine.scores(w), scores) and np.array_equal(mine.rows(np.arange(0, 303, 3)), rows)
            for _ in range(50)
        )

    with ThreadPoolExecutor(8) as executor:
        assert all(executor.map(read, range(8)))


@st.composite
def patterns(draw: st.DrawFn) -> tuple[int, list[int], list[int], tuple[int, int, int]]:
    n = draw(st.integers(1, 45))
    item = st.integers(0, n - 1)
    held_out = draw(st.lists(item, unique=True, max_size=n))
    unreadable = draw(st.one_of(st.lists(item, unique=True, max_size=n), st.just(list(range(n // 2)))))
    return n, held_out, unreadable, draw(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 5)))


@settings(max_examples=examples(40))
@given(patterns())
def test_any_pattern_of_missing_items(
    tmp_path_factory: pytest.TempPathFactory,
    pattern: tuple[int, list[int], list[int], tuple[int, int, int]],
) -> None:
    """Whichever items are held out or unreadable, rows, ids and problems agree with a plain count of them."""
    n, held_out, unreadable, (first, segment, chunk) = pattern
    source = FakeSource(n, None, held_out=held_out, unreadable=unreadable)
    ids = np.array(sorted(set(range(n)) - set(held_out) - set(unreadable)), dtype=np.int64)
    path = tmp_path_factory.mktemp("pattern")
    with pytest.MonkeyPatch.context() as monkeypatch:
        small_parts(monkeypatch, first=first, segment=segment, chunk=chunk)
        monkeypatch.setattr("os.fsync", lambda _: None)
        if not len(ids):
            with pytest.raises(InputError, match=f"none of the {n} items"):
                build(source, path)
            assert not Pool.open(path).complete
            return
        pool = build(source, path)
    X = features(ids, source)
    assert np.array_equal(pool.ids, ids)
    assert pool.complete
    assert pool.expected == len(ids)
    assert np.array_equal(pool.row_of(ids[::-1]), np.arange(len(ids))[::-1])
    assert np.array_equal(pool.rows_of(ids[::-1]), X[::-1])
    assert np.array_equal(np.concatenate([block for _, block in pool.blocks()]), X)
    assert [problem.item for problem in pool.problems()] == sorted(unreadable)
    assert pool.n_unreadable == len(unreadable)
    for k in range(len(ids)):
        assert np.array_equal(pool.prefix(k).ids, ids[:k])
    for version in range(pool.version):
        then = Pool.open(path, version)
        assert pool.prefix(len(then)).digest == then.digest
    assert np.array_equal(
        pool.held_out.ids, np.array(sorted(set(held_out) - set(unreadable)), dtype=np.int64)
    )
    for gone in {*held_out, *unreadable}:
        with pytest.raises(InputError, match=f"item {gone} has no row"):
            pool.row_of([ids[0], gone])


def test_problems_say_which_and_why(tmp_path: Path) -> None:
    """Every unreadable item is listed once, with its name and the reason."""
    pool = small_pool(tmp_path / "p", FakeSource(60, None, unreadable=[33, 4], held_out=[4, 8]))
    reason = "made unreadable by the test"
    assert pool.problems() == [Problem(4, "item 4", reason), Problem(33, "item 33", reason)]
    assert pool.prefix(10).problems() == [Problem(4, "item 4", reason)]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_features_take_no_memory_of_their_own(tmp_path: Path) -> None:
    """Reading all features hardly takes anonymous memory: they stay in the page cache."""

    def anonymous_bytes() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

    w = hyperplane(256)
    small_pool(tmp_path / "warm", FakeSource(300, 256)).scores(w)
    length = build(FakeSource(20_500, 256), tmp_path / "p").ids.size * 256 * 4
    before = anonymous_bytes()
    pool = Pool.open(tmp_path / "p")
    pool.scores(w)
    assert sum(float(block.sum()) for _, block in pool.blocks()) != 0
    assert anonymous_bytes() - before < length / 4


def test_sizes_of_parts(tmp_path: Path) -> None:
    """The first hundred come at once, then three times what is there; segments are few even at a million."""
    pool = build(FakeSource(10_000, 2), tmp_path / "p")
    sizes = [part.rows for part in Manifest.read(pool.path).segments]
    assert sizes == [100, 300, 1200, 4800, 3600]
    assert closecall.core.pool.build_plan.SEGMENT_GROWTH == 3
    assert 1_000_000 / closecall.core.pool.build_plan.SEGMENT_ROWS <= 20
