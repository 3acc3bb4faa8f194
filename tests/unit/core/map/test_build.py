from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

import closecall.core.map.build as building
import closecall.core.map.layout as laying_out
from closecall.core.errors import InputError
from closecall.core.map import PoolMap, build_map
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from tests.fakes import FakeSource
from tests.pools import contents, small_pool
from tests.scale import thorough

ROOT = Path(__file__).parents[4]


def fake_umap(sample: np.ndarray, *, seed: int) -> np.ndarray:
    """The first two components, and something of the seed: UMAP itself compiles for seconds."""
    return (sample[:, :2] + seed).astype(np.float32)


def small_map() -> None:
    """Let a map of a few hundred rows have several folders and a sample of some."""
    laying_out.umap_positions = fake_umap
    building.BLOCK, building.SAMPLE = 40, 60


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(laying_out, "umap_positions", fake_umap)
    monkeypatch.setattr(building, "BLOCK", 40)
    monkeypatch.setattr(building, "SAMPLE", 60)


@pytest.fixture
def pool(tmp_path) -> Pool:
    return small_pool(tmp_path / "pool", FakeSource(150))


def files(pool: Pool) -> dict[str, str]:
    return contents(pool.path / "map")


class StoppedError(Exception):
    pass


def test_every_row_has_a_position(pool):
    """That of the layout, whatever the folders; opened, the map is the same."""
    steps: list[tuple[int, int]] = []
    made = build_map(pool, lambda done, total: steps.append((done, total)))
    assert made.positions.shape == (150, 2)
    assert steps == [(0, 150), (0, 150), (40, 150), (80, 150), (120, 150), (150, 150)]
    opened = PoolMap.open(pool)
    assert np.array_equal(opened.positions, made.positions)
    assert np.array_equal(opened.sample, made.sample)
    assert opened.digest == made.digest
    assert len(np.unique(made.sample)) == 60
    layout = laying_out.lay_out(pool.rows(made.sample))
    assert np.allclose(layout.place([pool.rows(np.arange(150))]), made.positions, atol=1e-5)


def test_a_map_that_is_built_again_is_left_alone(pool):
    """Nothing is computed or written."""
    build_map(pool)
    before = files(pool), [path.stat().st_mtime_ns for path in sorted((pool.path / "map").rglob("*.npy"))]
    build_map(pool)
    after = files(pool), [path.stat().st_mtime_ns for path in sorted((pool.path / "map").rglob("*.npy"))]
    assert after == before


@pytest.mark.parametrize("at", range(1, 6))
def test_an_interrupted_build_goes_on(pool, tmp_path, at):
    """From each step: what was placed is not computed again, and the files are the same to the byte."""
    whole = small_pool(tmp_path / "whole", FakeSource(150))
    build_map(whole)
    steps = []

    def stop(done: int, _total: int) -> None:
        steps.append(done)
        if len(steps) == at:
            raise StoppedError

    with pytest.raises(StoppedError):
        build_map(pool, stop)
    if at > 1:
        assert len(PoolMap.open(pool).positions) == steps[-1]
    continued: list[int] = []
    build_map(pool, lambda done, _total: continued.append(done))
    assert continued[1] == steps[-1]
    assert files(pool) == files(whole)


@pytest.mark.parametrize("at", [thorough(1), 2, thorough(5)])
def test_a_killed_build_goes_on(pool, tmp_path, at):
    """Killed while it writes the layout or a folder of positions: the files are the same to the byte."""
    whole = small_pool(tmp_path / "whole", FakeSource(150))
    build_map(whole)
    script = (
        "import os, signal, closecall.core.selection.files as f\n"
        "from closecall.core.map import build_map\n"
        "from closecall.core.pool.pool import Pool\n"
        "from tests.unit.core.map.test_build import small_map\n"
        "small_map()\n"
        "publish, seen = f.publish_folder, []\n"
        "def deadly(temporary, path):\n"
        "    seen.append(path)\n"
        f"    if len(seen) == {at}: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    publish(temporary, path)\n"
        "f.publish_folder = deadly\n"
        f"build_map(Pool.open({str(pool.path)!r}))\n"
    )
    died = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=os.environ, check=False)
    assert died.returncode == -9
    assert list((pool.path / "map").glob("*.tmp"))
    build_map(pool)
    assert files(pool) == files(whole)


def test_the_map_grows_with_the_pool(pool):
    """Former positions keep their bits; the map that was opened before covers the first rows."""
    young = build_map(pool)
    grown = small_pool(pool.path, FakeSource(260))
    assert np.array_equal(PoolMap.open(grown).positions, young.positions)
    older = build_map(grown)
    assert older.positions.shape == (260, 2)
    assert np.array_equal(older.positions[:150], young.positions)
    assert older.digest == young.digest
    assert np.array_equal(PoolMap.open(grown).positions, older.positions)


def test_a_pool_that_has_grown_much_gets_another_map(pool, tmp_path):
    """The same map as a pool that had this size from the start."""
    build_map(pool)
    grown, direct = small_pool(pool.path, FakeSource(333)), small_pool(tmp_path / "direct", FakeSource(333))
    assert np.array_equal(build_map(grown).positions, build_map(direct).positions)
    assert sorted(path.name for path in (grown.path / "map").iterdir() if path.is_dir()) == [
        "00000000",
        "00000040",
        "00000080",
        "00000120",
        "00000160",
        "00000200",
        "00000240",
        "00000280",
        "00000320",
        "earlier",
        "layout",
    ]


