"""The command that compares tables with their guarantee."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from closecall.app.cli.main import main
from closecall.app.experiments.bench.statistics import share_over_draws
from closecall.core.pool.build import build
from closecall.core.sources import source_from


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("guarantee") / "pool"
    build(source_from("digits:800"), path)
    return path


def test_a_line_says_what_is_needed_built_and_found(folder, tmp_path):
    """For each family and radius; JSON has the same, and what no query meets has no rate."""
    file = tmp_path / "rows.json"
    words = ["--radius", "0.01", "--radius", "40", "--queries", "12", "--draws", "2", "--megabytes", "5"]
    families = ["--family", "h-hash", "--family", "lsh"]
    result = CliRunner().invoke(
        main, ["bench", "guarantee", "--pool", str(folder), *words, *families, "--json", str(file)]
    )
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text())
    assert [(row["family"], row["radius_degrees"]) for row in rows] == [
        (name, radius) for name in ("h-hash", "lsh") for radius in (0.01, 40)
    ]
    for none, many in (rows[:2], rows[2:]):
        assert (none["queries_within"], none["success"], none["nearest_expected"]) == (0, None, None)
        assert many["queries_within"] > 0
        assert 0 <= many["success_low"] <= many["success"] <= many["success_high"] <= 1
        assert many["success_high"] >= many["guarantee"]
        assert 0 < many["rho"] < 1
        assert many["tables"] <= many["tables_needed"]
        assert many["bytes"] <= 6e6
        assert many["functions"] == many["tables"] * many["width"]
    text = " ".join(result.output.split())
    assert "12 hyperplanes, the nearest item at" in text
    assert "12 held-out items, the nearest item at" in text
    assert "l needed: tables that a guarantee of at least 63 % takes" in text


@pytest.mark.parametrize(
    ("family", "label", "epsilon", "most"), [("h-hash", "H-Hash", 1, 90), ("lsh", "LSH", 2.5, 180)]
)
def test_a_radius_out_of_range_is_refused_before_any_work(folder, family, label, epsilon, most):
    """In degrees, as it was given: not only after the radii before it were measured."""
    words = ["--family", family, "--radius", "30", "--radius", "60", "--epsilon", str(epsilon)]
    result = CliRunner().invoke(main, ["bench", "guarantee", "--pool", str(folder), *words])
    assert result.exit_code == 2
    assert result.output == (
        f"Error: --radius r and --epsilon ε must satisfy 0 < r < (1 + ε) r < {most}° for {label}, "
        f"got r = 60° and ε = {epsilon:g}\n"
    )


def test_the_interval_is_the_wider_one():
    """Over draws if these differ more than trials would, else over trials."""
    alike = np.tile([True, True, True, False], (4, 1))
    plain = stats.binomtest(12, 16).proportion_ci(0.95, method="exact")
    assert share_over_draws(alike) == pytest.approx((0.75, plain.low, plain.high))
    apart = np.repeat([[True], [False], [True], [True], [False]], 200, axis=1)
    share, low, high = share_over_draws(apart)
    half = stats.t.ppf(0.975, 4) * np.std([1, 0, 1, 1, 0], ddof=1) / np.sqrt(5)
    assert (share, low, high) == pytest.approx((0.6, max(0, 0.6 - half), min(1, 0.6 + half)))
    assert share_over_draws(np.zeros((3, 0), dtype=bool)) == (None, None, None)
    assert share_over_draws(np.ones((1, 5), dtype=bool))[2] == 1.0
