"""Sentences of the report, from made-up results."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from scipy import stats

from closecall.app.cli.main import main
from closecall.app.experiments.compare.similar.plan import SimilarityPlan
from closecall.app.experiments.compare.similar.report import best_of, headline, rivals_of
from closecall.app.experiments.compare.similar.results import (
    REFUSED,
    YARDSTICKS,
    Lane,
    SimilarityResults,
    schema,
    write_unit,
)
from closecall.app.experiments.compare.unit import write_table
from closecall.app.experiments.compare.wording import signed
from closecall.core.errors import InputError
from closecall.core.experiment.similarity import Measured
from closecall.core.pool.build import build
from tests.families import learning_little
from tests.unit.app.experiments.histograms import ten_classes

N_ITEMS = 1_000
RIGHT = np.tile([1.0, 0.0], 20)
"""Whether each of 40 queries finds the nearest item, for a family that finds it for every other query."""


def plan(families, **changed):
    words = {"bits": (16,), "draws": 1, "queries": len(RIGHT), "neighbours": 20, "share": 0.005}
    words |= {"kernel": "chi2", "landmarks": 60, "labels": 100, "seed": 0, "pool_digest": ""}
    return SimilarityPlan(pool="pool", families=tuple(families), **{**words, **changed})


def results(**nearest):
    """Results of families whose queries have these values of recall@5."""
    n_queries = len(next(iter(nearest.values())))
    found = {Lane(name.replace("_", "-"), ""): np.asarray(values, float) for name, values in nearest.items()}
    return SimilarityResults(
        plan((lane.family for lane in found), queries=n_queries),
        range(N_ITEMS),
        None,
        dict.fromkeys(found, "angle"),
        {},
        found,
    )


def rivals(measured):
    return [lane.family for lane in rivals_of(measured, best_of(measured))]


def test_a_family_that_finds_nothing_is_not_as_good():
    """However few the queries are, and however wide the interval of the difference."""
    once = np.arange(len(RIGHT)) == 0
    almost = RIGHT.copy()
    almost[:2] = 0.0, 0.9
    few = results(spectral=once | (np.arange(40) == 1), lsh=np.zeros(40), klsh=once)
    assert rivals(few) == []
    measured = results(spectral=RIGHT, lsh=np.zeros(40), klsh=once, metric_lsh=almost)
    assert rivals(measured) == ["metric-lsh"]
    assert headline(measured).endswith(
        "among the first 5 for 50\N{NO-BREAK SPACE}% of the queries; 1 other may be as good."
    )


def test_differences_are_paired_by_query():
    """A family that always finds a little less is not as good; with other queries it would be, unpaired."""
    values = np.linspace(0.1, 1, 40)
    assert rivals(results(spectral=values, lsh=values - 0.02)) == []
    assert rivals(results(spectral=values, lsh=values[::-1] - 0.02)) == ["lsh"]


@pytest.mark.parametrize(
    ("nearest", "said"),
    [
        (
            {"lsh": np.zeros(40), "spectral": np.zeros(40)},
            "No family clearly finds the nearest of 1,000 items more often than 5 random items would.",
        ),
        (
            {"lsh": [1, 0], "spectral": [0, 0]},
            "of the queries; there are too few queries to judge the others.",
        ),
        (
            {"lsh": [0]},
            "No family clearly finds the nearest of 1,000 items more often than 5 random items would.",
        ),
        ({"lsh": RIGHT}, "for 50\N{NO-BREAK SPACE}% of the queries."),
    ],
)
def test_headlines_of_runs_that_say_little(nearest, said):
    """Nothing found, too few queries, one family."""
    assert headline(results(**nearest)).endswith(said)


def test_results_without_the_recall_of_each_query_are_refused(tmp_path):
    """They are of an earlier version, whose headline would be another."""
    one = plan(["lsh"])
    unit = one.units[0]
    table = schema().empty_table().replace_schema_metadata({YARDSTICKS: "{}", REFUSED: "{}"})
    (tmp_path / "units").mkdir()
    write_table(tmp_path / "units" / unit.file, table)
    with pytest.raises(InputError, match=r"lsh-draw-00.parquet is of another version: choose another folder"):
        SimilarityResults.read(one, range(N_ITEMS), tmp_path)
    write_unit(tmp_path, unit, Measured([], {"": "angle"}, {}, {"": [1.0, 0.0]}))
    assert SimilarityResults.read(one, range(N_ITEMS), tmp_path).nearest[Lane("lsh", "")].tolist() == [1, 0]


def written(tmp_path, *words):
    """The text of the report of a comparison on 900 items."""
    pool = build(ten_classes(900, 100), tmp_path / "pool", threads=1).path
    sizes = ("--bits", 16, "--queries", 15, "--landmarks", 60, "--neighbours", 20)
    command = ("compare", "similar", "--pool", pool, "--out", tmp_path / "out", *sizes, *words)
    result = CliRunner().invoke(main, [str(word) for word in command])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    page = re.sub("<svg.*?</svg>", "", page[page.index("<main>") :], flags=re.DOTALL)
    return " ".join(re.sub("<[^>]*>", " ", page).split()).replace("\N{NO-BREAK SPACE}", " ")


def drawn(**values):
    """Results of families with one value of recall@5 in each draw that has a number."""
    found = {Lane(name.replace("_", "-"), ""): own for name, own in values.items()}
    rows = [
        {"family": lane.family, "form": "", "draw": draw, "bits": 16, "retrieved": 5}
        | {"measure": "nearest", "value": value}
        for lane, own in found.items()
        for draw, value in own.items()
    ]
    of_all = plan((lane.family for lane in found), draws=max(map(len, found.values())))
    table = pa.Table.from_pylist(rows, schema=schema())
    return SimilarityResults(of_all, range(N_ITEMS), table, dict.fromkeys(found, "angle"), {}, {})


def student(values):
    """The ends of Student's 95 % interval of the mean."""
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return np.mean(values) - half, np.mean(values) + half


