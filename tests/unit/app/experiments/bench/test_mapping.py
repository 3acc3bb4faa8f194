"""``closecall bench map`` without a browser; `tests/browser/test_bench_ui.py` has one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.manifold import trustworthiness

import closecall.core.map.layout as laying_out
from closecall.app.cli.main import main
from closecall.core.map import PoolMap, build_map
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from tests.fakes import FakeSource


@pytest.fixture
def pool(tmp_path, monkeypatch) -> Pool:
    """In place of UMAP, which compiles for seconds, the first two components."""
    monkeypatch.setattr(
        laying_out, "umap_positions", lambda sample, *, seed: sample[:, :2] + np.float32(seed)
    )
    monkeypatch.setattr("closecall.core.map.build.SAMPLE", 100)
    monkeypatch.setattr("closecall.core.map.build.BLOCK", 128)
    return build(FakeSource(400, 8), tmp_path / "pool")


def run(*words: object):
    return CliRunner().invoke(main, ["bench", "map", *map(str, words)])


def test_trustworthiness_is_that_of_the_map(tmp_path, pool):
    """Of all items, or of a sample; the pool has no map afterwards, and keeps one that it has."""
    file = tmp_path / "map.json"
    asked = ("--pool", pool.path, "--answers", 0, "--neighbours", 5, "--json", file)
    done = run(*asked)
    assert done.exit_code == 0, done.output
    (row,) = json.loads(file.read_text())
    assert (row["items"], row["laid_out"], row["compared"], row["neighbours"]) == (
        len(pool),
        100,
        len(pool),
        5,
    )
    assert row["fit_seconds"] > 0
    assert row["place_seconds"] > 0
    assert not (pool.path / "map").exists()
    positions = build_map(pool).positions
    X = pool.rows(np.arange(len(pool)))
    assert row["trustworthiness"] == pytest.approx(trustworthiness(X, positions, n_neighbors=5))
    before = {path: path.stat().st_mtime_ns for path in pool.path.rglob("*")}
    assert run(*asked, "--sample", 50).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in pool.path.rglob("*")} == before
    assert json.loads(file.read_text())[0]["compared"] == 50
    kept = tmp_path / "kept"
    assert run(*asked, "--out", kept).exit_code == 0
    assert np.array_equal(PoolMap.open(Pool.open(kept / "pool")).positions, positions)
    assert "--out must be a new folder" in run(*asked, "--out", kept).stderr
    assert f"Trustworthiness {row['trustworthiness']:.3f}, of {len(pool)} items" in done.output


def test_too_many_neighbours_are_one_sentence(pool):
    """Before the map is made."""
    refused = run("--pool", pool.path, "--answers", 0, "--sample", 20, "--neighbours", 10)
    assert refused.exit_code == 2
    assert refused.stderr.strip() == (
        "Error: --neighbours must be less than half of the items compared, 20, got 10"
    )
