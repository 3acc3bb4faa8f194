"""Pools of sparse rows: what a pool of dense rows promises, they promise too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.features import compute
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.build import build
from closecall.core.pool.build_size import estimate
from closecall.core.pool.feature_files import COLUMNS, STARTS, VALUES
from closecall.core.pool.manifest import Manifest
from closecall.core.pool.pool import Pool
from closecall.core.sources.base import Problem
from tests.fakes import FakeTexts
from tests.folders import ROOT
from tests.pools import contents, small_parts, small_pool

HELD_OUT = range(5, 333, 11)
SOURCE = FakeTexts(333, held_out=HELD_OUT, unreadable=[7, 100], empty=[5, 200])


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    """300 rows in 7 segments."""
    return small_pool(tmp_path_factory.mktemp("pool") / "p", SOURCE)


def plane(n_features: int, seed: int = 0) -> Hyperplane:
    rng = np.random.default_rng(seed)
    return Hyperplane(rng.standard_normal(n_features), float(rng.standard_normal()))


def dense(ids: np.ndarray, source: FakeTexts = SOURCE) -> np.ndarray:
    return compute(source, ids)[0].toarray()


def test_rows_are_sparse_and_what_the_source_gives(pool: Pool) -> None:
    """Rows, blocks and held-out items are float32 rows of the texts' words, in the order asked for."""
    assert pool.is_sparse
    assert (len(pool), pool.version, pool.n_features) == (300, 7, SOURCE.n_features)
    rows = np.random.default_rng(0).integers(0, len(pool), 400)
    X = pool.rows(rows)
    assert isinstance(X, csr_array)
    assert X.dtype == np.float32
    assert np.array_equal(X.toarray(), dense(pool.ids[rows]))
    assert np.array_equal(pool.rows_of(pool.ids[rows]).toarray(), X.toarray())
    assert pool.rows([]).shape == (0, pool.n_features)
    for start in (0, 1, 20, 21, 299, 300):
        blocks = list(pool.blocks(start))
        assert [first for first, _ in blocks][:1] == [start][: len(blocks)]
        assert sum(block.shape[0] for _, block in blocks) == 300 - start
        assert all(np.array_equal(X.toarray(), dense(pool.ids[f : f + X.shape[0]])) for f, X in blocks)
    held_out = pool.held_out
    assert isinstance(held_out.X, csr_array)
    assert np.array_equal(held_out.X.toarray(), dense(held_out.ids))
    assert 5 not in held_out.ids


def test_scores_equal_brute_force(pool: Pool) -> None:
    """Of one hyperplane, of several in one pass, and of a prefix."""
    planes = [plane(pool.n_features, seed) for seed in range(3)]
    expected = np.array([one.scores(dense(pool.ids)) for one in planes])
    assert pool.scores(planes[0]).dtype == np.float32
    assert np.abs(pool.scores(planes[0]) - expected[0]).max() < 1e-5
    together = np.concatenate([scores for _, scores in pool.score_blocks(planes)], axis=1)
    assert np.abs(together - expected).max() < 1e-5
    assert np.allclose(planes[1].scores(pool.rows(np.arange(300))), expected[1], rtol=0, atol=1e-12)
    for n in (0, 1, 20, 33, 300):
        assert np.array_equal(pool.prefix(n).scores(planes[0]), pool.scores(planes[0])[:n])


def test_unreadable_and_empty_texts_are_problems(pool: Pool) -> None:
    """Each is listed with its reason, and has no row."""
    reason = "made unreadable by the test"
    assert pool.problems() == [
        Problem(5, "text 5", "it is empty"),
        Problem(7, "text 7", reason),
        Problem(100, "text 100", reason),
        Problem(200, "text 200", "it is empty"),
    ]
    with pytest.raises(InputError, match="item 200 has no row"):
        pool.rows_of([200])


def test_the_vocabulary_leaves_out_the_held_out_texts_and_is_kept_when_the_pool_grows(tmp_path: Path) -> None:
    """A grown pool has the same features; texts that have none of their words are problems."""
    young = small_pool(tmp_path / "p", FakeTexts(100, held_out=range(10)))
    words = young.source.vocabulary
    known = {word for item in range(10, 100) for word in FakeTexts(100).read(item).split()}
    assert set(words.words) == {word.lower() for word in known}
    grown = small_pool(tmp_path / "p", FakeTexts(333, held_out=range(10)))
    assert (grown.n_features, len(grown)) == (young.n_features, 323)
    assert grown.source.vocabulary.digest == words.digest
    assert np.array_equal(grown.rows(np.arange(90)).toarray(), young.rows(np.arange(90)).toarray())
    assert grown.prefix(90).digest == young.digest != grown.digest
    assert len(young.refreshed()) == 323


