"""Figures 1 to 3 of "Revisiting Kernelized LSH" by one command: rows, tables, points and lines agree."""

from __future__ import annotations

import csv
import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from closecall.app.cli.main import main
from closecall.app.experiments.bench.similar import sweep_figures
from closecall.app.experiments.bench.similar.curves import COLUMNS, curves_of
from closecall.app.experiments.bench.similar.drawn import POINTS
from closecall.core.experiment.families import Draw
from closecall.core.experiment.kernelized import Form, nearest, recall_of_nearest
from closecall.core.experiment.queries import held_out_queries
from closecall.core.hashing.klsh import KernelizedLSH
from closecall.core.mercer import ChiSquared
from closecall.core.pool.build import build
from tests.unit.app.experiments.histograms import ten_classes

NUMBERS = ("1", "2a", "2b", "2c", "3", "t")


def run(*words: object):
    return CliRunner().invoke(main, ["bench", "similar", "--what", "sweeps", *map(str, words)])


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    return build(ten_classes(700, 100), tmp_path_factory.mktemp("sweeps") / "pool", threads=1)


@pytest.fixture(scope="module")
def command(pool):
    """The words of a small measurement without any values of a parameter."""
    return (
        *("--pool", pool.path, "--kernel", "chi2", "--queries", 20, "--share", 0.01, "--landmarks", 100),
        *("--bits", 32),
    )


@pytest.fixture(scope="module")
def measured(command, tmp_path_factory):
    """Two draws of two values of each parameter: output, rows, and the folder of figures, not yet drawn."""
    out = tmp_path_factory.mktemp("measured")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sweep_figures, "write_figures", lambda *_: {})
        result = run(
            *(*command, "--draws", 2, "--rank", 8, "--rank", 32, "--scale", 3, "--scale", 9),
            *("--sampled", 50, "--sampled", 2, "--json", out / "rows.json", "--figures", out / "figures"),
        )
    assert result.exit_code == 0, result.output
    return result.output, json.loads((out / "rows.json").read_text()), out / "figures"


def lines_of(rows, number):
    return list(dict.fromkeys(row["line"] for row in rows if row["paper_figure"] == number))


def test_every_line_of_every_figure_gets_a_row(pool, measured):
    """In each draw, seen from the origin and from the mean; values are in the order of the parameter."""
    _, rows, _ = measured
    assert {number: lines_of(rows, number) for number in NUMBERS} == {
        "1": ["r = 8", "r = 32"],
        "2a": ["r = 8", "r = 32"],
        "2b": [
            *("KLSH, original", "KLSH, low rank", "KLSH, low rank, transformed"),
            *("Nyström, full rank", "Nyström, low rank"),
        ],
        "2c": ["κ itself", "s = 3", "s = 9"],
        "3": ["s = 3", "s = 9"],
        "t": ["t = 2", "t = 50"],
    }
    assert len(rows) == 2 * (2 * (2 + 2 + 5 + 2 + 2) + 3)
    R = pytest.approx(0.01 * len(pool))
    for row in rows:
        assert (row["figure"], row["data"], row["items"]) == ("sweeps", "pool", len(pool))
        assert (row["queries"], row["landmarks"], row["bits"], row["R"]) == (20, 100, 32, R)
        if row["paper_figure"] != "2c":
            assert row["x"] == [1, 2, 5, R, 10, 20, 50]
            assert 0 <= row["recall"][0] <= row["recall"][-1] <= 1


def test_one_value_is_chosen_by_the_other_queries(measured):
    """Of each parameter in each draw: the best for them, whatever is best for the queries reported."""
    _, rows, _ = measured
    for number in ("1", "2a", "3", "t"):
        for key in {(row["seed"], row["centred"]) for row in rows if row["paper_figure"] == number}:
            own = [r for r in rows if (r["paper_figure"], r["seed"], r["centred"]) == (number, *key)]
            (chosen,) = (row for row in own if row["chosen"])
            assert chosen["recall_when_chosen"] == max(row["recall_when_chosen"] for row in own)
    assert not any(row["chosen"] for row in rows if row["paper_figure"] in ("2b", "2c"))


