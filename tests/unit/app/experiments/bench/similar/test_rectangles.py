"""Figures 12 to 14 of the survey by one command, without a pool: rows, tables, points and pictures agree."""

from __future__ import annotations

import csv
import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from closecall.app.cli.main import main
from closecall.app.experiments.bench.similar import rectangle_figures, rectangles
from closecall.app.experiments.bench.similar.drawn import POINTS
from closecall.app.experiments.bench.similar.rectangle_figures import BALLS, BITS, QUERY, lines_of
from closecall.core.experiment.rectangles import METHODS, ON_SPECTRAL, TEN_DIMENSIONS, Box, Method

pytestmark = pytest.mark.thorough  # tests/unit/core/experiment keeps what is computed

N_POINTS, K = 300, 10


def run(*words: object):
    return CliRunner().invoke(main, ["bench", "similar", "--what", "rectangles", *map(str, words)])


@pytest.fixture(scope="module", autouse=True)
def _few_points():
    """Points and methods that take a moment; figure 14 is coarse."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (rectangles, rectangle_figures):
            patch.setattr(module, "N_POINTS", N_POINTS)
        patch.setattr(rectangle_figures, "_CELLS", 1200)
        for form in ("", ON_SPECTRAL):
            patch.delitem(METHODS, Method("rbm", form))
        yield


@pytest.fixture(scope="module")
def measured(_few_points, tmp_path_factory):
    """Two draws of two lengths in two rectangles: output, rows, points, and the figures, not yet drawn."""
    pictures, folder = {}, tmp_path_factory.mktemp("rectangles")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rectangle_figures, "write_figures", lambda drawn, _: pictures.update(drawn))
        result = run(
            *("--draws", 2, "--queries", 25, "--wanted", K, "--bits", 40, "--bits", 6, "--aspect", 3),
            *("--aspect", 1, "--json", folder / "rows.json", "--figures", folder),
        )
    assert result.exit_code == 0, result.output
    with (folder / POINTS).open(encoding="utf-8", newline="") as file:
        points = list(csv.DictReader(file))
    return result.output, json.loads((folder / "rows.json").read_text()), points, pictures


def test_each_method_gets_a_row_for_each_box_draw_and_length(measured):
    """By brute force: the same points and functions give the same shares."""
    _, rows, _, _ = measured
    names = ("rectangle 1:1", "rectangle 3:1", "box of ten dimensions")
    assert [(row["data"], row["draw"], row["family"], row["form"], row["bits"]) for row in rows] == [
        (name, draw, *method, bits)
        for name in names
        for draw in (0, 1)
        for method in (("lsh", ""), ("boosted", ""), ("spectral", ""), ("boosted", ON_SPECTRAL))
        for bits in (6, 40)
    ]
    boxes = dict(zip(names, (Box.of_aspect(1), Box.of_aspect(3), TEN_DIMENSIONS), strict=True))
    for row in rows:
        box = boxes[row["data"]]
        assert (row["items"], row["dim"], tuple(row["edges"])) == (N_POINTS, len(box.lengths), box.lengths)
        rng = np.random.default_rng([row["draw"], len(box.lengths)])
        points, queries = box.uniform(N_POINTS, rng), box.uniform(25, rng)
        coder = METHODS[Method(row["family"], row["form"])](points, row["bits"], K, row["draw"])
        far = (coder(points).unpacked() != coder(queries).unpacked()[:, None]).sum(axis=2)
        true = np.linalg.norm(points.astype(np.float64) - queries[:, None], axis=2)
        wanted = true <= np.sort(true, axis=1)[:, [K - 1]]
        inside = far <= 1
        assert row["retrieved"] == pytest.approx(inside.sum() / 25)
        assert row["within"] == (pytest.approx(wanted[inside].mean()) if inside.any() else None)
        ordered = np.sort(far, axis=1)[:, K - 1]
        certain = (wanted & (far < ordered[:, None])).sum(axis=1)
        possible = (wanted & (far <= ordered[:, None])).sum(axis=1)
        assert certain.mean() / K <= row["first"] <= possible.mean() / K


def test_tables_points_and_lines_show_the_rows(measured):
    """Means over draws with Student's intervals; a share of no points is left out."""
    output, rows, points, pictures = measured
    tables = output.split("how well Hamming distances")[1:]
    assert len(tables) == 3
    lines = lines_of(rows)
    for (name, text), family, bits in zip(
        zip(("rectangle 1:1", "rectangle 3:1", "box of ten dimensions"), tables, strict=True),
        ("lsh", "spectral", "boosted"),
        (6, 40, 6),
        strict=True,
    ):
        label = {"lsh": "LSH", "spectral": "Spectral", "boosted": "Boosting"}[family]
        own = [
            row
            for row in rows
            if (row["data"], row["family"], row["form"], row["bits"]) == (name, family, "", bits)
        ]
        values = 100 * np.array([row["first"] for row in own])
        half = stats.t.ppf(0.975, 1) * stats.sem(values)
        table = text.split(f"among the first {K} points")[1]
        line = next(line for line in table.splitlines() if line.startswith(label))
        assert f"{values.mean():.1f} ± {half:.1f}" in line
        (curve,) = (line for line in lines if (line.panel, line.name) == (f"{name}, first {K} points", label))
        assert curve.x == [6, 40]
        np.testing.assert_allclose(curve.values[:, curve.x.index(bits)], values)
    assert len(points) == 3 * 2 * 4 * 2
    empty = [row for row in rows if row["within"] is None]
    assert empty  # by 40 bits in ten dimensions
    panels = pictures["figure-13"]().axes
    assert [axes.get_title("left") for axes in panels[:3]] == [
        *("rectangle 1:1", "rectangle 3:1", "box of ten dimensions")
    ]
    for axes, panel in zip(panels, dict.fromkeys(line.panel for line in lines), strict=True):
        own = [line for line in lines if line.panel == panel]
        drawn = [line for line in axes.get_lines() if line.get_label()[0] != "_"]
        assert [line.get_label() for line in drawn] == [
            *("LSH", "Boosting", "Spectral", "Boosting, on spectral bits")
        ]
        for one, line in zip(drawn, own, strict=True):
            np.testing.assert_array_equal(one.get_ydata(), line.values.mean(axis=0))


