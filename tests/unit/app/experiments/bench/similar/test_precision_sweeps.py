"""Figures 5, 6 and table 1 of supervised hashing by one command: equal labels, rows, panels and refusals."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.app.experiments.bench.similar.drawn import POINTS
from closecall.app.experiments.bench.similar.precision import Precision
from closecall.app.experiments.bench.similar.precision_sweeps import PrecisionSweeps
from closecall.core.experiment import families
from closecall.core.experiment.families import Draw, forms_of
from closecall.core.experiment.queries import queries_of_draws
from closecall.core.experiment.similarity import Truths
from closecall.core.experiment.slack import share_of_right_votes, validated_kernel
from closecall.core.hashing import FAMILIES
from closecall.core.metric.validation import GAMMAS
from closecall.core.pool.build import build
from tests.families import learning_little
from tests.unit.app.experiments.histograms import ten_classes

pytestmark = pytest.mark.thorough  # tests/unit/core/experiment keeps what is computed

TAUGHT = ("metric-lsh", "ksh", "ksh-learned")
WORDS = {
    "draws": 2,
    "queries": 25,
    "bits": (8, 4),
    "families": ("lsh", *TAUGHT),
    "kernels": ("chi2",),
    "landmarks": 100,
    "retrieved": (5, 20),
    "sample": 350,
}


def run(*words: object):
    return CliRunner().invoke(main, ["bench", "similar", "--what", "precision", *map(str, words)])


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    return build(ten_classes(400, 90), tmp_path_factory.mktemp("precision") / "pool", threads=1)


@pytest.fixture(scope="module")
def measured(pool, tmp_path_factory):
    """Output, rows and the folder of two draws with two numbers of labels; 100 are kept."""
    out = tmp_path_factory.mktemp("measured")
    with learning_little():
        result = run(
            *("--pool", pool.path, "--json", out / "rows.json", "--figures", out / "figures"),
            *("--draws", 2, "--queries", 25, "--bits", 8, "--bits", 4, "--labels", 100, "--labels", 60),
            *("--retrieved", 5, "--retrieved", 20, "--sample", 350, "--landmarks", 100),
            *(word for name in WORDS["families"] for word in ("--family", name)),
        )
    assert result.exit_code == 0, result.output
    return result.output, json.loads((out / "rows.json").read_text()), out / "figures"


def figure(**changed) -> PrecisionSweeps:
    return PrecisionSweeps(**{**WORDS, "labels": (100, 60), "figures": None, **changed})


def test_rows_are_those_of_precision_itself(pool, measured):
    """Measured family by family, with the draw's own queries and one number of labels."""
    _, rows, _ = measured
    queries, choosing = queries_of_draws(pool, 25, 25, 2, known=True)
    expected = []
    with learning_little():
        for seed in (0, 1):
            for n_labels in (100, 60):
                alone = Precision(**{**WORDS, "draws": 1, "labels": (n_labels,)})
                draw = alone.draw_of(pool, choosing, seed, **alone.sampling)
                for name in WORDS["families"] if n_labels == 100 else TAUGHT:
                    found = alone.measure_family(name, draw, Truths(pool, queries[seed], 0, 0))
                    expected += [row for row in found if n_labels == 100 or row["bits"] == 8]
    assert len(rows) == len(expected) == 2 * (4 * 2 + 3)
    for row, own in zip(rows, expected, strict=True):
        for name in (
            "family",
            "form",
            "labels",
            "bits",
            "retrieved",
            "precision",
            "average_precision",
            "seed",
        ):
            assert row[name] == own[name]
        assert row["kept"] == 100


def test_all_supervised_families_get_the_same_labels(pool, monkeypatch):
    """In each draw and with each number of labels; the smaller ones are among the greater."""
    seen: dict[tuple[int, int], dict[str, bytes]] = {}
    places: dict[tuple[int, int], set[int]] = {}
    forms = families.forms_of

    def spied(name, draw):
        known = np.flatnonzero(draw.truth >= 0)
        assert draw.lesson(name) is None or draw.lesson(name).labels == len(known)
        seen.setdefault((draw.seed, len(known)), {})[name] = draw.truth.tobytes() + draw.sample.tobytes()
        places[draw.seed, len(known)] = set(known.tolist())
        return forms(name, draw)

    monkeypatch.setattr("closecall.app.experiments.bench.similar.precision.forms_of", spied)
    with learning_little():
        list(figure(bits=(4,)).measure(pool))
    assert seen.keys() == {(seed, n) for seed in (0, 1) for n in (100, 60)}
    for (_, n), own in seen.items():
        assert set(own) == {*TAUGHT, "lsh"} - ({"lsh"} if n == 60 else set())
        assert len(set(own.values())) == 1
    for seed in (0, 1):
        assert places[seed, 60] < places[seed, 100]
    assert places[0, 100] != places[1, 100]


def test_panels_have_the_papers_lines(measured):
    """Figure 5 by bits, figure 6 by labels with the longest codes; without labels a line is level."""
    _, rows, _ = measured
    panels = figure().panels(rows)
    assert [(panel.figure, panel.across, panel.x) for panel in panels] == [
        *[("5", "bits", [4, 8])] * 2,
        *[("6", "labels", [60, 100])] * 2,
    ]
    assert {panel.baseline for panel in panels} == {"KSH"}
    found = {(row["family"], row["seed"], row["labels"], row["bits"]): row["precision"] for row in rows}
    for panel in panels:
        number = 0 if "first 5" in panel.title else 1
        lines = dict(zip(WORDS["families"], panel.lines, strict=True))
        for name, line in lines.items():
            for seed in (0, 1):
                for place, x in enumerate(panel.x):
                    labels, bits = (100, x) if panel.figure == "5" else (x, 8)
                    labels = labels if name in TAUGHT else 100
                    assert line.values[seed, place] == found[name, seed, labels, bits][number]


