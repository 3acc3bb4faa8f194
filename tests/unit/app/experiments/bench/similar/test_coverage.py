"""Figure 16 of the survey by one command: rows, panels, files and refusals."""

from __future__ import annotations

import csv
import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.app.experiments.bench.similar import paired_figures
from closecall.app.experiments.bench.similar.coverage import BASELINE, Coverage
from closecall.app.experiments.bench.similar.drawn import POINTS
from closecall.core.experiment.coverage import CoverageSweep
from closecall.core.experiment.families import Draw
from closecall.core.experiment.queries import queries_of_draws
from closecall.core.pool.build import build
from tests.fakes import FakeTexts
from tests.unit.app.experiments.histograms import Histograms, ten_classes

ORIGINAL, TUNED = "KLSH, original", "KLSH, low rank, transformed"


def run(*words: object):
    return CliRunner().invoke(main, ["bench", "similar", "--what", "coverage", *map(str, words)])


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    return build(ten_classes(400, 60), tmp_path_factory.mktemp("coverage") / "pool", threads=1)


@pytest.fixture(scope="module")
def words(pool):
    """A small measurement, without draws and ε."""
    return (
        *("--pool", pool.path, "--queries", 20, "--landmarks", 100, "--bits", 32, "--share", 0.01),
        *("--nearest", 5, "--kernel", "intersection"),
    )