def test_eigenfunctions_are_drawn_in_order_with_products_framed(measured):
    """Of the rectangle that is not square; thresholded ones are their signs."""
    _, _, _, pictures = measured
    panels = pictures["figure-12"]().axes
    left, right = panels[:12], panels[12:]
    assert [axes.get_title() for axes in left[:6]] == ["1, 0", "2, 0", "0, 1", "3, 0", "1, 1", "2, 1"]
    width = {}
    for soft, hard in zip(left, right, strict=True):
        shown, signs = (axes.get_images()[0].get_array() for axes in (soft, hard))
        assert np.array_equal(signs, np.where(shown >= 0, 1, -1))
        assert shown.shape == (20, 60)
        width[soft.get_title()] = soft.spines["top"].get_linewidth()
    assert {name for name, one in width.items() if one == 2} == {n for n in width if "0" not in n.split(", ")}
    one = left[0].get_images()[0].get_array()
    np.testing.assert_allclose(one[0], np.cos(np.pi * (np.arange(60) + 0.5) / 60), atol=1e-6)


def test_balls_are_drawn_as_brute_force_has_them(measured):
    """For each method and length: colours by Hamming distance, and borders where codes change."""
    _, _, _, pictures = measured
    panels = pictures["figure-14"]().axes
    assert len(panels) == 3 * len(BITS)  # those that hash the points
    box = Box.of_aspect(3)
    points = box.uniform(N_POINTS, np.random.default_rng([0, 2]))
    query = (np.array(QUERY) * box.lengths).astype(np.float32)
    grid = box.grid(1200)
    for place, axes in enumerate(panels):
        method = list(METHODS)[place // len(BITS)]
        n_bits = BITS[place % len(BITS)]
        coder = METHODS[method](points, n_bits, K, 0)
        bits = coder(grid.reshape(-1, 2)).unpacked().reshape(20, 60, n_bits)
        far, borders = (image.get_array() for image in axes.get_images())
        own = coder(query[None]).unpacked()[0]
        assert np.array_equal(far, np.minimum((bits != own).sum(axis=2), len(BALLS)))
        for y, x in [(0, 0), (7, 31), (18, 58)]:
            changed = (bits[y, x] != bits[y, x + 1]).any() or (bits[y, x] != bits[y + 1, x]).any()
            assert borders[y, x] == changed


@pytest.mark.thorough
def test_files_are_written(tmp_path):
    """With one draw, which has no interval."""
    result = run("--draws", 1, "--queries", 5, "--bits", 4, "--aspect", 1, "--figures", tmp_path / "figures")
    assert result.exit_code == 0, result.output
    for number in (12, 13, 14):
        assert f"Figure {number}: " in (tmp_path / "figures" / f"figure-{number}.svg").read_text("utf-8")
        assert (tmp_path / "figures" / f"figure-{number}.png").stat().st_size > 0
    assert "±" not in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--pool", "x"),
            "--pool is for --what kernels, sweeps, coverage, neighbours, survey, precision and speed",
        ),
        (
            ("--kernel", "chi2"),
            "--kernel is for --what kernels, sweeps, coverage, survey and precision, not for",
        ),
        (("--aspect", 0.5), "0.5 is not in the range x>=1"),
        (("--aspect", "nan"), "the aspect of a rectangle must be a finite number of at least 1, got nan"),
        (("--wanted", 151), "--wanted must be at most 150 for rectangles, half of the points, got 151"),
        (("--figures", __file__), "is a file"),
        (("--what", "speed", "--aspect", 2), "--aspect is for --what rectangles, not for speed"),
        (("--what", "speed"), "Missing option '--pool'"),
    ],
)
def test_bad_input_is_one_sentence(words, message):
    """With exit code 2, before anything is measured."""
    result = run(*words)
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")
    assert "Traceback" not in result.output


def test_figures_need_matplotlib(tmp_path, monkeypatch):
    """Which is said before anything is measured."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("--figures", tmp_path / "figures")
    assert result.exit_code == 2
    assert 'pip install "closecall[reports]"' in result.output
