from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.app.experiments.bench import serving
from closecall.app.experiments.bench.team.measure import ServedTeam
from tests.aside import aside
from tests.projects import digits_pool


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_cpu_time_that_the_system_does_not_report_stays_unknown(tmp_path, monkeypatch, end):
    """It does not become zero when the server ends, and the sum over later starts is unknown, too."""
    reported = [1.5, None, 2.0]
    monkeypatch.setattr(serving, "_cpu_seconds", lambda _: reported.pop(0))
    server, found = serving.Server(tmp_path), []
    for _ in reported.copy():
        words = [sys.executable, "-c", "import time; time.sleep(60)"]
        server._process = subprocess.Popen(words, start_new_session=True)
        getattr(server, end)()
        found.append(server.cpu_seconds)
    assert found == [1.5, None, None]


def test_an_unknown_cpu_time_is_called_unknown(capsys):
    """Not zero, and not left out."""
    counts = ("annotators", "items", "labels_before", "answers", "lost", "duplicated", "misplaced", "refused")
    others = ("given_twice", "left", "kills", "seconds", "pace_seconds", "labels_per_second")
    row = dict.fromkeys((*counts, *others), 0) | {"database": "sqlite", "p95_ms": None, "troubles": {}}
    for cpu, said in ((None, "the CPU time of the server is unknown."), (3.2, "each took 3 ms of CPU time")):
        ServedTeam.show(None, [row | {"cpu_ms_per_answer": cpu}])
        assert said in capsys.readouterr().out
    known = {"cpu_ms_per_answer": 30.0, "computing_ms_per_answer": 12.0, "shed_share": 0.25}
    ServedTeam.show(None, [row | known])
    printed = capsys.readouterr().out
    assert "30 ms of CPU time on the server, 12 ms of it for training, selecting and measuring." in printed
    assert "25 % of the items that may follow were not looked for." in printed


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--positive", "x"), "positive must be one of the pool's classes .*, got 'x'"),
        (("--annotators", 2, "--leave", 3), "leave must be at most 2, all annotators, got 3"),
        (("--servers", 2), "2 servers need a PostgreSQL database: name it with --database"),
        (("--out", "{there}"), "--out must name a new folder, but .* exists already"),
        (("--database", "somewhere"), "Give the address of the database for labels, .*"),
    ],
)
def test_what_can_not_be_measured_gets_one_sentence(tmp_path, words, sentence):
    """Before a server is started."""
    words = [str(word).format(there=tmp_path) for word in words]
    result = CliRunner().invoke(main, ["bench", "team", "--pool", str(digits_pool()), *words])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert re.search(sentence, result.stderr)


@pytest.mark.thorough
@pytest.mark.slow
def test_a_small_team_loses_nothing_though_its_server_is_killed_and_requests_meet_trouble(tmp_path):
    """Three people for some seconds, one of whom leaves; what each did is in the log, once, and it holds."""
    file = tmp_path / "team.json"
    few = ("--annotators", 3, "--minutes", 0.1, "--pace", 0.3, "--leave", 1, "--kills", 1, "--trouble", 0.2)
    words = map(
        str, ("bench", "team", "--pool", digits_pool(), *few, "--out", tmp_path / "kept", "--json", file)
    )
    result = aside(lambda: CliRunner().invoke(main, list(words)))
    assert result.exit_code == 0, result.output
    row = json.loads(file.read_text())
    assert row["answers"] >= 3
    wrong = ("lost", "duplicated", "misplaced", "given_twice", "refused")
    assert {name: row[name] for name in wrong} == dict.fromkeys(wrong, 0)
    assert (row["annotators"], row["left"], row["kills"], row["database"]) == (3, 1, 1, "sqlite")
    assert 0 < sum(row["troubles"].values()) < row["requests"]
    assert row["verify"]["problems"] == []
    assert row["verify"]["answers"] == row["answers"]
    assert 0 <= row["p50_ms"] <= row["p95_ms"]
    assert "The log holds." in result.output
    assert Path(tmp_path / "kept" / "server.log").exists()