def test_gains_are_over_the_form_that_the_figure_names(measured):
    """In the same draw: of figure 2b, or of figure 1 at the chosen rank; other parameters stay."""
    _, rows, _ = measured

    def row_of(row, number, line):
        (found,) = (
            other
            for other in rows
            if (other["paper_figure"], other["line"]) == (number, line)
            and (other["seed"], other["centred"]) == (row["seed"], row["centred"])
        )
        return np.array(found["recall"])

    bases = {"1": "KLSH, original", "2a": "Nyström, full rank", "3": "KLSH, low rank"}
    for row in rows:
        if row["paper_figure"] in bases:
            gain = np.array(row["recall"]) - row_of(row, "2b", bases[row["paper_figure"]])
            np.testing.assert_allclose(row["y"], gain, atol=1e-12)
        if row["line"] == "t = 50":  # the default of all other figures
            np.testing.assert_array_equal(row["recall"], row_of(row, "2b", "KLSH, low rank"))
        if row["chosen"] and row["paper_figure"] == "1":
            np.testing.assert_array_equal(row["recall"], row_of(row, "2b", "KLSH, low rank"))


def test_a_value_in_a_sweep_is_the_value_alone(pool, command, measured, tmp_path):
    """By the command with only this value, and by one family that is fitted and searched for it."""
    _, rows, _ = measured
    file = tmp_path / "rows.json"
    words = ("--draws", 1, "--rank", 8, "--scale", 9, "--sampled", 2, "--json", file)
    assert run(*command, *words).exit_code == 0
    alone = {(row["paper_figure"], row["centred"], row["line"]): row for row in json.loads(file.read_text())}
    together = {(row["paper_figure"], row["centred"], row["line"]): row for row in rows if row["seed"] == 0}
    names = ("x", "recall", "recall_when_chosen", "rank", "eigenvalues")
    for number in ("1", "2a", "2c"):
        for key in (key for key in alone if key[0] == number):
            assert {n: alone[key][n] for n in names} == {n: together[key][n] for n in names}
    queries, choosing = held_out_queries(pool, 20, 20)
    draw = Draw.of(pool, choosing.X, kernel="chi2", n_landmarks=100, seed=0, n_sample=50_000)
    neighbours, _ = nearest(ChiSquared(), pool.blocks(), queries.X)
    every = np.concatenate([X for _, X in pool.blocks()])
    for number, line, form in [
        ("1", "r = 8", Form("chi2", rank=8)),
        ("3", "s = 9", Form("chi2", rank=8, scale=9)),
        ("t", "t = 2", Form("chi2", rank=8, n_sampled=2)),
    ]:
        hasher = form.hasher(**draw.landmarks, n_functions=32).fit(draw.sample)
        codes = hasher.hash_points(every), hasher.hash_queries(queries.X)
        row = alone[number, False, line]
        for R, recall in zip(row["x"], row["recall"], strict=True):
            assert recall == pytest.approx(recall_of_nearest(*codes, neighbours, R))


def test_eigenvalues_are_those_of_numpy(pool, measured):
    """Of HKH over m, with exp(s(κ − 1)) computed here; the figure shows them over the largest."""
    _, rows, _ = measured
    _, choosing = held_out_queries(pool, 20, 20)
    for seed in (0, 1):
        draw = Draw.of(pool, choosing.X, kernel="chi2", n_landmarks=100, seed=seed, n_sample=50_000)
        fitted = KernelizedLSH(kernel="chi2", n_functions=1, **draw.landmarks).fit(draw.sample)
        L = fitted.landmarks_.astype(np.float64)
        products, sums = L[:, None] * L, L[:, None] + L
        K = (2 * np.divide(products, sums, out=np.zeros_like(sums), where=sums > 0)).sum(axis=2)
        H = np.eye(100) - 1 / 100
        for line, kernel in [("κ itself", K), ("s = 3", np.exp(3 * (K - 1))), ("s = 9", np.exp(9 * (K - 1)))]:
            (row,) = (r for r in rows if (r["paper_figure"], r["seed"], r["line"]) == ("2c", seed, line))
            wanted = np.linalg.eigvalsh(H @ kernel @ H)[::-1] / 100
            assert row["x"] == list(range(1, 100))
            np.testing.assert_allclose(row["eigenvalues"], wanted[:99], rtol=1e-3, atol=1e-7)
            np.testing.assert_allclose(row["y"], wanted[:99] / wanted[0], rtol=1e-3, atol=1e-6)


