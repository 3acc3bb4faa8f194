"""A byte pool: built, resumed, grown, opened and damaged like any other, at a third of the size."""

from __future__ import annotations

import json
import shutil
import threading
import time

import numpy as np
import pytest

import closecall.core.pool.build_features
from closecall.core.errors import InputError
from closecall.core.features import compute
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool import source_continuation
from closecall.core.pool.build import build, read_progress
from closecall.core.pool.build_size import estimate
from closecall.core.pool.columns import COLUMNS
from closecall.core.pool.manifest import Manifest
from closecall.core.pool.pool import Pool
from closecall.core.quantization.byte_rows import FEW
from closecall.core.quantization.codebook import codebook_bytes
from closecall.core.sources import KINDS, source_from
from tests.fakes import FakeSource
from tests.pools import contents, killed_pools, small_parts, small_pool

HELD_OUT = range(0, 110, 7)


def fake(n: int = 230, **given: object) -> FakeSource:
    return FakeSource(n, 100, **{"held_out": HELD_OUT, "lean": 2.0, **given})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def pool(tmp_path_factory) -> Pool:
    return small_pool(tmp_path_factory.mktemp("byte") / "pool", fake(), dtype="byte")


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Pool:
    return small_pool(tmp_path_factory.mktemp("plain") / "pool", fake())


def test_it_is_the_plain_pool_but_for_rounding(pool, plain):
    """Ids, classes and held-out items are the same; features differ by a rounded byte."""
    assert pool.version > 3
    assert np.array_equal(pool.ids, plain.ids)
    assert np.array_equal(pool.truth(pool.ids), plain.truth(plain.ids))
    assert np.array_equal(pool.held_out.X, plain.held_out.X)
    every = np.random.default_rng(0).permutation(len(pool))
    rows = pool.rows(every)
    assert 0 < np.abs(rows - plain.rows(every)).max() < 0.01
    assert rows.dtype == np.float32
    assert pool.dtype == np.int8
    assert pool.codebook is not None
    assert plain.codebook is None


def test_every_way_of_reading_agrees(pool):
    """Rows, blocks from any row on, copied rows by address, scores of one hyperplane and of several."""
    every = pool.rows(np.arange(len(pool)))
    for start in (0, 33, len(pool) - 1):
        firsts, blocks = zip(*pool.blocks(start), strict=True)
        assert firsts[0] == start
        assert np.abs(np.concatenate(blocks) - every[start:]).max() < 1e-6
    planes = [Hyperplane(np.random.default_rng(seed).standard_normal(100), 0.1) for seed in range(2 * FEW)]
    expected = np.array([plane.scores(every) for plane in planes])
    assert np.abs(pool.scores(planes[0]) - expected[0]).max() < 1e-5
    for n in (2, len(planes)):
        together = np.concatenate([scores for _, scores in pool.score_blocks(planes[:n])], axis=1)
        assert np.abs(together - expected[:n]).max() < 1e-5
    assert list(pool.score_blocks([])) == []
    placed = pool.placed_rows_of(pool.ids[[5, 60, 2]])
    assert np.array_equal(placed.owners[0], every[[5, 60, 2]])


def test_a_snapshot_of_the_first_rows(pool):
    """It may end within a segment, whose rows lie in the order of their clusters."""
    for n in (1, 37, 120, len(pool) - 1):
        first = pool.prefix(n)
        assert np.array_equal(first.rows(np.arange(n)), pool.rows(np.arange(n)))
        plane = Hyperplane(np.ones(100), 0.0)
        assert np.array_equal(first.scores(plane), pool.scores(plane)[:n])


def test_killed_builders_end_in_the_same_bytes(tmp_path):
    """Also those that are killed while the codebook is fitted."""
    word = "digits:900"
    whole = small_pool(tmp_path / "whole", source_from(word), dtype="byte").path
    for killed in killed_pools(word, tmp_path, 4, longest=1.0, dtype="byte"):
        assert contents(killed) == contents(whole)


def test_growth_keeps_the_codebook(tmp_path, monkeypatch):
    """Further items are encoded like the first; the first keep their bytes."""
    small_parts(monkeypatch)
    small = build(fake(240), tmp_path / "p", dtype="byte")
    before, rows = contents(tmp_path / "p"), small.rows(np.arange(len(small)))
    grown = build(fake(300), tmp_path / "p")
    assert np.abs(grown.rows_of([299]) - fake(300).features(np.array([299]))).max() < 0.02
    assert len(grown) > len(small)
    assert grown.dtype == np.int8
    assert np.array_equal(grown.rows(np.arange(len(small))), rows)
    after = contents(tmp_path / "p")
    growing = {"pool.json", *COLUMNS}
    assert all(after[name] == digest for name, digest in before.items() if name not in growing)
    assert len(small.refreshed()) == len(grown)
    with pytest.raises(InputError, match="has byte features, got dtype float32"):
        build(fake(300), tmp_path / "p", dtype="float32")


