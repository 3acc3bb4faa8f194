"""Figures 1 and 2 of learned metrics, and figure 9 of the survey: rows, panels, files and refusals."""

from __future__ import annotations

import csv
import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.app.experiments.bench.similar import paired_figures
from closecall.app.experiments.bench.similar.drawn import POINTS
from closecall.app.experiments.bench.similar.neighbour_sweeps import BASELINE, LINES, NeighbourSweeps
from closecall.core.experiment import neighbours
from closecall.core.experiment.metric_sweeps import MetricSweeps
from closecall.core.experiment.queries import queries_of_draws
from closecall.core.pool.build import build
from closecall.core.sources import source_from
from tests.unit.app.experiments.histograms import ten_classes

pytestmark = pytest.mark.thorough  # tests/unit/core/experiment keeps what is computed


def run(*words: object):
    return CliRunner().invoke(main, ["bench", "similar", "--what", "neighbours", *map(str, words)])


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    return build(ten_classes(400, 90), tmp_path_factory.mktemp("neighbours") / "pool", threads=1)


@pytest.fixture(scope="module")
def measured(pool, tmp_path_factory):
    """Output, rows and the folder of two draws."""
    out = tmp_path_factory.mktemp("measured")
    result = run(
        *("--pool", pool.path, "--draws", 2, "--queries", 30, "--nearest", 3, "--json", out / "rows.json"),
        *("--bits", 16, "--bits", 32, "--labels", 60, "--labels", 40, "--epsilon", 1.5, "--epsilon", 1),
        *("--figures", out / "figures"),
    )
    assert result.exit_code == 0, result.output
    return result.output, json.loads((out / "rows.json").read_text()), out / "figures"


def figure(**changed) -> NeighbourSweeps:
    words = {"draws": 2, "queries": 30, "bits": (), "figures": None, "nearest": 3, "labels": ()}
    return NeighbourSweeps(**{**words, "epsilons": (), **changed})


def test_rows_are_those_of_the_sweeps(pool, measured):
    """With the queries of each draw, and others to choose by."""
    _, rows, _ = measured
    queries, choosing = queries_of_draws(pool, 30, 30, 2, known=True)
    sweeps = MetricSweeps((16, 32), (60, 40), (1.5, 1.0))
    expected = [
        row for seed in (0, 1) for row in sweeps.measured(pool, queries[seed], choosing, k=3, seed=seed)
    ]
    assert len(rows) == len(expected) == 2 * (4 + 4 + 2)
    for row, own in zip(rows, expected, strict=True):
        assert row.items() >= own.items()
        assert (row["figure"], row["items"], row["queries"], row["k"]) == ("neighbours", len(pool), 30, 3)
        assert row["kept"] == [32, 60, 1.5]


def test_panels_have_the_papers_lines(pool, measured):
    """Figure 1 by bits; figure 2 by labels, bits and ε; what doesn't depend on a parameter is level."""
    _, rows, _ = measured
    panels = figure().panels(rows)
    assert [(panel.figure, panel.across, panel.x) for panel in panels] == [
        *(("1", "bits", [16, 32]), ("1", "bits", [16, 32]), ("2", "labels", [40, 60])),
        *(("2", "bits", [16, 32]), ("2", "ε", [1.0, 1.5])),
    ]
    assert [panel.baseline for panel in panels] == [BASELINE, None, BASELINE, BASELINE, BASELINE]
    accuracy = {
        (row["metric"], row["search"], row["labels"], row["bits"], row["epsilon"], row["seed"]): row
        for row in rows
    }
    by_labels = {line.name: line.values for line in panels[2].lines}
    assert list(by_labels) == list(LINES.values())
    for seed in (0, 1):
        for place, n in enumerate((40, 60)):
            for (metric, search), name in LINES.items():
                where = n if metric == "learned" else None, *((None, None) if search == "scan" else (32, 1.5))
                row = accuracy[metric, search, *where, seed]
                assert by_labels[name][seed, place] == row["accuracy"]
    searched = {line.name: line.values for line in panels[1].lines}
    assert list(searched) == [LINES["original", "orders"], LINES["learned", "orders"]]
    assert (
        searched[LINES["learned", "orders"]][1, 0]
        == accuracy["learned", "orders", 60, 16, 1.5, 1]["searched"]
    )


def test_figures_points_and_text_are_written(measured):
    """Under the numbers of the paper; the captions name the baseline."""
    output, rows, folder = measured
    assert {path.name for path in folder.iterdir()} == {
        *("figure-1.svg", "figure-1.png", "figure-2.svg", "figure-2.png", POINTS)
    }
    for number in (1, 2):
        text = (folder / f"figure-{number}.svg").read_text("utf-8")
        assert f"Figure {number}: accuracy of 3-nn" in text
        assert f"primary baseline ({BASELINE}), with 95 % intervals" in text
    with (folder / POINTS).open(encoding="utf-8", newline="") as file:
        points = list(csv.DictReader(file))
    scans = {
        seed: {
            row["metric"]: row["accuracy"]
            for row in rows
            if row["search"] == "scan" and row["seed"] == seed and row["labels"] in (None, 60)
        }
        for seed in (0, 1)
    }
    gain = np.mean([own["learned"] - own["original"] for own in scans.values()])
    row = next(p for p in points if (p["figure"], p["line"]) == ("1", LINES["learned", "scan"]))
    assert float(row["gain"]) == pytest.approx(gain)
    assert row["baseline"] == BASELINE
    told = " ".join(output.split())
    assert f"Difference to {BASELINE}, in the same draw, with its 95 % interval:" in told
    assert "Figure 2: accuracy, 60 labels, ε = 1.5, by bits: as in figure 1." in told
    assert "Chosen with 40 labels: γ" in told
    assert f"The primary baseline is: {BASELINE}." in told
    assert " open" in told


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """A pool of small sets of points of two classes, which overlap."""
    folder = tmp_path_factory.mktemp("sets")
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 6, 400)
    classes = np.arange(400) % 2
    points = rng.normal(np.repeat(classes, sizes)[:, None] * [0.8, 0], 1, (sizes.sum(), 2))
    np.savez(folder / "p.npz", points=points.astype(np.float32), sizes=sizes)
    (folder / "c.txt").write_text("\n".join("ab"[one] for one in classes))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("closecall.core.sources.unpacking.user_cache_path", lambda name: folder / name)
        return build(source_from(f"points:{folder / 'p.npz'},{folder / 'c.txt'}"), folder / "pool", threads=1)


