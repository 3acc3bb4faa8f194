from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.projects import digits_pool

KEYS = {
    *("mode", "median_ms", "p95_ms", "answers", "retrains", "queries", "lost", "duplicated", "misplaced"),
    *("items", "labels_before", "pace_seconds", "presses", "hyperplanes"),
    *("retrain_ms", "selection_ms", "max_ms"),
}
AHEAD = {"ahead_median_ms", "ahead_p95_ms", "waited", "waited_visibly", "held_pace_seconds"}


def closecall(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "closecall.app.cli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.thorough
def test_card_and_grid_are_measured_and_their_logs_hold(tmp_path: Path) -> None:
    """A row a mode; what was given is stored once and rightly; what was shown can be replayed."""
    out, file = tmp_path / "projects", tmp_path / "ui.json"
    modes = ("--mode", "paced", "--mode", "grid")
    few = ("--answers", 8, "--labels", 12, "--pace", 0.05, "--out", out, "--json", file)
    measured = closecall("bench", "ui", "--pool", digits_pool(), *modes, *few)
    assert measured.returncode == 0, measured.stderr
    rows = json.loads(file.read_text())
    paced, grid = rows
    assert (paced["mode"], paced["presses"], paced["answers"]) == ("paced", 8, 16)
    assert (grid["mode"], grid["presses"], grid["answers"]) == ("grid", 1, 28)
    assert (set(paced), set(grid)) == (KEYS | AHEAD, KEYS)
    for row in rows:
        assert (row["lost"], row["duplicated"], row["misplaced"]) == (0, 0, 0)
        assert row["queries"] >= row["retrains"] > row["presses"]
        assert row["retrains"] >= row["hyperplanes"] >= 1
        assert 0 < row["median_ms"] <= row["p95_ms"] <= row["max_ms"]
        verified = closecall("verify", out / row["mode"])
        assert (verified.returncode, verified.stdout.splitlines()[-1]) == (0, "The log holds.")


@pytest.mark.thorough
def test_images_across_a_network_are_measured(tmp_path: Path) -> None:
    """Some are cut or refused; what is stored holds all the same."""
    file = tmp_path / "ui.json"
    few = ("--answers", 8, "--labels", 12, "--pace", 0.3, "--json", file)
    asked = ("--pool", digits_pool(), "--mode", "paced", "--network", 0.01)
    measured = closecall("bench", "ui", *asked, *few)
    assert measured.returncode == 0, measured.stderr
    (row,) = json.loads(file.read_text())
    assert set(row) == KEYS | AHEAD | {"network_seconds"}
    assert (row["network_seconds"], row["presses"], row["answers"]) == (0.01, 8, 16)
    assert (row["lost"], row["duplicated"], row["misplaced"]) == (0, 0, 0)
    assert row["items"] < 600


@pytest.mark.thorough
def test_the_map_is_made_and_watched(tmp_path: Path) -> None:
    """Frames while somebody zooms, pans and answers; the pool gets no map."""
    file = tmp_path / "map.json"
    few = ("--sample", 200, "--answers", 3, "--pace", 0.2, "--json", file)
    measured = closecall("bench", "map", "--pool", digits_pool(), *few)
    assert measured.returncode == 0, measured.stderr
    _, *rows = json.loads(file.read_text())
    assert [row["doing"] for row in rows] == ["zooming", "panning", "answering"]
    for row in rows:
        assert row["frames"] > 10
        assert 0 < row["median_ms"] <= row["p95_ms"] <= row["max_ms"]
    assert [row["changes"] > 0 for row in rows] == [False, False, True]
    assert not (digits_pool() / "map").exists()


@pytest.mark.thorough
def test_zooming_is_measured_down_to_the_photographs_own_pixels(tmp_path: Path) -> None:
    """Cold, all tiles in view come from the server; warm, none does. Half of the pixels do for the wheel."""
    file = tmp_path / "zoom.json"
    few = ("--images", 2, "--pace", 0, "--json", file)
    measured = closecall("bench", "ui", "--mode", "zoom", *few)
    assert measured.returncode == 0, measured.stderr
    rows = json.loads(file.read_text())
    ways = ("key", "wheel", "button")
    assert [(row["way"], row["state"]) for row in rows] == [(w, s) for w in ways for s in ("cold", "warm")]
    for row in rows:
        assert (row["mode"], row["megapixels"], row["looks"]) == ("zoom", 12, 2)
        assert row["level"] == (1 if row["way"] == "wheel" else 0)
        assert row["tiles"] > 1
        assert row["fetched"] == (row["tiles"] if row["state"] == "cold" else 0)
        assert 0 < row["median_ms"] <= row["p95_ms"] <= row["max_ms"]