def test_the_estimate_is_what_the_pool_takes(tmp_path):
    """460 bytes for 384 features and an id, instead of 1,546."""
    source = FakeSource(3000, 384)
    expected = estimate(source, dtype="byte")
    assert expected.bytes == 3000 * (460 + 10) + codebook_bytes(3000, 384)
    build(source, tmp_path / "p", dtype="byte")
    files = [*(tmp_path / "p" / "segments").rglob("*"), *((tmp_path / "p" / name) for name in COLUMNS)]
    assert sum(file.stat().st_size for file in files if file.is_file()) == 3000 * (460 + 10)
    taken = sum(file.stat().st_size for file in (tmp_path / "p").rglob("*") if file.is_file())
    assert abs(taken - expected.bytes) < 8 * 4096


def test_ids_and_classes_take_no_memory(pool):
    """They are mapped from the disk, also in a snapshot of the first rows."""
    first = pool.prefix(50)
    for whole, part in ((pool.ids, first.ids), (pool._contents.truth, first._contents.truth)):
        assert isinstance(whole.base, np.memmap)
        assert np.shares_memory(whole, part)
        assert not whole.flags.writeable
        assert not part.flags.writeable


def test_an_older_version_refuses_it(pool, plain):
    """It would take the bytes for features. Pools that it can read keep their format."""
    formats = [json.loads((one.path / "pool.json").read_text())["format"] for one in (pool, plain)]
    assert formats == [3, 1]


def test_damage_is_found(tmp_path):
    """In the codebook when the pool is opened, in the bytes by `pool check --deep`."""
    path = tmp_path / "p"
    build(fake(), path, dtype="byte")
    for part, name in (("codebook", "steps.npy"), ("segments/00000", "rows.bytes")):
        file = path / part / name
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(InputError, match=f"{name} is damaged"):
            Pool.open(path).check(deep=True)
        file.write_bytes(whole[:-1])
        with pytest.raises(InputError, match=f"{name} is damaged"):
            Pool.open(path)
        file.unlink()
        with pytest.raises(InputError, match=f"{name} (is missing|cannot be read)"):
            Pool.open(path)
        file.write_bytes(whole)
    for name in COLUMNS:
        whole = (path / name).read_bytes()
        for damaged in (whole[:8] + bytes([whole[8] ^ 1]) + whole[9:], whole[:-1]):
            (path / name).write_bytes(damaged)
            with pytest.raises(InputError, match=f"{name} is damaged"):
                Pool.open(path).check(deep=True)
        (path / name).unlink()
        with pytest.raises(InputError, match=f"{name} is missing"):
            Pool.open(path)
        (path / name).write_bytes(whole + b"left by a builder that was killed")
    Pool.open(path).check(deep=True)
    assert Manifest.read(path).folders[0].folder == "codebook"


def test_nothing_can_be_read(tmp_path):
    """There is nothing to fit a codebook to; one sentence says so."""
    for unreadable in (range(800), range(700)):
        source = FakeSource(800, None, unreadable=unreadable)
        with pytest.raises(InputError, match="need at least 768 items that can be read"):
            build(source, tmp_path / "p", dtype="byte")
    with pytest.raises(InputError, match="need at least 16 items that can be read"):
        build(FakeSource(100, 8, held_out=range(100)), tmp_path / "q", dtype="byte")


def test_too_few_items_are_refused(tmp_path):
    """Later items would vary along directions that are not known."""
    with pytest.raises(InputError, match=r"need at least 200 items, and .* has 199: use float32"):
        build(fake(199), tmp_path / "p", dtype="byte")
    assert not (tmp_path / "p" / "pool.json").exists()


class OfAnotherKind(FakeSource):
    """Its items after the 400th vary along other directions than those before."""

    def features(self, items: np.ndarray) -> np.ndarray:
        X = np.array(super().features(items))
        X[:, 50:] *= (np.asarray(items) >= 400)[:, None]
        return X


def test_items_of_another_kind_are_not_taken(tmp_path, monkeypatch):
    """Bytes that were fitted to other items would destroy their features. What is there stays."""
    monkeypatch.setitem(KINDS, "fake", OfAnotherKind)
    small_parts(monkeypatch)
    build(OfAnotherKind(400, 100), tmp_path / "p", dtype="byte")
    with pytest.raises(InputError, match=r"50 of the next 50 items .* bytes can't describe them"):
        build(OfAnotherKind(600, 100), tmp_path / "p")
    pool = Pool.open(tmp_path / "p")
    assert len(pool) == 400
    pool.check(deep=True)
    assert pool.complete
    assert read_progress(tmp_path / "p").state == "done"
    assert len(build(OfAnotherKind(400, 100), tmp_path / "p")) == 400


