"""Figures 2 and 4 of the survey by one command: rows, tables, points and lines agree."""

from __future__ import annotations

import csv
import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from closecall.app.cli.main import main
from closecall.app.experiments.bench.similar import speed_figures
from closecall.app.experiments.bench.similar.balls import LENGTHS
from closecall.app.experiments.bench.similar.drawn import POINTS
from closecall.app.experiments.bench.similar.efforts import by_effort, by_structure, cheapest
from closecall.app.experiments.bench.similar.lines import COLUMNS
from closecall.app.experiments.bench.similar.speed_figures import (
    EMPTY,
    EXACT,
    LOOKUP,
    RETURNED,
    SCAN,
    TIME,
    WHOLE,
    lines_by_items,
    lines_by_radius,
)
from closecall.core.experiment.queries import held_out_queries
from closecall.core.hashing import RandomHyperplaneLSH
from closecall.core.hashing.pool import fit_rows
from closecall.core.pool.build import build
from tests.fakes import FakeTexts
from tests.unit.app.experiments.histograms import ten_classes

pytestmark = pytest.mark.thorough  # tests/unit/core/experiment keeps what is computed


def run(*words: object):
    return CliRunner().invoke(main, ["bench", "similar", "--what", "speed", *map(str, words)])


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    return build(ten_classes(1200, 60), tmp_path_factory.mktemp("speed") / "pool", threads=1)


@pytest.fixture(scope="module")
def measured(pool, tmp_path_factory):
    """Two draws of two sizes and two radii: output, rows, and the folder of figures, not yet drawn."""
    out = tmp_path_factory.mktemp("measured")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(speed_figures, "write_figures", lambda *_: {})
        result = run(
            *("--pool", pool.path, "--queries", 12, "--draws", 2, "--bits", 64, "--items", 300),
            *("--items", 1200, "--radius", 3, "--radius", 1, "--json", out / "rows.json"),
            *("--figures", out / "figures"),
        )
    assert result.exit_code == 0, result.output
    return result.output, json.loads((out / "rows.json").read_text()), out / "figures"


def apart(rows):
    return [row for row in rows if row["paper_figure"] == "2"], [
        row for row in rows if row["paper_figure"] == "4"
    ]


def test_balls_have_the_items_whose_codes_are_within_the_radius(pool, measured):
    """By brute force, over all items, for each code length, radius and draw."""
    _, rows, _ = measured
    _, balls = apart(rows)
    assert [(row["draw"], row["bits"], row["radius"]) for row in balls] == [
        (draw, bits, radius) for draw in (0, 1) for bits in LENGTHS for radius in (1, 3)
    ]
    queries, _ = held_out_queries(pool, 12, 3)
    every, sample = pool.rows(np.arange(len(pool))), pool.rows(fit_rows(len(pool)))
    for row in balls:
        family = RandomHyperplaneLSH(n_functions=row["bits"], random_state=row["draw"]).fit(sample)
        codes, own = (family.hash_points(X).unpacked() for X in (every, queries.X))
        inside = ((codes != own[:, None]).sum(axis=2) <= row["radius"]).sum(axis=1)
        assert row["items"] == len(pool)
        assert row["returned"] == pytest.approx(inside.mean())
        assert row["empty"] == pytest.approx((inside == 0).mean())
        assert inside.mean() <= row["compared"] <= len(pool)
        assert min(row["ms"], row["scan_ms"]) > 0


def test_figure_2_shows_times_by_items(measured):
    """Of the least effort until candidates are found, and of the cheapest that finds enough, draw by draw."""
    _, rows, _ = measured
    structures, _ = apart(rows)
    lines = {(line.panel, line.name): line for line in lines_by_items(structures)}
    for size in (300, 1200):
        for draw, values in enumerate(lines[LOOKUP, EXACT].values):
            (exact,) = {row["exact_ms"] for row in structures if (row["items"], row["draw"]) == (size, draw)}
            assert values[[300, 1200].index(size)] == exact
    assert {name for panel, name in lines if panel == LOOKUP} == {
        *(f"{name}, 64 bits" for name in ("Hamming scan", "one table", "bucket tables", "permuted orders")),
        *("Hamming scan, 30 bits", "Hamming ball, 30 bits", EXACT),
    }
    for place, size in enumerate((300, 1200)):
        own = [
            row
            for row in structures
            if (row["structure"], row["bits"], row["items"], row["candidates"]) == ("scan", 30, size, 100)
        ]
        found = lines[LOOKUP, "Hamming scan, 30 bits"].values[:, place]
        assert found.tolist() == [row["lookup_ms"] for row in own]
    scan = [row for row in structures if (row["structure"], row["bits"]) == ("scan", 64)]
    line = lines[WHOLE, "Hamming scan, 64 bits"]
    for place, size in enumerate(line.x):
        enough = {}
        for n in (100, 200, 500, 1000):
            both = [row for row in scan if (row["items"], row["candidates"]) == (size, n)]
            if both and np.mean([row["recall"] for row in both]) >= 0.8:
                enough[n] = [row["ms"] for row in both]
        assert line.values[:, place].tolist() == min(enough.values(), key=np.mean)


