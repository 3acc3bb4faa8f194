"""``closecall compare until``: labels until a target, from finished comparisons."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.svm import LinearSVC

from closecall.app.cli.main import main
from closecall.app.experiments.compare.until.report import performance_profile
from closecall.core.linear.svm import DEFAULT_C
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.simulation.race import Course, Race
from tests.fakes import FakeSource

pytestmark = pytest.mark.xdist_group("compare until")

FIRST, ROUNDS = 2, 60


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A finished comparison: three classes, two races of each, of random labels and the full scan."""
    folder = tmp_path_factory.mktemp("until")
    source = FakeSource(900, 8, classes=("a", "b", "c"), held_out=range(0, 900, 4), separation=1.5)
    build(source, folder / "pool")
    words = ["--runs", "2", "--iterations", str(ROUNDS), "--first", str(FIRST), "--workers", "1"]
    lanes = ["--strategy", "random", "--strategy", "exhaustive"]
    with pytest.MonkeyPatch.context() as undrawn:
        undrawn.setattr("closecall.app.experiments.compare.comparison.draw_figures", lambda *_: {})
        undrawn.setattr("closecall.app.experiments.compare.comparison.write_report", lambda *_: "unwritten")
        result = CliRunner().invoke(
            main,
            ["compare", "--pool", str(folder / "pool"), "--out", str(folder / "out"), *words, *lanes],
        )
    assert result.exit_code == 0, result.output
    return folder / "out"


def invoked(*words):
    return CliRunner().invoke(main, ["compare", "until", *map(str, words)])


def rows_of(out, path, *words):
    result = invoked(out, "--json", path, *words)
    assert result.exit_code == 0, result.output
    return json.loads(path.read_text("utf-8"))["rows"], result.output


def races(out, strategy):
    """The rounds of each race, by class and run."""
    found: dict[tuple[int, int], list[dict]] = {}
    for row in pq.read_table(out / "results.parquet").to_pylist():
        if row["strategy"] == strategy:
            found.setdefault((row["positive"], row["run"]), []).append(row)
    return found


def first_labels(rounds, is_reached):
    return next((row["n_labels"] for row in rounds if is_reached(row)), np.inf)


def test_targets_are_reached_where_the_rounds_say_so(out, tmp_path):
    """The goals by scikit-learn's own classifier of all labels, the rounds by hand."""
    rows, _ = rows_of(out, tmp_path / "until.json")
    pool = Pool.open(out.parent / "pool")
    X, held_out = pool.rows(np.arange(len(pool))), pool.held_out
    full = {}
    for positive in range(3):
        svm = LinearSVC(C=DEFAULT_C, loss="hinge", max_iter=20_000, random_state=0)
        scores = svm.fit(X, pool.truth(pool.ids) == positive).decision_function(held_out.X)
        y = held_out.truth == positive
        full[positive] = {
            "auroc": roc_auc_score(y, scores),
            "average_precision": average_precision_score(y, scores),
        }
    by_key = {(row["target"], row["strategy"]): row for row in rows}
    assert len(by_key) == 6 * 2
    for strategy in ("random", "exhaustive"):
        for measure, share in [("auroc", 95), ("auroc", 99), ("average_precision", 95)]:
            waits = [
                first_labels(
                    rounds, lambda row, m=measure, s=share, c=positive: row[m] >= s / 100 * full[c][m] - 1e-7
                )
                for (positive, _), rounds in races(out, strategy).items()
            ]
            row = by_key[f"{measure.replace('_', '-')}-{share}", strategy]
            assert row["reached"] == pytest.approx(np.isfinite(waits).mean())
            assert row["median"] == (np.median(waits) if np.isfinite(np.median(waits)) else None)
        waits = [
            first_labels(rounds, lambda row: row["recall"] >= 0.9) for rounds in races(out, strategy).values()
        ]
        assert by_key["recall", strategy]["reached"] == pytest.approx(np.isfinite(waits).mean())


def test_full_supervision_is_printed(out, tmp_path):
    """So that targets can be checked: the values of the file, for each class, and in JSON, too."""
    path = tmp_path / "until.json"
    _, output = rows_of(out, path)
    full = json.loads((out / "full-supervision.json").read_text("utf-8"))
    (stored,) = json.loads(path.read_text("utf-8"))["full_supervision"].values()
    lines = [line.split() for line in output.splitlines()]
    for key, name in enumerate("abc"):
        own = full[str(key)]
        assert [name, *(f"{own[what]:.4f}" for what in ("auroc", "average_precision", "recall"))] in lines
        assert stored[key] == {"class": name, "run": None, **own}


def test_positives_count_from_the_beginning(out, tmp_path):
    """Every race begins with two; the target asks for fifty."""
    rows, output = rows_of(out, tmp_path / "until.json")
    waits = []
    for rounds in races(out, "exhaustive").values():
        found = FIRST + np.cumsum([bool(row["answer"]) for row in rounds])
        waits.append(rounds[int(np.argmax(found >= 50))]["n_labels"] if found[-1] >= 50 else np.inf)
    row = next(row for row in rows if (row["target"], row["strategy"]) == ("positives", "exhaustive"))
    assert row["reached"] == pytest.approx(np.isfinite(waits).mean())
    assert "positives" in output