def test_differences_to_lsh_are_paired_by_draw():
    """Student's interval of the draws that both families have, in whatever order they were measured."""
    lsh = {3: 0.4, 0: 0.1, 1: 0.2, 2: 0.3}
    spectral = {0: 0.15, 1: 0.24, 2: 0.36}
    measured = drawn(lsh=lsh, spectral=spectral)
    gain = measured.gain(Lane("spectral", ""), Lane("lsh", ""), "nearest", bits=16, retrieved=5)
    assert (gain.low, gain.high) == pytest.approx(student([0.05, 0.04, 0.06]))
    assert gain.mean == pytest.approx(0.05)
    assert not gain.is_open
    apart = drawn(lsh=lsh, spectral={7: 0.9})
    assert apart.gain(Lane("spectral", ""), Lane("lsh", ""), "nearest", bits=16, retrieved=5) is None


@pytest.mark.slow
def test_the_report_of_a_small_run_says_nothing_of_larger_ones(tmp_path):
    """One draw of one family that learns nothing; all items are fitted to, timed, and among 100 searched."""
    said = written(tmp_path, "--family", "lsh", "--draws", 1)
    for word in ("landmarks", "labels", "8,192", "draws", "γ", "Ranks", "scales", "learned", " 10 %"):
        assert word not in said, word
    assert "Building is fitting and hashing every item." in said
    assert "A family is fitted to all 900 items." in said
    assert "among the 1 whose codes differ least (0.11 % of the pool)" in said
    assert "with a limit of 11.1 %" in said
    assert "at most 11.1 % of the pool ranked exactly" in said


@pytest.mark.slow
def test_the_report_says_what_was_chosen_and_learned(tmp_path, monkeypatch):
    """By families that do so, in two draws."""
    monkeypatch.setattr("closecall.app.experiments.compare.similar.comparison.draw_figures", lambda *_: {})
    with learning_little():
        said = written(tmp_path, "--family", "klsh", "--family", "metric-lsh", "--draws", 2, "--labels", 300)
    for sentence in (
        "kernel chi2, 60 landmarks; at most 300 labels.",
        "every item, without learning the metric and choosing ranks, scales and γ.",
        "Ranks and scales are means over draws.",
        "Cross-validation chooses γ, the slack of a learned metric or kernel, in each draw.",
        "The learned metric is learned from the classes of such items.",
    ):
        assert sentence in said, sentence
    assert "Small figures" not in said  # two draws have no intervals


@pytest.mark.slow
def test_the_report_has_intervals_over_draws_and_differences_to_lsh(tmp_path, monkeypatch):
    """As computed from the table of results; a difference whose interval contains zero is open."""
    monkeypatch.setattr("closecall.app.experiments.compare.similar.comparison.draw_figures", lambda *_: {})
    said = written(tmp_path, "--family", "spectral", "--family", "lsh", "--draws", 4)
    assert (
        "95 % intervals over 4 draws, which have the same queries (Student’s t), and differences to LSH"
        in said
    )
    assert "The first column is the primary one." in said
    rows = pq.read_table(tmp_path / "out" / "results.parquet").to_pylist()
    measured = [row for row in rows if row["measure"] == "nearest" and row["retrieved"] == 1]
    values = {
        (row["family"], row["form"], row["draw"]): 100 * row["value"] for row in measured if row["bits"] == 16
    }
    lsh = np.array([values["lsh", "", draw] for draw in range(4)])
    for family, form in {key[:2] for key in values}:
        own = np.array([values[family, form, draw] for draw in range(4)])
        low, high = student(own)
        assert f" {own.mean():.1f} {low:.1f} to {high:.1f} " in said
        if family != "lsh":
            low, high = student(own - lsh)
            told = f"{signed((own - lsh).mean())} points ({signed(low)} to {signed(high)})"
            assert f"{told}, open " in said if low <= 0 <= high else f"{told} " in said
