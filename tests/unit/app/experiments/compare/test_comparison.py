from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from contextlib import contextmanager
from multiprocessing import Value
from multiprocessing.sharedctypes import RawValue
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.app.experiments.compare.command import compare
from closecall.app.experiments.compare.lanes import fit_lanes, open_lanes, tell_cost, tenths
from closecall.app.experiments.compare.plan import UNITS
from closecall.app.experiments.compare.race_plan import RacePlan, RaceUnit
from closecall.app.experiments.compare.results import RaceResults
from closecall.app.experiments.compare.similar.plan import SimilarityPlan
from closecall.app.experiments.compare.unit import TIMES, read_unit
from closecall.app.experiments.compare.workers import _Worker
from closecall.core.errors import InputError
from closecall.core.evaluation.held_out_scorer import Accuracy
from closecall.core.linear.svm import DEFAULT_C
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.selection import make_strategy
from closecall.core.simulation.race import Course, Race, Turn
from tests.fakes import FakeSource
from tests.folders import ROOT

pytestmark = pytest.mark.xdist_group("compare")  # a comparison is finished once, for all

PAGE = ROOT / "docs" / "compare.md"

WORDS = ("--classes", "a,c", "--runs", "2", "--iterations", "12", "--first", "2", "--seed", "3")
STRATEGIES = (
    "--strategy",
    "random",
    "--strategy",
    "exhaustive",
    "--strategy",
    "h-hash-weighted:n_functions=60",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    source = FakeSource(700, 8, classes=("a", "b", "c"), held_out=range(0, 700, 7), lean=1.0)
    path = tmp_path_factory.mktemp("compare") / "pool"
    build(source, path)
    return path


def command(folder, out, *words):
    return ["compare", "--pool", str(folder), "--out", str(out), *WORDS, *STRATEGIES, *words]


def run(*words):
    result = CliRunner().invoke(main, command(*words))
    assert result.exit_code == 0, result.output
    return result.output


def refused(*words):
    result = CliRunner().invoke(main, command(*words))
    assert result.exit_code == 2, result.output
    return result.output


def table(out):
    """All results but the times."""
    return pq.read_table(out / "results.parquet").drop_columns(list(TIMES))


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory):
    """A comparison that ran to its end with one worker."""
    out = tmp_path_factory.mktemp("finished") / "out"
    run(folder, out, "--workers", "1")
    return out


@pytest.fixture
def undrawn(monkeypatch):
    """Neither figures nor report, where a test is about results alone: they take most of the time."""
    monkeypatch.setattr("closecall.app.experiments.compare.comparison.draw_figures", lambda *_: {})
    monkeypatch.setattr("closecall.app.experiments.compare.comparison.write_report", lambda *_: "not written")


@pytest.mark.thorough
@pytest.mark.slow
def test_every_unit_is_the_race_of_its_words(folder, finished):
    """Class, run, seed and first labels are those that were asked for."""
    pool = Pool.open(folder)
    rows = table(finished).to_pylist()
    for positive in (0, 2):
        for number in (0, 1):
            drawn = 3 + number  # each run has its own random choices
            strategies = {
                "random": make_strategy("random", random_state=drawn).fit(pool),
                "exhaustive": make_strategy("exhaustive", random_state=drawn).fit(pool),
                "h-hash-weighted:n_functions=60": make_strategy(
                    "h-hash-weighted", random_state=drawn, n_functions=60
                ).fit(pool),
            }
            race = Race(pool, strategies, Course(positive=positive, run=number, n_first=2, seed=3))
            turns = [turn for _ in range(12) for turn in race.step()]
            for name in strategies:
                mine = [
                    row
                    for row in rows
                    if (row["positive"], row["run"], row["strategy"]) == (positive, number, name)
                ]
                assert [row["round"] for row in mine] == list(range(13))
                assert tuple(mine[0][measure] for measure in Accuracy._fields) == race.first_accuracy
                assert mine[0]["item"] is None
                own = [turn for turn in turns if turn.strategy == name]
                assert [row["item"] for row in mine[1:]] == [turn.item for turn in own]
                for measure in Accuracy._fields:
                    assert [row[measure] for row in mine[1:]] == [
                        getattr(turn.accuracy, measure) for turn in own
                    ]
                assert [row["digest"] for row in mine[1:]] == [turn.hyperplane.digest for turn in own]