def test_an_effort_suffices_by_its_mean_recall():
    """Computed by hand: the slower effort is enough, the faster one is enough only in one draw."""
    rows = [
        {
            "structure": "scan",
            "bits": 30,
            "candidates": n,
            "compared": n,
            "recall": recall,
            "ms": ms,
            "exact_ms": 9.0,
        }
        for n, recall, ms in (
            (10, 0.9, 1.0),
            (20, 0.9, 2.0),
            (40, 1.0, 5.0),
            (10, 0.6, 1.0),
            (20, 0.7, 2.0),
            (40, 1.0, 3.0),
        )
    ]
    assert list(by_structure([*rows, {"structure": "faiss-flat"}])) == [("scan", 30), ("faiss-flat", None)]
    efforts = by_effort(rows)
    assert [[row["candidates"] for row in effort] for effort in efforts] == [[10, 10], [20, 20], [40, 40]]
    assert cheapest(efforts) is efforts[1]
    assert cheapest(efforts[:1]) is None


def test_tables_points_and_lines_show_the_rows(measured, monkeypatch):
    """The means over draws, in the printed table, in the file and as drawn; with Student's intervals."""
    output, rows, folder = measured
    structures, balls = apart(rows)
    assert "Hamming balls of fixed radius" in output
    assert output.count("the exact scan takes") == 2
    for bits, radius in ((8, 1), (32, 3)):
        returned = [row["returned"] for row in balls if (row["bits"], row["radius"]) == (bits, radius)]
        table = output.split("Hamming balls")[1].splitlines()
        (line,) = (words for line in table if (words := line.split())[:2] == [str(bits), str(radius)])
        assert line[4] == f"{np.mean(returned):,.1f}"
    with (folder / POINTS).open(encoding="utf-8", newline="") as file:
        points = list(csv.DictReader(file))
    assert tuple(points[0]) == COLUMNS
    lines = lines_by_items(structures) + lines_by_radius(balls)
    assert len(points) == sum(len(line.x) for line in lines)
    for point in points:
        (line,) = (one for one in lines if (one.panel, one.name) == (point["panel"], point["line"]))
        values = line.values[:, line.x.index(float(point["x"]))]
        half = stats.t.ppf(0.975, 1) * stats.sem(values)
        found = [float(point[name]) for name in ("mean", "low", "high")]
        np.testing.assert_allclose(
            found, [values.mean(), values.mean() - half, values.mean() + half], atol=1e-9
        )
    empty = [row["empty"] for row in balls if (row["bits"], row["radius"]) == (20, 3)]
    (line,) = (line for line in lines if (line.panel, line.name) == (EMPTY, "radius 3"))
    assert line.values[:, LENGTHS.index(20)].tolist() == [100 * share for share in empty]
    pictures = {}
    monkeypatch.setattr(speed_figures, "write_figures", lambda drawn, _: pictures.update(drawn))
    speed_figures.draw_speed(lines, folder)
    assert list(pictures) == ["figure-2", "figure-4"]
    for number, titles in (("2", [LOOKUP, WHOLE]), ("4", [TIME, RETURNED, EMPTY])):
        panels = pictures[f"figure-{number}"]().axes
        assert [axes.get_title("left") for axes in panels] == titles
        for axes in panels:
            own = [line for line in lines if line.panel == axes.get_title("left")]
            drawn = [line for line in axes.get_lines() if line.get_label()[0] != "_"]
            assert [line.get_label() for line in drawn] == [line.name for line in own]
            for one, line in zip(drawn, own, strict=True):
                np.testing.assert_array_equal(one.get_ydata(), line.values.mean(axis=0))
    assert {line.name for line in lines if line.panel == TIME} == {SCAN, "radius 1", "radius 3"}


def test_without_radii_and_figures_there_are_no_balls_of_fixed_radius(pool, tmp_path):
    """One size and one draw have figures, too, with the default radii."""
    file = tmp_path / "rows.json"
    words = ("--pool", pool.path, "--queries", 4, "--draws", 1, "--items", 100, "--json", file)
    assert run(*words).exit_code == 0
    assert not any("radius" in row for row in json.loads(file.read_text()))
    result = run(*words, "--figures", tmp_path / "figures")
    assert result.exit_code == 0, result.output
    assert {row.get("radius") for row in json.loads(file.read_text())} == {None, 0, 1, 2, 3, 4}
    for number in ("2", "4"):
        assert f"Figure {number}: " in (tmp_path / "figures" / f"figure-{number}.svg").read_text("utf-8")
        assert (tmp_path / "figures" / f"figure-{number}.png").stat().st_size > 0


def test_figures_that_cannot_be_drawn_are_refused_in_a_sentence(tmp_path, monkeypatch):
    """Before the pool is opened, except where only the pool tells."""
    texts = build(FakeTexts(400, held_out=range(0, 400, 5)), tmp_path / "texts", threads=1)
    nowhere = ("--pool", tmp_path / "nowhere")
    for words, message in [
        ((*nowhere, "--radius", 33), "33 is not in the range 0<=x<=32"),
        ((*nowhere, "--what", "survey", "--radius", 1), "--radius is for --what speed, not for survey"),
        ((*nowhere, "--family", "min-hash", "--radius", 1), "need codes of 1 bit per function, and those of"),
        (("--pool", texts.path, "--figures", __file__), "is a file"),
    ]:
        result = run(*words)
        assert result.exit_code == 2
        assert message in result.output.replace("\n", " ")
        assert "Traceback" not in result.output
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run(*nowhere, "--figures", tmp_path / "figures")
    assert result.exit_code == 2
    assert 'pip install "closecall[reports]"' in result.output
