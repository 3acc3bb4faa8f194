from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.app.experiments.bench.team.experiment import BEFORE
from closecall.app.experiments.bench.team.inside import Look, growth
from closecall.app.projects.config import LABELS_FILE
from closecall.storage import Database, LabelLog
from tests.aside import aside
from tests.projects import digits_pool


def test_a_team_without_pages_answers_what_it_says(tmp_path):
    """Each answer that it counts is in the log, and the processor's time is shared out among its parts."""
    file, kept = tmp_path / "team.json", tmp_path / "kept"
    few = ("--annotators", 2, "--minutes", 0.02, "--pace", 0.1, "--labels", 20, "--persons", 2)
    words = map(
        str, ("bench", "team", "--pool", digits_pool(), "--in-process", *few, "--out", kept, "--json", file)
    )
    result = aside(lambda: CliRunner().invoke(main, list(words)))
    assert result.exit_code == 0, result.output
    row = json.loads(file.read_text())
    with Database.open(kept / LABELS_FILE, read_only=True) as database:
        given = [a for a in LabelLog(database).answers_after(1) if a.annotator != BEFORE]
        shown = {record.why for record in LabelLog(database).selections(1)}
    assert row["answers"] == row["looks"][-1]["answers"] == len(given) - 2 * 2  # two each before it begins
    assert row["refused"] == 0
    assert "overlap" in shown
    names = ("training", "selecting", "remembering", "drawing", "rest")
    parts = [row[f"{name}_ms_per_answer"] for name in names]
    assert sum(parts) == pytest.approx(row["cpu_ms_per_answer"])
    assert min(parts) >= 0


def test_growth_is_the_slope_of_what_came_after_the_caches_had_filled():
    """In 10⁶ bytes an hour, memories of sessions not counted; None where too little is known."""
    looks = [
        Look(minute, minute, 900.0 if minute < 15 else 100 + 4 * minute, 3.0 * minute, 2.0 * minute)
        for minute in range(61)
    ]
    found = growth(looks)
    assert found["memory_mb_per_hour"] == pytest.approx(60)
    assert found["log_mb_per_hour"] == pytest.approx(120)
    assert growth(looks[-2:])["memory_mb_per_hour"] is None
    unknown = [replace(look, log_mb=None) for look in looks]
    assert growth(unknown)["log_mb_per_hour"] is None
