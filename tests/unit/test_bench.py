from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from app.bench import bench
from core.build import build
from core.experiment.planes import one_vs_all
from core.experiment.rank import median_rank_of_best, rank_of
from core.geometry import Hyperplane
from tests.fakes import FakeSource

SELECT_KEYS = {
    "strategy",
    "items",
    "threads",
    "queries",
    "median_ms",
    "p95_ms",
    "margin_median",
    "rank_median",
    "scored_median",
    "ratio_to_exhaustive",
}
BUILD_KEYS = {"images_per_second", "items", "seconds", "peak_memory_mb"}


@pytest.fixture
def pool(tmp_path):
    source = FakeSource(900, 8, classes=("a", "b", "c"), held_out=range(0, 900, 9), lean=2.0)
    return build(source, tmp_path / "pool")


def run(*words: object):
    return CliRunner().invoke(bench, [str(word) for word in words])


def test_select_writes_a_row_for_each_strategy(pool, tmp_path):
    """`bench select` gives a row a strategy with the promised keys, both full scans always among them."""
    file = tmp_path / "select.json"
    result = run(
        "select",
        "--pool",
        pool.path,
        "--json",
        file,
        "--queries",
        4,
        "--strategies",
        "random,h-hash:tables,h-hash:orders",
    )
    assert result.exit_code == 0, result.output
    rows = {row["strategy"]: row for row in json.loads(file.read_text())}
    assert set(rows) == {"exhaustive", "random", "h-hash", "h-hash:orders", "blas-scan"}
    for name, row in rows.items():
        assert set(row) >= SELECT_KEYS
        assert row["items"] == len(pool)
        assert row["queries"] == 4
        assert row["threads"] == 1
        assert 0 <= row["median_ms"] <= row["p95_ms"]
        assert name.partition(":")[0] in result.output
    assert rows["exhaustive"]["ratio_to_exhaustive"] == 1
    assert rows["h-hash"]["structure"] == "tables"
    assert rows["h-hash:orders"]["structure"] == "orders"


def test_full_scans_have_rank_0(pool, tmp_path):
    """What scores every item selects the nearest, and scores as many items as the pool has."""
    file = tmp_path / "select.json"
    run("select", "--pool", pool.path, "--json", file, "--queries", 6, "--strategies", "exhaustive")
    for row in json.loads(file.read_text()):
        assert row["rank_median"] == 0
        assert row["scored_median"] == len(pool)


def test_select_by_default_takes_every_strategy(pool, tmp_path):
    """Without --strategies all of them take part, hashing with both structures, under names of their own."""
    file = tmp_path / "select.json"
    result = run("select", "--pool", pool.path, "--json", file, "--queries", 2)
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text())
    hashing = ("h-hash", "eh-hash", "bh-hash")
    hashed = {(name, structure) for name in hashing for structure in ("orders", "tables")}
    others = {(name, None) for name in ("random", "subsample", "exhaustive", "blas-scan")}
    assert {(row["strategy"].partition(":")[0], row["structure"]) for row in rows} == hashed | others
    assert len({row["strategy"] for row in rows}) == len(rows) == 10


@pytest.mark.parametrize("name", ["nearest", "h-hash:trees", "random:tables"])
def test_select_refuses_unknown_strategies(pool, name):
    """A strategy that does not exist is one sentence and exit code 2."""
    result = run("select", "--pool", pool.path, "--strategies", name)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert name.split(":")[0] in result.stderr


def test_select_needs_truth(tmp_path):
    """Without known classes there is nothing to train on, and it says so."""
    unknown = build(FakeSource(50, 4, classes=()), tmp_path / "pool")
    result = run("select", "--pool", unknown.path)
    assert result.exit_code == 2
    assert "at least two classes with 5 items of known truth" in result.stderr


def test_build_measures_and_cleans_up(tmp_path, monkeypatch):
    """`bench build` gives one JSON object with the promised keys and leaves nothing behind."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    file = tmp_path / "build.json"
    result = run("build", "--json", file, "--items", 300)
    assert result.exit_code == 0, result.output
    found = json.loads(file.read_text())
    assert set(found) >= BUILD_KEYS
    assert found["items"] >= 300
    assert found["images_per_second"] == pytest.approx(found["items"] / found["seconds"])
    assert list(tmp_path.iterdir()) == [file]


def test_build_keeps_the_pool_where_asked(tmp_path):
    """With --out the pool stays; a folder that holds something is refused and left alone."""
    out = tmp_path / "pool"
    assert run("build", "--items", 100, "--out", out).exit_code == 0
    before = sorted(path.name for path in out.iterdir())
    again = run("build", "--items", 100, "--out", out)
    assert again.exit_code == 2
    assert f"--out must be a new or an empty folder, got {out}" in again.stderr
    assert sorted(path.name for path in out.iterdir()) == before


def test_rank_is_that_of_brute_force(pool):
    """Rank counts the items strictly nearer in float64; excluded ones do not count."""
    plane = Hyperplane(np.random.default_rng(0).standard_normal(pool.n_features), 0.1)
    margins = np.abs(plane.scores(pool.rows_of(pool.ids)))
    nearest_first = pool.ids[np.argsort(margins)]
    for rank in (0, 1, 10, len(pool) - 1):
        assert rank_of(pool, plane, nearest_first[rank]) == rank
    assert rank_of(pool, plane, nearest_first[10], exclude=nearest_first[2:7]) == 5


def test_rank_of_equals_is_0(tmp_path):
    """Items just as near do not count as nearer."""
    twins = build(FakeSource(64, 3, separation=0.0), tmp_path / "pool")
    plane = Hyperplane(np.zeros(3), 1.0)
    assert {rank_of(twins, plane, item) for item in twins.ids} == {0}


def test_median_rank_of_best_of_random_items():
    """The formula agrees with drawing at random (the median of 4,000 draws, to 10 %)."""
    rng = np.random.default_rng(0)
    best = [rng.choice(100_000, 50, replace=False).min() for _ in range(4000)]
    assert median_rank_of_best(50, 100_000) == pytest.approx(np.median(best), rel=0.1)


def test_planes_are_those_of_the_paper(pool):
    """Each hyperplane is trained on as many labels of every class, those of one class being a yes."""
    planes = one_vs_all(pool, 7, labels_per_class=4, seed=3)
    assert len(planes) == 7
    for plane in planes:
        truth = pool.truth(plane.labeled)
        assert np.bincount(truth).tolist() == [4, 4, 4]
        scores = plane.hyperplane.scores(pool.rows_of(plane.labeled))
        assert scores[truth == plane.positive].mean() > scores[truth != plane.positive].mean()
    assert [plane.positive for plane in planes[:3]] != [0, 0, 0]
    assert {plane.positive for plane in planes} == {0, 1, 2}
    again = one_vs_all(pool, 7, labels_per_class=4, seed=3)
    assert [p.hyperplane.digest for p in again] == [p.hyperplane.digest for p in planes]