def test_tables_points_and_lines_show_the_rows(measured, monkeypatch):
    """The means over draws, in the printed tables, in the file and as drawn; with Student's intervals."""
    output, rows, folder = measured
    with (folder / POINTS).open(encoding="utf-8", newline="") as file:
        points = list(csv.DictReader(file))
    assert tuple(points[0]) == COLUMNS
    pictures = {}
    monkeypatch.setattr(sweep_figures, "write_figures", lambda drawn, _: pictures.update(drawn))
    sweep_figures.draw_sweeps(curves_of(rows), rows[0]["R"], folder)
    assert list(pictures) == [f"figure-{number}" for number in NUMBERS]
    printed = output.split("Figure ")
    for number, text in zip(NUMBERS, printed[1:], strict=True):
        assert text.startswith(f"{number}: {sweep_figures.TITLES[number][0]}")
        picture = pictures[f"figure-{number}"]()
        panels = picture.axes
        assert {line.get_linewidth() for line in picture.legends[0].get_lines()} == {1.5}
        drawn = [line for axes in panels for line in axes.get_lines() if line.get_label()[0] != "_"]
        own = {}
        for row in rows:
            if row["paper_figure"] == number:
                own.setdefault((row["centred"], row["line"]), []).append(row)
        assert len(drawn) == len(own)
        for line, ((centred, name), (first, second)) in zip(drawn, own.items(), strict=True):
            seen_from = {None: "–", False: "origin", True: "mean"}[centred]
            values = np.array([first["y"], second["y"]])
            some = [
                p for p in points if (p["figure"], p["seen from"], p["line"]) == (number, seen_from, name)
            ]
            assert [float(point["x"]) for point in some] == first["x"] == list(line.get_xdata())
            np.testing.assert_allclose([float(point["mean"]) for point in some], values.mean(axis=0))
            np.testing.assert_allclose(np.array(line.get_ydata()) / 100, values.mean(axis=0))
            half = stats.t.ppf(0.975, 1) * stats.sem(values)
            for column, end in (("low", values.mean(axis=0) - half), ("high", values.mean(axis=0) + half)):
                np.testing.assert_allclose([float(point[column]) for point in some], end, atol=1e-12)
            n_chosen = first["chosen"] + second["chosen"]
            assert {point["chosen"] for point in some} == {str(n_chosen)}
            assert line.get_label() == name
            assert line.get_linewidth() == pytest.approx(1.5 * (1 + n_chosen / 2))
            cell = f"{100 * values[:, 0].mean():.1f} ± {100 * values[:, 0].std(ddof=1):.1f}"
            assert any(
                text_line.split()[:2] == ["chi2", seen_from] and name in text_line and cell in text_line
                for text_line in text.splitlines()
            )


def test_one_draw_has_no_interval(measured, tmp_path):
    """Ends are empty, figures have means alone, and all of them become files."""
    _, rows, _ = measured
    curves = curves_of([row for row in rows if row["seed"] == 0 and row["paper_figure"] in ("1", "2c")])
    assert all(np.isnan(end).all() for curve in curves for end in curve.interval[1:])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sweep_figures, "TITLES", {"1": sweep_figures.TITLES["1"]})
        files = sweep_figures.draw_sweeps(curves, rows[0]["R"], tmp_path)
    assert files == {"figure-1": tmp_path / "figure-1.svg"}
    assert "Figure 1: gain in recall@R" in files["figure-1"].read_text("utf-8")
    assert (tmp_path / "figure-1.png").stat().st_size > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rank", 100), "--rank must be from 1 to 99, one less than the number of landmarks, got 100"),
        (("--rank", 0), "0 is not in the range x>=1"),
        (
            ("--sampled", 250),
            "--sampled must be from 1 to 99, one less than the number of landmarks, got 250",
        ),
        (("--scale", 0), "0.0 is not in the range x>0"),
        (("--scale", "inf"), "the scale of a transformed kernel must be positive and finite, got inf"),
        (("--scale", "nan"), "the scale of a transformed kernel must be positive and finite, got nan"),
        (("--kernel", "hellinger"), "kernel must be one of cosine, chi2, intersection"),
        (("--bits", 8, "--bits", 16), "one number of bits is measured for sweeps, got 8, 16"),
        (("--figures", __file__), "is a file"),
        (("--what", "kernels", "--rank", 8), "--rank is for --what sweeps, not for kernels"),
        (
            ("--what", "survey", "--figures", "x"),
            "--figures is for --what sweeps, coverage, neighbours, precision, speed and rectangles, not for "
            "survey",
        ),
    ],
)
def test_bad_values_are_refused_before_the_pool_is_opened(words, message, tmp_path):
    """In one sentence with exit code 2; the pool of this test does not exist."""
    result = run("--pool", tmp_path / "nowhere", "--landmarks", 100, *words)
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")
    assert "Traceback" not in result.output


def test_figures_need_matplotlib(tmp_path, monkeypatch):
    """Which is said before anything is measured."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("--pool", tmp_path / "nowhere", "--figures", tmp_path / "figures")
    assert result.exit_code == 2
    assert 'pip install "closecall[reports]"' in result.output
