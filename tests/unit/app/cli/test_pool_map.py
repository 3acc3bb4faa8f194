from __future__ import annotations

import shutil
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import closecall.core.map.layout as laying_out
from closecall.app.cli.main import main
from closecall.core.map import PoolMap
from closecall.core.pool.pool import Pool
from tests.projects import digits_pool


@pytest.fixture
def pool(tmp_path, monkeypatch) -> Pool:
    """A pool of digits, and in place of UMAP, which compiles for seconds, the first two components."""
    monkeypatch.setattr(
        laying_out, "umap_positions", lambda sample, *, seed: sample[:, :2] + np.float32(seed)
    )
    shutil.copytree(digits_pool(), tmp_path / "pool")
    return Pool.open(tmp_path / "pool")


def test_a_map_is_made_by_the_command(pool):
    """It says how many items are on the map, and the pool is whole as before."""
    result = CliRunner().invoke(main, ["pool", "map", str(pool.path)])
    assert result.exit_code == 0, result.output
    n = f"{len(pool):,}"
    assert f"{n} items on the map, {n} of them by UMAP." in result.output
    assert PoolMap.open(pool).positions.shape == (len(pool), 2)
    checked = CliRunner().invoke(main, ["pool", "info", str(pool.path), "--check"])
    assert "all files are whole" in checked.output


def test_a_quiet_command_prints_nothing(pool):
    result = CliRunner().invoke(main, ["pool", "map", "--quiet", str(pool.path)])
    assert (result.exit_code, result.output) == (0, "")
    assert len(PoolMap.open(pool).positions) == len(pool)


def test_what_can_be_mended_is_one_sentence(tmp_path, pool, monkeypatch):
    """No pool there, or no UMAP."""
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "umap", None)
    for path, words in [(tmp_path / "nowhere", "There is no pool at"), (pool.path, "closecall[map]")]:
        result = CliRunner().invoke(main, ["pool", "map", str(path)])
        assert result.exit_code == 2
        assert len(result.stderr.strip().splitlines()) == 1
        assert words in result.stderr


def test_a_stopped_command_says_that_it_goes_on(pool, monkeypatch):
    """Ctrl+C keeps what was placed."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("closecall.core.map.layout.Layout.place", stop)
    result = CliRunner().invoke(main, ["pool", "map", "--quiet", str(pool.path)])
    assert result.exit_code == 130
    assert "the same command continues from there" in result.stderr