def test_threads_and_interruptions_change_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However a pool came about, its files are the same."""
    small_parts(monkeypatch)
    whole = contents(build(SOURCE, tmp_path / "whole", threads=1).path)

    class StoppedError(Exception):
        pass

    def interrupt(progress: object) -> None:
        if progress.done > 150:
            raise StoppedError

    with pytest.raises(StoppedError):
        build(SOURCE, tmp_path / "p", progress=interrupt)
    assert 0 < len(Pool.open(tmp_path / "p")) < 300
    assert contents(build(SOURCE, tmp_path / "p", threads=3).path) == whole


def test_a_builder_that_is_killed_leaves_a_pool_that_goes_on(tmp_path: Path) -> None:
    """A kill −9 in the middle of publishing a segment: what was published is whole, and the rest follows."""
    script = (
        "import os, signal, closecall.core.pool.publish as p\n"
        "from pathlib import Path\n"
        "from tests.fakes import FakeTexts\n"
        "from tests.pools import small_parts\n"
        "from closecall.core.pool.build import build\n"
        "small_parts()\n"
        "write, seen = p.publish_folder, []\n"
        "def deadly(temporary, path):\n"
        "    seen.append(path)\n"
        "    if len(seen) == 5: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    write(temporary, path)\n"
        "p.publish_folder = deadly\n"
        f"build(FakeTexts(333), Path({str(tmp_path / 'p')!r}))\n"
    )
    died = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=os.environ, check=False)
    assert died.returncode < 0
    half = Pool.open(tmp_path / "p")
    half.check(deep=True)
    assert 0 < len(half) < 333
    pool = small_pool(tmp_path / "p", FakeTexts(333))
    pool.check(deep=True)
    assert contents(pool.path) == contents(small_pool(tmp_path / "other", FakeTexts(333)).path)


@pytest.mark.parametrize("name", [STARTS, COLUMNS, VALUES])
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_every_damaged_file_is_noticed_and_named(tmp_path: Path, name: str, damage: str) -> None:
    """Missing and shortened files when the pool is opened, a flipped bit by a deep check."""
    pool = small_pool(tmp_path / "p", FakeTexts(60))
    path = pool.path / "segments" / "00001" / name
    raw = bytearray(path.read_bytes())
    if damage == "flip":
        raw[-9] ^= 1
        path.write_bytes(raw)
        with pytest.raises(InputError, match=f"{name} is damaged"):
            Pool.open(pool.path).check(deep=True)
        return
    path.write_bytes(raw[:-1])
    if damage == "remove":
        path.unlink()
    with pytest.raises(InputError, match=f"{name} is (damaged|missing)"):
        Pool.open(pool.path)


def test_places_beyond_the_matrix_are_refused_when_a_pool_is_opened(tmp_path: Path) -> None:
    """They would lead compiled code out of its arrays."""
    for name, value, words in [
        (COLUMNS, np.int32(10**6), "columns beyond"),
        (COLUMNS, np.int32(-1), "columns beyond"),
        (STARTS, np.int64(10**6), "do not ascend|too short"),
    ]:
        pool = small_pool(tmp_path / f"{name}{value}", FakeTexts(60))
        path = pool.path / "segments" / "00001" / name
        raw = path.read_bytes()
        place = len(raw) - 2 * value.itemsize
        path.write_bytes(raw[:place] + value.tobytes() + raw[place + value.itemsize :])
        with pytest.raises(InputError, match=words):
            Pool.open(pool.path)


def test_older_versions_are_told_to_upgrade_and_read_dense_pools_as_before(pool: Pool) -> None:
    """Only the manifest of a sparse pool is of the new format."""
    assert json.loads((pool.path / "pool.json").read_text())["format"] == 2
    manifest = replace(Manifest.read(pool.path), layout="dense")
    manifest.write(pool.path.parent)
    written = json.loads((pool.path.parent / "pool.json").read_text())
    assert written["format"] == 1
    assert "layout" not in written
    assert Manifest.read(pool.path.parent) == manifest


def test_float16_is_refused_and_the_estimate_near(tmp_path: Path, pool: Pool) -> None:
    """Sparse features are float32; what they take on the disk is told beforehand."""
    with pytest.raises(InputError, match=r"sparse features, which are float32, got dtype float16"):
        build(SOURCE, tmp_path / "p", dtype="float16")
    on_disk = sum(file.stat().st_size for file in pool.path.glob("[sh]e*/**/*.npy"))
    assert 0.7 < estimate(SOURCE).bytes / on_disk < 1.3