def test_an_earlier_map_can_still_be_opened(pool):
    """By its digest: a log may refer to it. So can the newest."""
    build_map(pool)
    first = build_map(small_pool(pool.path, FakeSource(260)))
    second = build_map(small_pool(pool.path, FakeSource(333)))
    newest = small_pool(pool.path, FakeSource(700))
    third = build_map(newest)
    assert len({first.digest, second.digest, third.digest}) == 3
    for made in (first, second, third):
        opened = PoolMap.open(newest, made.digest)
        assert np.array_equal(opened.positions, made.positions)
        assert np.array_equal(opened.sample, made.sample)
        assert opened.digest == made.digest
    assert PoolMap.open(newest).digest == third.digest
    for other in ("", "none", "../layout", "f" * 32, "F" * 32):
        with pytest.raises(InputError, match="no longer has its map"):
            PoolMap.open(newest, other)
    damaged = next((pool.path / "map" / "earlier" / first.digest).glob("*.npy"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(InputError, match="this earlier map of the pool can't be read") as refused:
        PoolMap.open(newest, first.digest)
    assert f"{damaged.name} is damaged" in str(refused.value.__cause__)


def test_a_map_of_another_pool_is_not_kept(pool, tmp_path):
    """No log of this pool refers to it; the same holds for a map that is damaged."""
    build_map(small_pool(tmp_path / "other", FakeSource(150, seed=7)))
    shutil.copytree(tmp_path / "other" / "map", pool.path / "map")
    build_map(pool)
    assert not (pool.path / "map" / "earlier").exists()


@pytest.mark.parametrize("deleted", [0, 1, 3])
def test_a_build_that_was_killed_while_it_replaced_a_map_keeps_the_whole(
    pool, tmp_path, monkeypatch, deleted
):
    """However many of its folders were already deleted."""
    first = build_map(pool)
    newest = small_pool(pool.path, FakeSource(333))
    remove, removed = shutil.rmtree, []

    def deadly(path, *more, **named):
        if Path(path).name[0].isdigit():
            if len(removed) == deleted:
                raise StoppedError
            removed.append(path)
        remove(path, *more, **named)

    with monkeypatch.context() as patch:
        patch.setattr(building.shutil, "rmtree", deadly)
        with pytest.raises(StoppedError):
            build_map(newest)
    build_map(newest)
    assert np.array_equal(PoolMap.open(newest, first.digest).positions, first.positions)


@pytest.mark.parametrize("name", ["layout/sample.npy", "layout/index.json", "00000040/positions.npy"])
def test_a_damaged_file_is_named_and_the_map_made_again(pool, name):
    """With the same bytes; the names of arrays that replace others have their checksums."""
    build_map(pool)
    whole = files(pool)
    path = pool.path / "map" / name
    raw = bytearray(path.read_bytes())
    raw[-9] ^= 1
    path.write_bytes(raw)
    with pytest.raises(InputError, match="can't be read: make the map again") as refused:
        PoolMap.open(pool)
    assert f"{path.name} is damaged" in str(refused.value.__cause__)
    build_map(pool)
    assert sorted(files(pool).values()) == sorted(whole.values())


def test_the_map_of_another_pool_is_refused(pool, tmp_path):
    """And made again by the next build."""
    other = small_pool(tmp_path / "other", FakeSource(150, seed=7))
    build_map(other)
    shutil.copytree(other.path / "map", pool.path / "map")
    with pytest.raises(InputError, match="was made for another pool: make the map again"):
        PoolMap.open(pool)
    build_map(pool)
    assert files(pool) != files(other)
    assert len(PoolMap.open(pool).positions) == 150


def test_rows_added_by_another_pool_are_noticed(pool, tmp_path):
    """Two pools may begin with the same files and go on with others."""
    build_map(pool)
    shutil.copytree(pool.path, tmp_path / "other")
    build_map(small_pool(pool.path, FakeSource(250)))
    other = small_pool(tmp_path / "other", FakeSource(230))
    shutil.rmtree(other.path / "map")
    shutil.copytree(pool.path / "map", other.path / "map")
    with pytest.raises(InputError, match="was made for another pool: make the map again"):
        PoolMap.open(other)
    build_map(other)
    assert len(PoolMap.open(other).positions) == 230


def test_what_has_no_map_is_refused_in_a_sentence(pool, tmp_path, monkeypatch):
    """No map yet; a pool that is too small, or incomplete; another builder."""
    with pytest.raises(InputError, match=r"has no map: make one with closecall pool map"):
        PoolMap.open(pool)
    with pytest.raises(InputError, match=r"needs at least 16 items, and the pool .* has 5$"):
        build_map(build(FakeSource(5), tmp_path / "five"))
    with pytest.raises(InputError, match=r"is incomplete: finish it with closecall pool build"):
        build_map(pool.prefix(100))
    (pool.path / "map").mkdir()
    with (
        FileLock(pool.path / "map" / "build.lock"),
        pytest.raises(InputError, match="is being built by another process"),
    ):
        build_map(pool)
    build_map(pool)