def test_sets_get_the_surveys_figure(sets, tmp_path, monkeypatch):
    """Figure 9: errors by ε under the matching kernel, of which the scan's are counted here."""
    pictures = {}
    monkeypatch.setattr(paired_figures, "write_figures", lambda drawn, _: pictures.update(drawn))
    monkeypatch.setattr(neighbours, "SPARSE_SETTINGS", neighbours.SPARSE_SETTINGS[:1])
    result = run(
        *("--pool", sets.path, "--draws", 1, "--queries", 12, "--nearest", 3, "--json", tmp_path / "rows"),
        *("--bits", 16, "--labels", 40, "--epsilon", 2, "--epsilon", 1, "--figures", tmp_path / "figures"),
    )
    assert result.exit_code == 0, result.output
    rows = json.loads((tmp_path / "rows").read_text())
    panel = figure(draws=1).panels(rows)[-1]
    assert (panel.figure, panel.title, panel.x) == ("9", "error, 16 bits, 40 labels", [1.0, 2.0])
    assert panel.baseline == BASELINE
    errors = {line.name: line.values[0] for line in panel.lines}
    assert list(errors) == list(LINES.values())
    for row in rows:
        line = errors[LINES[row["metric"], row["search"]]]
        for place in [0, 1] if row["epsilon"] is None else [panel.x.index(row["epsilon"])]:
            assert line[place] == pytest.approx(1 - row["accuracy"])
    ((queries,), _) = queries_of_draws(sets, 12, 12, 1, known=True)
    kernel = (queries.X @ sets.rows(np.arange(len(sets))).T).toarray()
    classes = sets.truth(sets.ids)[np.argsort(-kernel, kind="stable")[:, :3]]
    wrong = (classes.sum(axis=1) >= 2) != queries.truth
    np.testing.assert_allclose(errors[BASELINE], wrong.mean())
    assert "Figure 9: error, 16 bits, 40 labels, by ε." in result.output
    assert "figure 2 by ε is figure 9 of the survey" in " ".join(result.output.split())
    assert list(pictures) == ["figure-1", "figure-2", "figure-9"]
    caption = pictures["figure-9"]().get_suptitle()
    assert caption.startswith("Figure 9: error of 3-nn by ε; sets of pool, ")


def test_usual_numbers_of_labels_are_those_of_the_pool(pool):
    """If fewer are known than usual, all of them."""
    asked = figure(draws=1, bits=(8,), epsilons=(2.0,))
    (rows,) = asked.measure(pool)
    assert {row["labels"] for row in rows} == {None, 200}
    assert rows[0]["kept"] == (8, 200, 2.0)
    assert len(asked.panels(rows)[0].gains(asked.panels(rows)[0].lines[1])) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--labels", 5_000), "5,000 labels are to be learned from, and the classes of 400 items are known"),
        (("--queries", 1_000), "4,000 held-out items of known class are needed as queries"),
        (("--epsilon", 0), "0.0 is not in the range x>0"),
        (("--epsilon", "inf"), "epsilon must be positive and finite, got inf"),
        (("--searched", 0.1), "--searched is for --what neighbours without --figures"),
        (("--structure", "scan"), "--structure is for --what neighbours without --figures"),
        (("--family", "lsh"), "--family is for --what survey, precision and speed, not for neighbours"),
    ],
)
def test_bad_values_are_one_sentence(pool, words, message, tmp_path):
    """With exit code 2; nothing is measured."""
    result = run("--pool", pool.path, "--queries", 5, "--figures", tmp_path / "figures", *words)
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--epsilon", 1.5), "--epsilon is for --what neighbours with --figures"),
        (("--bits", 8, "--bits", 16), "one number of bits is measured for neighbours, got 8, 16"),
        (
            ("--labels", 40, "--labels", 60),
            "one number of labels is measured for neighbours, got 40, 60: several are for --figures",
        ),
    ],
)
def test_sweeps_are_for_figures(pool, words, message):
    """Without them, one value of each parameter is measured."""
    result = run("--pool", pool.path, "--queries", 5, *words)
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")


def test_figures_need_matplotlib(tmp_path, monkeypatch):
    """Which is said before anything is measured."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("--pool", tmp_path / "nowhere", "--figures", tmp_path / "figures")
    assert result.exit_code == 2
    assert 'pip install "closecall[reports]"' in result.output