@pytest.fixture(scope="module")
def measured(words, tmp_path_factory):
    """Output, rows, points and figures of two draws; the figures are not yet drawn."""
    out, pictures = tmp_path_factory.mktemp("measured"), {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(paired_figures, "write_figures", lambda drawn, _: pictures.update(drawn))
        result = run(
            *(*words, "--draws", 2, "--epsilon", 1, "--epsilon", 0.5, "--json", out / "rows.json"),
            *("--figures", out / "figures"),
        )
    assert result.exit_code == 0, result.output
    with (out / "figures" / POINTS).open(encoding="utf-8", newline="") as file:
        points = list(csv.DictReader(file))
    return result.output, json.loads((out / "rows.json").read_text()), points, pictures


def figure(**changed) -> Coverage:
    words = {"draws": 2, "queries": 20, "bits": (32,), "kernels": ("intersection",), "share": 0.01}
    return Coverage(**{**words, "landmarks": 100, "figures": None, "nearest": 5, "epsilons": (), **changed})


def test_rows_are_those_of_the_sweep(pool, measured):
    """With the queries of each draw, and others to choose rank and scale by."""
    _, rows, _, _ = measured
    queries, choosing = queries_of_draws(pool, 20, 20, 2, known=True)
    own = next(row for row in rows if (row["seed"], row["epsilon"]) == (1, 0.5))
    draw = Draw.of(
        pool, choosing.X, kernel="intersection", n_landmarks=100, share=0.01, seed=1, n_sample=50_000
    )
    expected = list(CoverageSweep((0.5,)).measured(pool, draw, queries[1], k=5, n_functions=32))
    assert own.items() >= expected[1].items()
    assert len(rows) == 2 * (1 + 2 * 2)
    for row in rows:
        assert (row["figure"], row["items"], row["queries"]) == ("coverage", len(pool), 20)
        assert (row["kernel"], row["k"], row["kept"], row["R"]) == ("intersection", 5, 1.0, 4.0)


def test_panels_show_the_rows(measured):
    """Coverage at the first ε, and by ε the accuracy, where the scan is level, and the share searched."""
    _, rows, _, _ = measured
    panels = figure().panels(rows)
    by = {(row["form"], row["epsilon"], row["seed"]): row for row in rows}
    assert [(panel.figure, panel.title, panel.x, panel.baseline) for panel in panels] == [
        *(
            ("16", f"coverage of the first {k}, ε = 1, 32 bits", [10, 20, 30, 50, 100, 200, 400], BASELINE)
            for k in (10, 20, 30)
        ),
        ("16", "accuracy of 5-nn, 32 bits", [0.5, 1.0], BASELINE),
        ("16", "share searched, 32 bits", [0.5, 1.0], None),
    ]
    names = {BASELINE: None, ORIGINAL: "original", TUNED: "low rank, transformed"}
    for place, panel in enumerate(panels):
        lines = {line.name: line.values for line in panel.lines}
        assert list(lines) == (list(names) if panel.baseline else [ORIGINAL, TUNED])
        assert len({(line.stroke.mark, line.stroke.colour) for line in panel.lines}) == len(lines)
        for name, values in lines.items():
            form = names[name]
            for seed in (0, 1):
                if place < 3:
                    expected = by[form, form and 1.0, seed]["covered"][place]
                else:
                    measure = "accuracy" if place == 3 else "searched"
                    expected = [by[form, form and epsilon, seed][measure] for epsilon in panel.x]
                np.testing.assert_array_equal(values[seed], expected)


def test_text_points_and_figure_name_the_baseline(measured):
    """And show the difference to it; ranks and scales are those of the rows."""
    output, rows, points, pictures = measured
    assert list(pictures) == ["figure-16"]
    picture = pictures["figure-16"]()
    caption = picture.get_suptitle()
    assert caption.startswith("Figure 16: KLSH and a scan by the intersection kernel; pool, 400 items, 2 d")
    assert f"primary baseline ({BASELINE}), with 95 % intervals" in caption
    assert [axes.get_title(loc="left") for axes in picture.axes[:5]][3:] == [
        "accuracy of 5-nn, 32 bits, %",
        "share searched, 32 bits, %",
    ]
    accuracy = {(row["form"], row["epsilon"], row["seed"]): row["accuracy"] for row in rows}
    gain = np.mean([accuracy["original", 0.5, seed] - accuracy[None, None, seed] for seed in (0, 1)])
    (point,) = (
        p for p in points if (p["panel"], p["line"], p["x"]) == ("accuracy of 5-nn, 32 bits", ORIGINAL, "0.5")
    )
    assert float(point["gain"]) == pytest.approx(gain)
    assert {p["baseline"] for p in points} == {BASELINE, ""}
    told = " ".join(output.split())
    assert f"Difference to {BASELINE}, in the same draw, with its 95 % interval:" in told
    own = [row for row in rows if row["form"] == "low rank, transformed" and row["epsilon"] == 1]
    ranks, scales = (" ".join(f"{row[name]:g}" for row in own) for name in ("rank", "scale"))
    assert f"Chosen: ranks {ranks}; scales {scales}." in told
    assert f"The primary baseline is: {BASELINE}; no search can cover more than it." in told


def test_a_pool_without_classes_has_no_accuracy(tmp_path):
    """Only the left side of the figure, with the share searched."""
    source = Histograms(240, 12, classes=(), held_out=range(200, 240))
    made = build(source, tmp_path / "pool", threads=1)
    asked = figure(draws=1, epsilons=(2.0,))
    (rows,) = asked.measure(made)
    assert [panel.title.split(",")[0] for panel in asked.panels(rows)] == [
        *("coverage of the first 10", "coverage of the first 20", "coverage of the first 30"),
        "share searched",
    ]
    assert "There is no accuracy, because the pool has no classes." in asked.legend(rows)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("--queries", 31), "124 held-out items of known class are needed as queries, 93 to measure"),
        (("--landmarks", 401, "--queries", 5), "needs at least as many rows as landmarks, 401, got 400"),
        (("--epsilon", 0), "0.0 is not in the range x>0"),
        (("--epsilon", "inf"), "epsilon must be positive and finite, got inf"),
        (("--kernel", "hellinger"), "kernel must be one of cosine, chi2, intersection"),
        (("--bits", 16), "one number of bits is measured for coverage, got 32, 16"),
        (("--rank", 8), "--rank is for --what sweeps, not for coverage"),
        (("--labels", 50), "--labels is for --what neighbours and precision, not for coverage"),
        (("--what", "survey"), "--nearest is for --what coverage and neighbours, not for survey"),
        (("--figures", __file__), "is a file"),
    ],
)
def test_bad_values_are_one_sentence(words, changed, message):
    """With exit code 2; nothing is measured."""
    if "--kernel" in changed:
        words = words[:-2]
    result = run(*words, *changed)
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")
    assert "Traceback" not in result.output


def test_texts_are_refused(tmp_path):
    """Because kernels compare dense rows."""
    texts = build(FakeTexts(400, held_out=range(0, 400, 5)), tmp_path / "texts", threads=1)
    result = run("--pool", texts.path, "--queries", 5, "--draws", 1, "--landmarks", 100)
    assert result.exit_code == 2
    assert "dense" in result.output


def test_figures_need_matplotlib(tmp_path, monkeypatch):
    """Which is said before anything is measured."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("--pool", tmp_path / "nowhere", "--figures", tmp_path / "figures")
    assert result.exit_code == 2
    assert 'pip install "closecall[reports]"' in result.output