def test_figures_points_and_text_are_written(measured):
    """Under the numbers of the paper; the captions name the baseline; table 1 has the times."""
    output, rows, folder = measured
    assert {path.name for path in folder.iterdir()} == {
        *("figure-5.svg", "figure-5.png", "figure-6.svg", "figure-6.png", POINTS)
    }
    for number, what in ((5, "bits"), (6, "labels")):
        text = (folder / f"figure-{number}.svg").read_text("utf-8")
        assert f"Figure {number}: precision by {what}" in text
        assert "primary baseline (KSH), with 95 % intervals" in text
    with (folder / POINTS).open(encoding="utf-8", newline="") as file:
        points = list(csv.DictReader(file))
    assert {(point["figure"], point["baseline"]) for point in points} == {("5", "KSH"), ("6", "KSH")}
    told = " ".join(output.split())
    assert "Difference to KSH, in the same draw, with its 95 % interval:" in told
    assert "Table 1: times with 100 labels and 8 bits." in told
    assert "The primary baseline is KSH." in told
    assert "KSH: all 100" in told
    for row in rows:
        assert row["fit_seconds"] >= 0
        timed = (row["labels"], row["bits"]) == (100, 8)
        assert ("query_seconds" in row) == ("hash_seconds" in row) == ("scan_seconds" in row) == timed
    table = output.split("Table 1")[1].splitlines()
    line = next(line for line in table if line.startswith("KSH, learned kernel"))
    own = [row for row in rows if row["family"] == "ksh-learned" and "query_seconds" in row]
    assert line.split()[-3] == f"{np.mean([row['fit_seconds'] for row in own]):.3g}"
    assert line.split()[-1] == f"{1000 * np.mean([row['query_seconds'] for row in own]):.3g}"
    scan = next(line for line in table if line.startswith("linear scan"))
    assert scan.split()[2:5] == ["–"] * 3


def test_usual_numbers_of_labels_are_those_of_the_sample(pool):
    """The least usual number is 1,000; if the sample has fewer, all of them are kept."""
    asked = figure(labels=(), draws=1, bits=(4,), families=("ksh",), sample=200)
    rows = [row for some in asked.measure(pool) for row in some]
    assert {(row["labels"], row["kept"]) for row in rows} == {(200, 200)}
    assert "query_seconds" in rows[0]
    assert figure(families=()).names == ("lsh", "klsh", "metric-lsh", "ksh", "ksh-learned")


def test_the_slack_of_a_learned_kernel_is_chosen_on_its_own_labels(pool):
    """By cross-validation; the family that is measured has it."""
    _, choosing = queries_of_draws(pool, 5, 5, 1, known=True)
    draw = Draw.of(pool, choosing.X, kernel="chi2", n_landmarks=50, seed=1, n_sample=300, n_labels=80)
    with learning_little():
        known = draw.truth >= 0
        found = validated_kernel(draw.sample[known], draw.truth[known], n_anchors=50, seed=1)
        made = forms_of("ksh-learned", draw)[""](8)
    assert found.scores.keys() == set(GAMMAS[:2])
    assert all(0 < score <= 1 for score in found.scores.values())
    assert made.gamma == draw.kernel_gamma == found.gamma == max(found.scores, key=found.scores.get)
    assert FAMILIES["ksh-learned"]().gamma == 0.1


def test_votes_are_counted_by_hand():
    """Ten nearest: six and four of a class for one query, five each for the other, and 1 is nearer."""
    classes = np.array([0] * 6 + [1] * 6)
    first = np.arange(12.0)
    second = np.array([6, 7, 8, 9, 10, 20, 1, 2, 3, 4, 5, 21.0])
    for own, share in (([0, 1], 1.0), ([0, 0], 0.5), ([1, 0], 0.0)):
        assert share_of_right_votes(np.array([first, second]), classes, np.array(own)) == share


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--labels", 500), "500 labels are to be learned from, and the classes of 400 items are known"),
        (("--family", "lsh"), "figures 5 and 6 show differences to ksh: add --family ksh, got lsh"),
        (("--family", "theirs"), "a family is one of lsh"),
        (("--queries", 1_000), "4,000 held-out items of known class are needed as queries"),
        (("--epsilon", 1), "--epsilon is for --what coverage and neighbours, not for precision"),
        (("--nearest", 1), "--nearest is for --what coverage and neighbours, not for precision"),
    ],
)
def test_bad_values_are_one_sentence(pool, words, message, tmp_path):
    """With exit code 2; nothing is measured."""
    small = ("--queries", 5, "--retrieved", 5, "--sample", 400)
    result = run("--pool", pool.path, *small, "--figures", tmp_path / "figures", *words)
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")
    assert "Traceback" not in result.output


def test_several_numbers_of_labels_are_for_figures(pool):
    """Without them, one is measured."""
    result = run("--pool", pool.path, "--labels", 40, "--labels", 60)
    assert result.exit_code == 2
    assert (
        "one number of labels is measured for precision, got 40, 60: several are for --figures"
        in " ".join(result.output.split())
    )