def test_a_workers_first_round_of_a_run_is_not_recorded(folder, tmp_path, monkeypatch):
    """It compiles kernels and reads the run's indexes; recorded is a repetition of the same round."""
    rounds: list[tuple[int, list[int]]] = []
    step = Race.step

    def noted(race: Race) -> list[Turn]:
        turns = step(race)
        rounds.append((race.course.run, [turn.item for turn in turns]))
        return turns

    monkeypatch.setattr(Race, "step", noted)
    plan = RacePlan(str(folder), Pool.open(folder).digest, (0,), 2, 3, ("exhaustive", "random"))
    (tmp_path / UNITS).mkdir()
    worker = _Worker(plan, tmp_path, 1, RawValue("b", 0), Value("q", 0))
    worker.run(RaceUnit(0, 0))
    worker.run(RaceUnit(0, 1))
    assert [number for number, _ in rounds] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert rounds[0] == rounds[1]
    recorded = read_unit(tmp_path, RaceUnit(0, 0)).to_pylist()
    of_exhaustive = [row["item"] for row in recorded if row["strategy"] == "exhaustive"]
    assert of_exhaustive == [None, *(items[0] for _, items in rounds[1:4])]


@pytest.mark.thorough
@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_workers(folder, finished, tmp_path, undrawn):
    """To the last bit."""
    run(folder, tmp_path / "out", "--workers", "2")
    assert table(tmp_path / "out").equals(table(finished))