def test_ratios_are_those_of_pairs(out, tmp_path):
    """Without censored races, the median of the ratios race by race."""
    rows, _ = rows_of(out, tmp_path / "until.json", "--base", "exhaustive")
    assert all((row["ratio"] is None) == (row["strategy"] == "exhaustive") for row in rows)
    row = next(row for row in rows if (row["target"], row["strategy"]) == ("auroc-95", "random"))
    full = json.loads((out / "full-supervision.json").read_text("utf-8"))
    goal = {int(positive): 0.95 * own["auroc"] for positive, own in full.items()}
    ratios = []
    own, base = races(out, "random"), races(out, "exhaustive")
    for key, rounds in own.items():
        times = [
            first_labels(one, lambda row, c=key[0]: row["auroc"] >= goal[c]) for one in (rounds, base[key])
        ]
        ratios.append(times[0] / times[1])
    assert np.isfinite(ratios).all()
    assert row["ratio"]["least"] == row["ratio"]["most"] == pytest.approx(np.median(ratios))
    assert row["ratio"]["low"] <= row["ratio"]["least"] <= row["ratio"]["high"]


def test_the_races_of_several_comparisons_are_taken_together(out, tmp_path):
    """A comparison and its copy have the median of either; with one comparison there is nothing to join."""
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    alone, _ = rows_of(out, tmp_path / "alone.json")
    result = invoked(out, copy, "--json", tmp_path / "both.json")
    assert result.exit_code == 0, result.output
    assert "All races of the 2 comparisons together, share of random’s labels" in result.output
    both = json.loads((tmp_path / "both.json").read_text("utf-8"))
    assert json.loads((tmp_path / "alone.json").read_text("utf-8"))["together"] == []
    expected = {row["target"]: row["ratio"] for row in alone if row["strategy"] == "exhaustive"}
    assert {row["strategy"] for row in both["together"]} == {"exhaustive"}
    for row in both["together"]:
        assert (row["ratio"]["least"], row["ratio"]["most"]) == (
            expected[row["target"]]["least"],
            expected[row["target"]]["most"],
        )


def test_full_supervision_of_a_rarer_question_has_its_positives(out, tmp_path, monkeypatch):
    """Each race has positives of its own, and an accuracy of its own; hidden items are left out."""
    monkeypatch.setattr("closecall.app.experiments.compare.comparison.draw_figures", lambda *_: {})
    monkeypatch.setattr("closecall.app.experiments.compare.comparison.write_report", lambda *_: "unwritten")
    pool = Pool.open(out.parent / "pool")
    words = ["--runs", "2", "--iterations", "5", "--first", "2", "--workers", "1", "--classes", "b"]
    rare = ["--prevalence", "0.05", "--strategy", "random"]
    result = CliRunner().invoke(
        main, ["compare", "--pool", str(pool.path), "--out", str(tmp_path / "rare"), *words, *rare]
    )
    assert result.exit_code == 0, result.output
    _, output = rows_of(tmp_path / "rare", tmp_path / "until.json")
    assert "b, run 1" in output
    assert "b, run 2" in output
    full = json.loads((tmp_path / "rare" / "full-supervision.json").read_text("utf-8"))
    assert set(full) == {"1 0", "1 1"}
    y, X = pool.held_out.truth == 1, pool.held_out.X
    for number in (0, 1):
        race = Race(pool, {}, Course(positive=1, run=number, n_first=2, prevalence=0.05))
        ids = np.setdiff1d(pool.ids, race.hidden)
        svm = LinearSVC(C=DEFAULT_C, loss="hinge", max_iter=20_000, random_state=0)
        scores = svm.fit(pool.rows_of(ids), pool.truth(ids) == 1).decision_function(X)
        assert full[f"1 {number}"]["auroc"] == pytest.approx(roc_auc_score(y, scores), abs=1e-3)


def test_seconds_count_labels_and_selections(out, tmp_path):
    """With a thousand seconds a label, selections hardly count."""
    labels, _ = rows_of(out, tmp_path / "labels.json")
    seconds, output = rows_of(out, tmp_path / "seconds.json", "--label-seconds", "1000")
    assert "seconds until a target" in output
    for one, other in zip(labels, seconds, strict=True):
        assert one["reached"] == other["reached"]
        if one["median"] is not None:
            assert other["median"] == pytest.approx(1000 * one["median"], rel=1e-2)


def test_the_profile_counts_who_is_close_to_the_best():
    rows = [
        {"comparison": "x", "target": target, "strategy": name, "median": median}
        for target, medians in {
            "one": {"random": 100, "margin": 50},
            "two": {"random": 60, "margin": 80},
            "three": {"random": None, "margin": None},
        }.items()
        for name, median in medians.items()
    ]
    found = performance_profile(rows)
    assert found["random"] == [0.5, 0.5, 0.5, 1.0, 1.0]
    assert found["margin"] == [0.5, 0.5, 1.0, 1.0, 1.0]


def test_full_supervision_is_computed_once_and_a_damaged_file_is_refused(out, tmp_path, monkeypatch):
    rows_of(out, tmp_path / "first.json")
    monkeypatch.setattr("sklearn.svm.LinearSVC.fit", lambda *_: pytest.fail("it is known already"))
    rows_of(out, tmp_path / "second.json")
    known = (out / "full-supervision.json").read_bytes()
    try:
        (out / "full-supervision.json").write_bytes(known[:40])
        result = invoked(out)
    finally:
        (out / "full-supervision.json").write_bytes(known)
    assert result.exit_code == 2
    assert "is damaged: delete it" in result.output


def test_a_baseline_that_took_no_part_is_refused(out):
    result = invoked(out, "--base", "margin-index")
    assert result.exit_code == 2
    assert "no margin-index that ran to the end" in result.output