class WithOutliers(FakeSource):
    """Some items are unlike all others; `changed` has other features than before."""

    outliers = (403, 450, 466)
    changed: int | None = None

    def features(self, items: np.ndarray) -> np.ndarray:
        X = np.array(super().features(items))
        items = np.asarray(items)
        X[:, 50:] *= np.isin(items, self.outliers)[:, None]
        X[items == self.changed] = X[items == self.changed][:, ::-1]
        return X


def test_a_few_outliers_do_not_stop_a_pool(tmp_path, monkeypatch):
    """It grows with them and after them. Only they are described poorly."""
    monkeypatch.setitem(KINDS, "fake", WithOutliers)
    monkeypatch.setattr(source_continuation, "SAMPLED", 10_000)
    path = tmp_path / "p"
    build(WithOutliers(400, 100), path, dtype="byte")
    for n in (405, 600, 601):  # the 5 items are a segment of their own
        build(WithOutliers(n, 100), path)
    pool = Pool.open(path)
    X, ids, _ = compute(WithOutliers(601, 100), pool.ids)
    errors = np.abs(pool.rows_of(ids) - X).max(axis=1)
    assert pool.complete
    assert set(ids[errors > 0.02].tolist()) == set(WithOutliers.outliers)


@pytest.mark.parametrize("item", [7, 403])
def test_a_changed_item_is_noticed_in_a_pool_with_outliers(tmp_path, monkeypatch, item):
    """Also if it is itself an outlier."""
    monkeypatch.setitem(KINDS, "fake", WithOutliers)
    monkeypatch.setattr(source_continuation, "SAMPLED", 10_000)
    build(WithOutliers(400, 100), tmp_path / "p", dtype="byte")
    build(WithOutliers(600, 100), tmp_path / "p")
    monkeypatch.setattr(WithOutliers, "changed", item)
    with pytest.raises(InputError, match=f"item {item} has changed"):
        build(WithOutliers(601, 100), tmp_path / "p")


def test_a_snapshot_outlives_its_folder(tmp_path):
    """If another pool is built there, or it is deleted, an open snapshot keeps its ids, classes and rows."""
    path = tmp_path / "p"
    old = small_pool(path, fake(), dtype="byte")
    expected = (old.ids.copy(), old.rows(np.arange(len(old))))
    truth = fake().truth(expected[0])
    shutil.rmtree(path / "segments")
    (path / "pool.json").unlink()
    small_pool(path, fake(held_out=range(1, 60, 3), seed=5), dtype="byte")
    for again in range(2):
        assert np.array_equal(old.ids, expected[0])
        assert np.array_equal(old.prefix(100).ids, expected[0][:100])
        assert np.array_equal(old.truth(old.ids), truth)
        assert np.array_equal(old.rows(np.arange(len(old))), expected[1])
        if not again:
            shutil.rmtree(path)


class Slow(FakeSource):
    """Each item takes a while."""

    is_slow = True

    def features(self, items: np.ndarray) -> np.ndarray:
        time.sleep(0.005 * len(items))
        return super().features(items)


def test_a_slow_source_can_be_stopped_at_once(tmp_path):
    """Also while the codebook's sample is read, whose chunks are as small as those of the pool."""
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    began = time.monotonic()
    build(Slow(2000, 8), tmp_path / "p", dtype="byte", stop=stop)
    assert time.monotonic() - began < 4


def test_bytes_do_not_depend_on_the_chunks(tmp_path, monkeypatch):
    """Nor on how many items are encoded at a time: one, or all."""
    pools = []
    for chunk in (1, 3, 500):
        monkeypatch.setattr("closecall.core.pool.build_plan.CHUNK_ITEMS", chunk)
        pools.append(build(fake(), tmp_path / str(chunk), dtype="byte"))
    assert contents(pools[0].path) == contents(pools[1].path) == contents(pools[2].path)


def test_segments_without_rows(tmp_path, monkeypatch):
    """As where none of the first hundred items can be read."""
    small_parts(monkeypatch)
    pool = build(FakeSource(900, None, unreadable=range(45)), tmp_path / "p", dtype="byte")
    assert (len(pool), pool.n_unreadable) == (855, 45)
    assert min(len(X) for _, X in pool.byte_segments) > 0
    assert pool.version > len(pool.byte_segments)
    pool.check(deep=True)
    assert np.array_equal(pool.ids, np.arange(45, 900))


def test_interrupted_while_it_is_fitted(tmp_path, monkeypatch):
    """The next build begins with the codebook."""
    stop = threading.Event()
    module = closecall.core.pool.build_features
    content = module.content_of
    monkeypatch.setattr(module, "content_of", lambda *given: stop.set() or content(*given))
    stopped = build(fake(), tmp_path / "p", dtype="byte", stop=stop)
    assert (len(stopped), stopped.codebook) == (0, None)
    monkeypatch.undo()
    assert build(fake(), tmp_path / "p").complete