def start(folder, out, *words):
    """The command in a process of its own."""
    line = [sys.executable, "-m", "closecall.app.cli", *command(folder, out, *words)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for_units(out, n):
    """Until so many units are finished."""
    patience = time.monotonic() + 600
    while len(list(out.glob("units/*.parquet"))) < n:
        assert time.monotonic() < patience
        time.sleep(0.002)


@pytest.mark.slow
def test_a_comparison_that_is_stopped_continues(folder, finished, tmp_path, undrawn, monkeypatch):
    """By Ctrl+C, when the first unit is finished."""

    @contextmanager
    def stopped_at_the_first(*_):
        def advance(_, n_finished):
            if n_finished:
                raise KeyboardInterrupt

        yield advance

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("closecall.app.experiments.compare.comparison._shown", stopped_at_the_first)
        stopped = CliRunner().invoke(main, command(folder, out, "--workers", "1"))
    assert stopped.exit_code == 130
    assert "the same command continues" in stopped.output
    assert not (out / "results.parquet").exists()
    assert re.search(r"[123] of 4 are done already", run(folder, out, "--workers", "1"))
    assert table(out).equals(table(finished))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_an_interrupted_comparison_ends_as_an_uninterrupted_one(folder, finished, tmp_path, sign, undrawn):
    """Killed, or told to stop, when a unit is finished and others are under way."""
    out = tmp_path / "out"
    process = start(folder, out, "--workers", "1")
    wait_for_units(out, 1)
    process.send_signal(sign)
    said, _ = process.communicate(timeout=300)  # which ends when the last worker has closed it, too
    if sign != signal.SIGKILL:
        assert process.returncode == 130
        assert "the same command continues" in said
    assert not (out / "results.parquet").exists()
    assert "of 4 are done already" in run(folder, out, "--workers", "2")
    assert table(out).equals(table(finished))


@pytest.mark.slow
def test_finished_units_are_not_run_again(folder, finished, undrawn):
    """Nor are indexes built again."""
    before = {path: path.stat().st_mtime_ns for path in finished.glob("units/*")}
    assert "4 of 4 are done already" in run(folder, finished)
    assert {path: path.stat().st_mtime_ns for path in finished.glob("units/*")} == before


@pytest.mark.slow
def test_other_words_for_the_same_folder_are_refused(folder, finished):
    """The sentence says what differs."""
    assert "seed 3, not 4" in refused(folder, finished, "--seed", "4")
    assert "classes a, c, not a, c, b" in refused(folder, finished, "--classes", "a,b,c")
    assert "C 10.0, not 2.0" in refused(folder, finished, "--C", "2")


@pytest.mark.slow
def test_the_manifest_says_how_it_was_made(folder, finished):
    """Words, pool, versions, machine."""
    manifest = json.loads((finished / "manifest.json").read_text("utf-8"))
    assert manifest["plan"]["seed"] == 3
    assert manifest["classes"] == ["a", "c"]
    assert manifest["pool"]["digest"] == Pool.open(folder).digest
    assert manifest["versions"]["numpy"] == np.__version__
    assert manifest["workers"] == [1]
    assert manifest["machine"]["cores"] == os.cpu_count()


@pytest.mark.slow
def test_results_as_arrays(folder, finished):
    """Each value stands where its strategy, unit and round are."""
    results = RaceResults.read(RacePlan.read(finished), Pool.open(folder), finished)
    assert results.auroc.shape == (3, 4, 13)
    assert results.margin.shape == results.item.shape == (3, 4, 12)
    assert results.units == [RaceUnit(0, 0), RaceUnit(0, 1), RaceUnit(2, 0), RaceUnit(2, 1)]
    for row in table(finished).to_pylist():
        place = results.names.index(row["strategy"]), results.units.index((row["positive"], row["run"]))
        assert results.auroc[*place, row["round"]] == row["auroc"]
        assert results.average_precision[*place, row["round"]] == row["average_precision"]
        assert results.recall[*place, row["round"]] == row["recall"]
        if row["round"]:
            assert results.item[*place, row["round"] - 1] == row["item"]
            assert results.margin[*place, row["round"] - 1] == row["margin"]
    assert (results.gain[:, :, 0] == 0).all()
    by_hand = 100 * (results.auroc[1, 2, 1:] - results.auroc[1, 2, 0]).mean()
    assert results.mean_gain[1, 2] == pytest.approx(by_hand)


@pytest.mark.slow
def test_figures_and_report_are_there(finished):
    """The report needs nothing beside it, names every strategy, and refers to no id that it hasn't."""
    for name in ("learning", "above-random", "times", "spent", "first"):
        assert (finished / f"{name}.svg").stat().st_size > 1000
        assert (finished / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    page = (finished / "report.html").read_text("utf-8")
    assert re.findall(r'(?:src|href|url)=?["(](?!data:|#)[^")]*', page) == []
    for label in ("Random", "Exhaustive", "H-Hash, weighted, n_functions=60"):
        assert label in page
    assert "There are only 2 classes, too few to judge: intervals need at least 3." in page
    assert "95&nbsp;%" not in page
    assert not re.search("[0-9] %", page)
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', page)) <= set(ids)


def text(out):
    """The report's text without the figures."""
    page = (out / "report.html").read_text("utf-8")
    page = re.sub("<svg.*?</svg>", "", page[page.index("<main>") :], flags=re.DOTALL)
    page = " ".join(re.sub("<[^>]*>", " ", page).split())
    return page.replace("&nbsp;", " ").replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.slow
def test_the_report_of_one_race_says_nothing_of_several(tmp_path):
    """Of one strategy without claims, in a pool with more classes than get first labels."""
    source = FakeSource(700, 8, classes=tuple("abcdefghijklmnopqrstuvwxy"), held_out=range(0, 700, 7))
    pool = build(source, tmp_path / "pool").path
    words = ("--classes", "a", "--runs", 1, "--iterations", 2, "--first", 1, "--strategy", "random")
    command = ("compare", "--pool", pool, "--out", tmp_path / "out", "--workers", 1, *words)
    result = CliRunner().invoke(main, [str(word) for word in command])
    assert result.exit_code == 0, result.output
    said = text(tmp_path / "out")
    words = ("laims", "sceptic", "95 %", "intervals are", "dotted", "next figure", "Wilcoxon", "Holm")
    for word in (*words, "take turns", "separately", "the same for", "The first 7", "mean over", "and races"):
        assert word not in said, word
    assert "1 query strategy compared." in said
    assert "1 class, 1 run, 2 labels" in said
    assert "There is one race only, so nothing can be concluded" in said
    begins = "begins with 1 right label of each of 10 classes, the one to learn and 9 others drawn at random."
    assert begins in said


@pytest.mark.slow
def test_the_report_says_what_its_verdicts_rest_on(folder, finished, tmp_path):
    """Intervals over three classes, but not over two; p over races that resemble each other."""
    few = text(finished)
    begins = (
        "begins with 2 right labels of each of 3 classes, drawn separately for each race, the same for all"
    )
    alike = "Wilcoxon’s signed-rank test over the 4 races, adjusted by Holm for all pairs. Races of one class"
    for sentence in (begins, alike, "the mean over classes and runs", "The first 7 chosen"):
        assert sentence in few, sentence
    assert "sceptic" not in few
    assert "95 %" not in few
    words = ("--classes", "a,b,c", "--runs", "1", "--workers", "1")
    run(folder, tmp_path / "out", *words)
    said = text(tmp_path / "out")
    for sentence in (
        "A statement holds if its whole 95 % interval supports it",
        "The table above and the next figure show the intervals.",
        "bars are 95 % intervals.",
        "dotted line",
        "the mean over classes (",
    ):
        assert sentence in said, sentence
    assert "Races of one class" not in said


@pytest.mark.thorough
@pytest.mark.slow
def test_the_report_is_made_again_from_what_is_there(folder, finished):
    """For another price of a label, too, without a race; with the same words it is the same."""
    before = (finished / "report.html").read_text("utf-8")
    run(folder, finished, "--label-seconds", "60")
    assert "60 s per label" in (finished / "report.html").read_text("utf-8")
    run(folder, finished, "--workers", "2")
    assert (finished / "report.html").read_text("utf-8") == before


def test_a_busy_machine_does_not_change_the_report(folder, finished, tmp_path):
    """Times are processor times: wall-clock times that are much longer change no verdict, table or figure."""
    out = tmp_path / "busy"
    shutil.copytree(finished, out)
    for file in (out / UNITS).iterdir():
        unit = pq.read_table(file)
        for name in ("select_seconds", "train_seconds"):
            waited = [second and 10 * second + place for place, second in enumerate(unit[name].to_pylist())]
            unit = unit.set_column(unit.schema.get_field_index(name), unit.schema.field(name), [waited])
        pq.write_table(unit, file)
    run(folder, out, "--workers", "1")
    assert not pq.read_table(out / "results.parquet").equals(pq.read_table(finished / "results.parquet"))
    assert (out / "report.html").read_text("utf-8") == (finished / "report.html").read_text("utf-8")
    assert "Times are processor times" in text(out)


def children(pid):
    """The processes that a process has started."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    return [int(child) for child in listed.split()]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found as Linux lists them")
def test_a_worker_that_is_killed_is_told(folder, finished, tmp_path, undrawn):
    """As the system does where memory is short; the same command continues to the same results."""
    out = tmp_path / "out"
    process = start(folder, out, "--workers", "1")
    wait_for_units(out, 1)
    for child in children(process.pid):
        if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes():
            os.kill(child, signal.SIGKILL)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 2
    assert "A worker was killed, perhaps for lack of memory" in said
    assert "Traceback" not in said
    run(folder, out)
    assert table(out).equals(table(finished))


@pytest.mark.thorough
@pytest.mark.slow
def test_without_a_pool_it_draws_digits(tmp_path, monkeypatch, undrawn):
    """Two words are enough: nothing is downloaded."""
    monkeypatch.setattr("closecall.app.experiments.compare.folder.DIGITS", "digits:600")
    words = ["compare", "--out", str(tmp_path), "--quick", "--runs", "1", "--iterations", "3", "--first", "1"]
    result = CliRunner().invoke(main, [*words, *STRATEGIES])
    assert result.exit_code == 0, result.output
    results = pq.read_table(tmp_path / "results.parquet")
    assert len(set(results["positive"].to_pylist())) == 10
    assert max(results["round"].to_pylist()) == 3


@pytest.mark.thorough
@pytest.mark.slow
def test_somebodys_own_strategy_takes_part(folder, tmp_path, monkeypatch):
    """The documentation's class and entry point are all it needs; and one that fails is shown as such."""
    python, toml = (
        re.search(rf"```{kind}\n({begins}.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[1]
        for kind, begins in (("python", ""), ("toml", r"\[project"))
    )
    hasty = (
        "\nclass Hasty(Newest):\n"
        "    name = 'hasty'\n"
        "    def choose(self, query):\n"
        "        if len(query.exclude) > 9:\n"
        "            raise ValueError('no patience')\n"
        "        return super().choose(query)\n"
    )
    (tmp_path / "my_package.py").write_text(python + hasty)
    facts = tmp_path / "my_package-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1\n")
    named = tomllib.loads(toml)["project"]["entry-points"]["closecall.strategies"]
    lines = [f"{name} = {value}" for name, value in {**named, "hasty": "my_package:Hasty"}.items()]
    (facts / "entry_points.txt").write_text("\n".join(["[closecall.strategies]", *lines]))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    out = tmp_path / "out"
    process = start(folder, out, "--strategy", "newest", "--strategy", "hasty")
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    ids = Pool.open(folder).ids
    for row in table(out).to_pylist():
        if row["strategy"] == "newest" and row["round"] == 1:
            assert row["item"] in ids[-10:]
    page = (out / "report.html").read_text("utf-8")
    assert "Newest" in page
    assert "run here: ValueError: no patience. It had 16 of 48 rounds." in page


def test_one_of_a_kind_is_named_in_the_singular(folder):
    """Both kinds of comparison say how large they are."""
    pool = Pool.open(folder)
    races = RacePlan(str(folder), pool.digest, (0,), 1, 1, ("random",)).size(pool)
    assert races.endswith(": 600 items; 1 × 1 race of 1 strategy over 1 label.")
    numbers = (1, 1, 10, 0.01, "cosine", 20, 2, 0)
    families = SimilarityPlan(str(folder), pool.digest, ("lsh",), (16,), *numbers).size(pool)
    assert families.endswith(": 600 items; 1 family × 1 draw, 1 query.")


def test_its_svms_are_those_of_the_pages():
    """Unless it is asked for others; the command states the number, so that its help loads no SVM."""
    (option,) = [option for option in compare.params if option.name == "C"]
    assert option.default == DEFAULT_C == RacePlan.C == Course.C


def test_what_cannot_be_raced_is_refused(folder, tmp_path):
    """Before anything is written but the folder."""
    out = tmp_path / "out"
    assert "a peer must be one of scikit-activeml" in refused(folder, out, "--peer", "theirs")
    assert "no class 'z'; it has a, b, c" in refused(folder, out, "--classes", "z")
    assert "strategy must be one of" in refused(folder, out, "--strategy", "nearest")
    assert "n_scored and run_length must be" in refused(folder, out, "--strategy", "subsample:n_scored=0")
    for word, why in {
        "h-hash:n_functions=0": "n_functions must be at least 1, got 0",
        "eh-hash:query_samples=0": "query_samples must be at least 1 or None, got 0",
        "lbh-hash:n_samples=0": "n_samples must be at least 1, got 0",
        "h-hash-weighted:scale=0": "scale must be positive and finite, got 0",
        "bh-hash-weighted:n_directions=0": "n_directions must be at least 1 or None, got 0",
        "eh-hash-weighted:rank=0": "rank must be",
    }.items():
        assert why in refused(folder, out, "--strategy", word), word
    assert [path.name for path in out.iterdir()] == ["comparison.lock"]
    said = refused(folder, out, "--iterations", "595")
    assert "595 labels after 3 × 2 first ones need 601 items" in said
    unknown = tmp_path / "unknown"
    build(FakeSource(50, 4, classes=("a", "b")), unknown)
    assert "no held-out items of known class" in refused(unknown, tmp_path / "other")


def test_a_folder_with_the_former_names_of_hashing_is_refused(folder, finished, tmp_path):
    """There, h-hash was the weighted form; a comparison without hashing goes on."""
    for strategies, there in ((["random", "h-hash:n_functions=60"], False), (["random"], True)):
        out = tmp_path / str(there)
        words = json.loads((finished / "comparison.json").read_text("utf-8"))
        del words["names_version"]
        out.mkdir()
        (out / "comparison.json").write_text(json.dumps({**words, "strategies": strategies}), "utf-8")
        if there:
            assert RacePlan.read(out).strategies == ("random",)
        else:
            with pytest.raises(InputError, match="now called h-hash-weighted: choose another folder"):
                RacePlan.read(out)


@pytest.mark.thorough
def test_what_takes_long_to_prepare_is_told_before_and_meanwhile(folder, tmp_path, undrawn):
    """Dense EH-Hash: its time and memory, then how far it is; nothing of strategies that take seconds."""
    told: list[str] = []
    index = make_strategy("eh-hash", n_functions=20)
    tell_cost(index, Pool.open(folder), told.append)
    assert len(told) == 1
    assert re.fullmatch(r"Preparing eh-hash takes about \d+ s and 0\.2 GB\.", told[0])
    tell_cost(make_strategy("h-hash"), Pool.open(folder), told.append)
    assert len(told) == 1
    said: list[str] = []
    progress = tenths("eh-hash", said.append)
    for done in range(0, 701, 35):
        progress(done, 700)
    assert said == [f"eh-hash: {share} %" for share in range(10, 101, 10)]
    short = ("--classes", "a", "--runs", "1", "--iterations", "1", "--workers", "1")
    out = run(folder, tmp_path / "out", "--strategy", "eh-hash:n_functions=20", *short)
    assert (
        out.index("Preparing eh-hash takes about")
        < out.index("eh-hash: 100 %")
        < out.index("Prepared eh-hash")
    )


def test_each_run_draws_its_own_hash_functions(folder, tmp_path):
    """The same for all classes of a run."""
    pool, out, told = Pool.open(folder), tmp_path / "out", []
    words = {"first": 2, "iterations": 5, "runs": 2, "seed": 3}
    strategies = ("h-hash-weighted:n_functions=60", "exhaustive")
    plan = RacePlan.of(pool, classes=(), most_classes=None, strategies=strategies, peers=(), **words)
    fit_lanes(plan, pool, out, range(plan.runs), told.append)
    assert [line.split(" in ")[0] for line in told] == [
        "Prepared h-hash-weighted for run 1 of 2",
        "Prepared h-hash-weighted for run 2 of 2",
    ]
    first, second, again = (open_lanes(plan, pool, out, run) for run in (0, 1, 0))
    codes = [lanes[strategies[0]].arrays() for lanes in (first, second, again)]
    assert all(np.array_equal(codes[0][name], codes[2][name]) for name in codes[0])
    assert not all(np.array_equal(codes[0][name], codes[1][name]) for name in codes[0])
    assert [first[strategies[0]].random_state, second[strategies[0]].random_state] == [3, 4]


def test_a_strategy_that_cannot_cover_the_pool_is_refused_before_any_work(tmp_path):
    """In a sentence that names what takes its place."""
    build(FakeSource(300, 1001, classes=("a", "b"), held_out=range(0, 300, 7)), tmp_path / "wide")
    words = ["compare", "--pool", str(tmp_path / "wide"), "--out", str(tmp_path / "out"), "--iterations", "5"]
    result = CliRunner().invoke(main, [*words, "--strategy", "margin-index", "--strategy", "eh-hash"])
    assert result.exit_code == 2, result.output
    assert "eh-hash takes at most 1,000 features" in result.output
    assert "Prepared margin-index" not in result.output
