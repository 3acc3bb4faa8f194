from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.app.experiments.bench.audit import row_of
from closecall.app.experiments.bench.stopping import summary
from closecall.core.audit import Audited, Interval
from closecall.core.experiment.auditing import MEASURES, AuditedSession
from closecall.core.experiment.stopping import AdvisedSession
from closecall.core.pool.build import build
from tests.fakes import FakeSource


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    source = FakeSource(2000, 8, classes=("a", "b", "c"), held_out=range(0, 2000, 8), lean=1.0)
    return build(source, tmp_path_factory.mktemp("bench-audit") / "pool")


def run(*words):
    return CliRunner().invoke(main, ["bench", *map(str, words)])


def audited(low, high):
    interval = Interval((low + high) / 2, low, high)
    return Audited(interval, interval, interval, interval, 10, 5)


def session(low, high, truth):
    truths = dict.fromkeys(MEASURES, truth)
    return AuditedSession(audited(low, high), audited(0, 1), truths, 1, 0)


def test_intervals_are_counted():
    """Held, settled, bias and width are what they are called; a share of nothing is held and has no bias."""
    row = row_of([session(0.2, 0.6, 0.5), session(0.2, 0.6, 0.7), session(0.8, 1.0, 1.0)], "recall")
    assert (row["held"], row["settled"], row["plain_held"]) == (2, 1, 3)
    assert row["truth"] == pytest.approx((0.5 + 0.7 + 1) / 3)
    assert row["bias"] == pytest.approx((-0.1 - 0.3 - 0.1) / 3)
    assert (row["width"], row["plain_width"]) == (pytest.approx(1 / 3), 1)
    nothing = row_of([session(0, 1, float("nan"))], "precision")
    assert (nothing["held"], nothing["bias"], nothing["truth"]) == (1, None, None)


def test_the_band_is_that_of_200_coins():
    """Of 200 intervals of 95 %, 181 to 197 hold 99 times of 100."""
    row = row_of([session(0, 1, 0.5)] * 200, "recall")
    assert (row["band_low"], row["band_high"]) == (181, 197)


def test_sessions_that_never_stopped_lose_and_save_nothing():
    """They count in every mean."""
    stopped = AdvisedSession(0, (100, 200, 400), (0.9, 0.95, 0.97), 1, "", (0.4, 0.2), (0.1, 0.3))
    never = AdvisedSession(1, (100, 200, 400), (0.6, 0.7, 0.8), None, "", (0.1,), (0.0,))
    told = summary([stopped, never])
    assert told["stopped"] == 1
    assert (told["lost_mean"], told["lost_max"]) == (pytest.approx(1), pytest.approx(2))
    assert (told["saved_median"], told["saved_share"]) == (100, 200 / 800)
    assert (told["bounds"], told["bounds_held"]) == (3, 2)
    assert told["bound_ratio"] == pytest.approx((4 + 2 / 3) / 2)


def test_bench_audit_tells_and_writes(pool, tmp_path):
    """One row a measure and prevalence, in words and as JSON."""
    file = tmp_path / "audit.json"
    words = ["--sessions", 2, "--items", 500, "--labels", 30, "--audited", 40, "--prevalence", 0.1]
    result = run("audit", "--pool", pool.path, *words, "--prevalence", 0.05, "--json", file)
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text())
    assert [(row["prevalence"], row["measure"]) for row in rows] == [
        (p, m) for p in (0.1, 0.05) for m in MEASURES
    ]
    assert {row["sessions"] for row in rows} == {2}
    assert f"recall: {rows[1]['held']} of 2 intervals hold the truth" in result.output


def test_bench_stopping_tells_and_writes(pool, tmp_path):
    """One row a pool, with every session's course."""
    file = tmp_path / "stopping.json"
    words = ["--sessions", 2, "--items", 500, "--labels", 100, "--enough", 0.2, "--json", file]
    result = run("stopping", "--pool", pool.path, "--pool", pool.path, *words)
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text())
    assert len(rows) == 2
    assert rows[0] == rows[1]
    assert rows[0]["enough"] == 0.2
    for one in rows[0]["each"]:
        assert one["saved"] == 100 - one["stop"]
        assert one["lost"] == pytest.approx(
            100 * (one["auroc"][-1] - one["auroc"][one["labels"].index(one["stop"])])
        )
    assert "% of the labels are saved" in result.output


def test_bad_input_is_one_sentence(pool):
    """With exit code 2."""
    for words in (["audit", "--items", 1900], ["stopping", "--items", 200, "--labels", 300]):
        result = run(*words, "--pool", pool.path)
        assert result.exit_code == 2
        assert len(result.stderr.strip().splitlines()) == 1
