"""``closecall compare features``: the same races on other features of the same items."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from scipy import stats

from closecall.app.cli.main import main
from closecall.core.pool.build import build
from tests.fakes import FakeSource

pytestmark = pytest.mark.xdist_group("compare features")

CLASSES = ("a", "b", "c")


def compared(folder, *, n_items=600, separation=1.0, seed=3, iterations=6):
    """A finished comparison of random labels and the full scan on a pool of drawn items."""
    source = FakeSource(
        n_items, 8, classes=CLASSES, held_out=range(0, n_items, 7), separation=separation, seed=1
    )
    build(source, folder / "pool")
    words = ["--runs", "1", "--iterations", str(iterations), "--first", "2", "--seed", str(seed)]
    lanes = ["--strategy", "random", "--strategy", "exhaustive", "--workers", "1"]
    out = folder / "out"
    result = CliRunner().invoke(
        main, ["compare", "--pool", str(folder / "pool"), "--out", str(out), *words, *lanes]
    )
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture(scope="module")
def weak_and_strong(tmp_path_factory):
    """Comparisons on the same items: with features that hardly separate the classes, and with others."""
    with pytest.MonkeyPatch.context() as undrawn:
        undrawn.setattr("closecall.app.experiments.compare.comparison.draw_figures", lambda *_: {})
        undrawn.setattr("closecall.app.experiments.compare.comparison.write_report", lambda *_: "unwritten")
        yield (
            compared(tmp_path_factory.mktemp("weak"), separation=0.5),
            compared(tmp_path_factory.mktemp("strong"), separation=2.0, iterations=8),
        )


def invoked(*words):
    return CliRunner().invoke(main, ["compare", "features", *map(str, words)])


def by_class(out, measure, strategy, n_labels):
    """The accuracy of each class in points, from the table of all rounds."""
    rows = pq.read_table(out / "results.parquet").to_pylist()
    chosen = [row for row in rows if row["strategy"] == strategy and row["n_labels"] == n_labels]
    return 100 * np.array([row[measure] for row in sorted(chosen, key=lambda row: row["positive"])])


def interval(values):
    mean, half = values.mean(), stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return pytest.approx({"mean": mean, "low": mean - half, "high": mean + half})


def test_differences_are_taken_race_by_race(weak_and_strong, tmp_path):
    """Student's intervals over the classes, from the stored rounds; the races begin with 6 labels."""
    weak, strong = weak_and_strong
    result = invoked(weak, strong, "--after", 8, "--after", 12, "--json", tmp_path / "features.json")
    assert result.exit_code == 0, result.output
    rows = json.loads((tmp_path / "features.json").read_text("utf-8"))["rows"]
    assert len(rows) == 2 * 2 * 2 * 2
    for row in rows:
        out = {str(weak): weak, str(strong): strong}[row["features"]]
        key = row["measure"], row["strategy"], row["labels"]
        values = by_class(out, *key)
        assert len(values) == len(CLASSES)
        assert row["value"] == interval(values)
        if row["strategy"] == "random":
            assert row["above_random"] is None
        else:
            assert row["above_random"] == interval(values - by_class(out, row["measure"], "random", key[2]))
        if out is weak:
            assert row["above_first"] is None
        else:
            assert row["above_first"] == interval(values - by_class(weak, *key))
    better = [row["above_first"]["mean"] for row in rows if row["features"] == str(strong)]
    assert min(better) > 5
    assert f"more than {weak}" in result.output
    assert "average precision" in result.output


def test_numbers_of_labels_that_a_comparison_did_not_reach_are_left_out(weak_and_strong):
    """The weak one ended after 12 labels, and both began with 6, where all strategies are equal."""
    result = invoked(*weak_and_strong, "--after", 12, "--after", 14)
    assert result.exit_code == 0, result.output
    assert {line.split()[0] for line in result.output.splitlines()[1:]} == {"12"}
    result = invoked(*weak_and_strong, "--after", 6, "--after", 14)
    assert result.exit_code == 2
    assert "no strategy in common that reached these numbers of labels" in result.output


def test_other_races_and_other_items_are_refused(weak_and_strong, tmp_path, monkeypatch):
    """They begin with other labels, so that a difference would not be one of features."""
    weak, _ = weak_and_strong
    monkeypatch.setattr("closecall.app.experiments.compare.comparison.draw_figures", lambda *_: {})
    monkeypatch.setattr("closecall.app.experiments.compare.comparison.write_report", lambda *_: "unwritten")
    result = invoked(weak, compared(tmp_path / "seed", seed=4))
    assert result.exit_code == 2
    assert "differ in seed" in result.output
    result = invoked(weak, compared(tmp_path / "items", n_items=601))
    assert result.exit_code == 2
    assert "don't have the same items and held-out items, of the same classes" in result.output


def test_one_comparison_alone_an_unfinished_one_and_none_are_refused(weak_and_strong, tmp_path):
    weak, strong = weak_and_strong
    result = invoked(weak)
    assert result.exit_code == 2
    assert "at least two comparisons" in result.output
    result = invoked(weak, tmp_path)
    assert result.exit_code == 2
    assert "there is no comparison" in result.output
    missing = strong / "units" / "class-001-run-00.parquet"
    table = missing.read_bytes()
    missing.unlink()
    try:
        result = invoked(weak, strong)
    finally:
        missing.write_bytes(table)
    assert result.exit_code == 2
    assert "is unfinished: 1 of 3 races is missing" in result.output
