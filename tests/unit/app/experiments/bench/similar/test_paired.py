"""Panels with differences to a baseline: intervals by hand, tables, points and pictures."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from closecall.app.experiments.bench.similar import paired_figures
from closecall.app.experiments.bench.similar.paired import (
    COLUMNS,
    Line,
    Panel,
    gain_in_words,
    intervals,
    show_panels,
    write_points,
)
from closecall.app.experiments.bench.similar.paired_figures import draw_panels
from closecall.app.experiments.compare.drawing import Stroke
from closecall.app.experiments.compare.statistics import Interval

BASE = Line("base", Stroke("#000000", "o"), np.array([[0.10, 0.2], [0.30, 0.3], [0.20, 0.4]]))
OTHER = Line("other", Stroke("#aa0000", "v"), np.array([[0.20, 0.2], [0.41, 0.4], [0.32, 0.3]]))
PANEL = Panel("7", "accuracy, 5 labels", "bits", [8, 16], [BASE, OTHER], "base")


def test_intervals_of_paired_differences_are_students():
    """By hand: differences of 10, 11 and 12 points have mean 11, and 4.3027 · 1/√3 to each side."""
    gain, none = PANEL.gains(OTHER)
    half = 4.302652729911275 * 0.01 / np.sqrt(3)
    assert gain.mean == pytest.approx(0.11)
    assert (gain.low, gain.high) == (pytest.approx(0.11 - half), pytest.approx(0.11 + half))
    assert none.mean == pytest.approx(0.0)
    assert [gain.is_open, none.is_open] == [False, True]
    apart = intervals(OTHER.values)[0]
    assert apart.high - apart.low > 3 * (gain.high - gain.low)  # the draws differ in more than the lines


@pytest.mark.parametrize(
    ("gain", "told"),
    [
        (Interval(0.0125, 0.0049, 0.02), "+1.2 (+0.5 to +2.0)"),
        (Interval(-0.02, -0.03, -0.01), "-2.0 (-3.0 to -1.0)"),
        (Interval(0.01, -0.01, 0.03), "+1.0 (-1.0 to +3.0) open"),
        (Interval(0.01, 0.0, 0.02), "+1.0 (+0.0 to +2.0) open"),
        (Interval(0.05, None, None), "+5.0 open"),
    ],
)
def test_a_difference_that_may_be_zero_is_called_open(gain, told):
    """Also one of a single draw, which has no interval."""
    assert gain_in_words(gain) == told


def test_tables_points_and_pictures_show_the_lines(capsys, tmp_path, monkeypatch):
    """Means and differences; without a baseline there are no differences."""
    apart = Panel("7", "share searched", "bits", [8, 16], [OTHER], None)
    show_panels([PANEL, apart])
    printed = capsys.readouterr().out
    assert "Figure 7: accuracy, 5 labels, by bits." in printed
    assert "other 31.0 ± 10.5 30.0 ± 10.0" in " ".join(printed.split())
    assert "+11.0 (+8.5 to +13.5)" in printed
    assert printed.count("Difference to base, in the same draw") == 1
    write_points([PANEL, apart], tmp_path / "points.csv")
    with (tmp_path / "points.csv").open(encoding="utf-8", newline="") as file:
        points = list(csv.DictReader(file))
    assert tuple(points[0]) == COLUMNS
    assert [(p["line"], p["x"], p["open"]) for p in points] == [
        *(("base", x, "") for x in ("8", "16")),
        *(("other", "8", "False"), ("other", "16", "True")),
        *(("other", x, "") for x in ("8", "16")),
    ]
    assert float(points[2]["mean"]) == pytest.approx(0.31)
    assert float(points[2]["gain"]) == pytest.approx(0.11)
    assert points[0]["gain"] == points[4]["gain low"] == ""
    pictures = {}
    monkeypatch.setattr(paired_figures, "write_figures", lambda drawn, _: pictures.update(drawn))
    draw_panels([PANEL, apart], {"7": "a caption"}, tmp_path)
    picture = pictures["figure-7"]()
    above, _, below, empty = picture.axes
    assert picture.get_suptitle() == "Figure 7: a caption"
    drawn = {line.get_label(): line.get_ydata() for line in above.get_lines()}
    np.testing.assert_allclose(drawn["other"], [31, 30])
    gains = {line.get_label(): line.get_ydata() for line in below.get_lines()}
    np.testing.assert_allclose(gains["_other"], [11, 0], atol=1e-9)
    whiskers = [line.get_ydata() for line in below.get_lines() if len(line.get_ydata()) == 2]
    assert any(np.allclose(ends, [8.516, 13.484], atol=1e-3) for ends in whiskers)
    assert not empty.axison


def test_figures_become_files(tmp_path):
    """As SVG and PNG, under their numbers."""
    files = draw_panels([PANEL], {"7": "a caption"}, tmp_path)
    assert files == {"figure-7": tmp_path / "figure-7.svg"}
    assert "Figure 7: a caption" in files["figure-7"].read_text("utf-8")
    assert (tmp_path / "figure-7.png").stat().st_size > 0
