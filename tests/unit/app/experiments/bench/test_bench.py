from __future__ import annotations

import json
import re
import threading
import time
from typing import Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from closecall.app.cli.main import main
from closecall.app.experiments.bench import bare_model
from closecall.core.errors import InputError
from closecall.core.evaluation.rank import BruteForce
from closecall.core.experiment.corpus import Corpus
from closecall.core.experiment.planes import Plane, one_vs_all
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.onnx.runtime import open_session
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.selection import STRATEGIES, Choice, Query, QueryStrategy, strategy_names
from closecall.core.sources import source_from
from tests.fakes import FakeSource
from tests.onnx_kit import write_model
from tests.yardsticks import median_rank_of_best, rank_of

SELECT_KEYS = {
    "strategy",
    "data",
    "planes_of",
    "setting",
    "items",
    "dim",
    "threads",
    "queries",
    "median_ms",
    "p90_ms",
    "cpu_ms_per_round",
    "rank_median",
    "recall_at_1",
    "recall_at_1_low",
    "margin_median",
    "margin_box",
    "ms_box",
    "scored_median",
    "ratio_to_exhaustive",
    "rank_of_equal_time_subsample",
    "ratio_to_subsample",
    "ratio_to_subsample_low",
    "ratio_to_subsample_high",
}
BUILD_KEYS = {"images_per_second", "items", "seconds", "peak_memory_mb", "memory_growth_mb"}
MODEL_KEYS = {"threads", "model_images_per_second", "ratio_to_model", "cpu_ratio_to_model"}


PAPER = "C=1, unweighted, 5 a class"


class ThirdNearest(QueryStrategy):
    """Selects the item of rank 2, remembers a hyperplane by its digest, and tells what it was asked."""

    name = "third-nearest"
    asked: ClassVar[list[tuple[str, object]]] = []

    def choose(self, query: Query) -> Choice:
        self.asked.append((query.plane().digest, query.memory))
        margins = np.abs(query.plane().scores(self.pool_.rows(np.arange(len(self.pool_)))))
        margins[~query.allowed(self.pool_.ids)] = np.inf
        row = np.argsort(margins)[2:3]
        return Choice(self.pool_.ids[row], margins[row], scored=len(margins))

    def remember(self, hyperplanes):
        return [plane.digest for plane in hyperplanes]


@pytest.fixture
def third_nearest(monkeypatch):
    monkeypatch.setitem(STRATEGIES, ThirdNearest.name, ThirdNearest)
    monkeypatch.setattr(ThirdNearest, "asked", [])
    return ThirdNearest


@pytest.fixture
def pool(tmp_path):
    source = FakeSource(900, 8, classes=("a", "b", "c"), held_out=range(0, 900, 9), lean=2.0)
    return build(source, tmp_path / "pool")


def run(*words: object):
    return CliRunner().invoke(main, ["bench", *map(str, words)])


def select(pool: Pool, *words: object) -> list[dict]:
    """The rows of `bench select`."""
    file = pool.path.parent / "select.json"
    result = run("select", "--pool", pool.path, "--json", file, *words)
    assert result.exit_code == 0, result.output
    return json.loads(file.read_text())


def refused(*words: object) -> str:
    """The one sentence that bad input gets."""
    result = run(*words)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def session_planes(pool: Pool, setting: str, n_sessions: int, n_rounds: int) -> list[Plane]:
    """Sessions of hyperplanes that are as good as any."""
    rng = np.random.default_rng(len(setting))
    return [
        Plane(Hyperplane(rng.standard_normal(pool.n_features), 0.0), pool.ids[:t], 0, setting, session, t)
        for session in range(n_sessions)
        for t in range(n_rounds)
    ]


def test_select_scans_on_a_device_too(pool, tmp_path):
    """Beside the processors, in one run; a missing device is refused in a sentence."""
    rows = select(
        pool, "--queries", 5, "--strategy", "random", "--device", "cpu", "--items", 50, "--items", 700
    )
    own = [row for row in rows if row["strategy"] == "exhaustive on cpu"]
    assert [row["items"] for row in own] == [50, 700]
    assert [row["recall_at_1"] for row in own] == [1, 1]
    result = run("select", "--pool", pool.path, "--device", "cuda:99")
    assert result.exit_code == 2
    assert "finds no cuda:99 here" in result.output


def test_select_compares_on_sparse_rows_too(tmp_path):
    """The bare product is SciPy's there, and the subsample's too."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(3, 9, 200)
    points = rng.random((sizes.sum(), 2)) + np.repeat(np.arange(200) % 2, sizes)[:, None]
    np.savez(tmp_path / "p.npz", points=points, sizes=sizes)
    (tmp_path / "c.txt").write_text("a\nb\n" * 100)
    pool = build(source_from(f"points:{tmp_path / 'p.npz'},{tmp_path / 'c.txt'}"), tmp_path / "pool")
    assert pool.is_sparse
    rows = select(pool, "--queries", 2, "--strategy", "random")
    assert sorted(row["strategy"] for row in rows) == ["exhaustive", "random", "scipy-scan"]
    ranks = {row["strategy"]: row["rank_median"] for row in rows}
    assert ranks["scipy-scan"] == ranks["exhaustive"] == 0
    result = run("select", "--pool", pool.path, "--device", "cpu", "--queries", 2)
    assert result.exit_code == 2
    assert "--device needs dense rows" in result.output


def test_select_writes_a_row_for_each_strategy(pool, tmp_path):
    """`bench select` gives a row a strategy with the promised keys, both full scans always among them."""
    words = ["random", "subsample:n_scored=20", "h-hash-weighted:structure=orders,n_candidates=30"]
    rows = select(pool, "--queries", 4, *(part for word in words for part in ("--strategy", word)))
    assert sorted(row["strategy"] for row in rows) == sorted([*words, "exhaustive", "blas-scan"])
    for row in rows:
        assert set(row) >= SELECT_KEYS
        assert (row["data"], row["setting"], row["items"], row["dim"]) == ("pool", PAPER, len(pool), 8)
        assert (row["queries"], row["threads"]) == (4, 1)
        assert 0 <= row["median_ms"] <= row["p90_ms"]
        assert 0 <= row["recall_at_1_low"] <= row["recall_at_1"] <= 1
        assert row["ratio_to_subsample_low"] <= row["ratio_to_subsample"] <= row["ratio_to_subsample_high"]
    scored = {row["strategy"]: row["scored_median"] for row in rows}
    assert [scored[word] for word in words[:2]] == [1, 20]
    # Labeled rows among the nearest codes are left out, and codes can differ in their last bits by processor.
    assert 30 // 2 <= scored[words[2]] <= 30


def test_select_shows_every_strategy_in_a_table(pool):
    """What is printed has a line for each, and says what the columns mean."""
    result = run("select", "--pool", pool.path, "--queries", 3, "--strategy", "random")
    lines = result.output.splitlines()
    assert f"pool, {len(pool)} × 8; {PAPER}: 3 hyperplanes of pool, 1 BLAS thread." in lines
    assert {line.split()[0] for line in lines if "%" in line and "(" in line} >= {"random", "exhaustive"}
    assert lines[-1].startswith("ms: median time")


def test_full_scans_are_exact(pool):
    """What scores every item finds the nearest, and scores as many items as the pool has."""
    for row in select(pool, "--queries", 6, "--strategy", "exhaustive"):
        assert row["rank_median"] == row["rank_p99"] == 0
        assert row["recall_at_1"] == 1
        assert row["scored_median"] == len(pool)
        assert row["ratio_to_equal_rows"] == pytest.approx(1)
        if row["strategy"] == "exhaustive":
            assert row["ratio_to_exhaustive"] == row["p90_ratio_to_exhaustive"] == 1


def test_likely_positives_are_ranked_by_their_scores(pool):
    """Few of them are near the hyperplane, where the others are."""
    words = ("likely-positive", "likely-positive:scans=true", "exhaustive")
    rows = select(pool, "--queries", 12, *(part for word in words for part in ("--strategy", word)))
    ranks = {row["strategy"]: (row["rank_median"], row["recall_at_1"]) for row in rows}
    assert {ranks[word] for word in words} == {(0, 1)}


def test_half_precision_pools_can_be_measured(tmp_path):
    """The rows are converted as they are read; the nearest is found among them as they are stored."""
    half = build(FakeSource(300, 8, classes=("a", "b")), tmp_path / "pool", dtype="float16")
    for row in select(half, "--queries", 3, "--strategy", "subsample:n_scored=300"):
        assert row["recall_at_1"] == 1
        assert 1 <= row["rows_of_equal_time_subsample"] <= 300


def test_figures_are_those_of_brute_force(pool, third_nearest):
    """A strategy whose answers are known has their rank, margin and recall."""
    planes = one_vs_all(pool, 5, seed=3)
    margins = []
    for plane in planes:
        free = np.setdiff1d(pool.ids, plane.labeled)
        margins.append(np.sort(np.abs(plane.hyperplane.scores(pool.rows_of(free))))[2])
    rows = select(pool, "--queries", 5, "--seed", 3, "--strategy", "third-nearest")
    row = next(row for row in rows if row["strategy"] == "third-nearest")
    assert row["rank_median"] == row["rank_p99"] == 2
    assert row["recall_at_1"] == row["recall_at_1_low"] == 0
    assert row["margin_median"] == pytest.approx(np.median(margins), rel=1e-6)
    assert row["ratio_to_equal_rows"] == pytest.approx(3)


class Waiting(ThirdNearest):
    """Waits, as strategies do for a processor on a busy machine."""

    name = "waiting"

    def choose(self, query: Query) -> Choice:
        time.sleep(0.02)
        return super().choose(query)


def test_select_warns_of_strategies_that_waited_for_a_processor(pool, monkeypatch, third_nearest):
    """Not only of the full scan: shorter selections may have waited for longer."""
    monkeypatch.setitem(STRATEGIES, Waiting.name, Waiting)
    result = run("select", "--pool", pool.path, "--queries", 3, "--strategy", "waiting")
    assert result.exit_code == 0, result.output
    (warning,) = (line for line in result.output.splitlines() if line.startswith("Other programs ran"))
    assert re.search(r"\bwaiting for \d+ %", warning)


class Failing(ThirdNearest):
    """Fails where a test wants it, or selects no item of the pool."""

    name = "failing"

    def __init__(self, *, at="prepare", random_state=0):
        super().__init__(random_state=random_state)
        self.at = at

    def prepare(self, *_):
        if self.at == "prepare":
            raise InputError("failing can't be prepared for this pool.")

    def choose(self, query: Query) -> Choice:
        if self.at == "memory":
            raise MemoryError
        if self.at == "item":
            return Choice(np.array([-5]), np.zeros(1), scored=1)
        if self.at == "first" or (self.at == "eighth" and len(self.asked) == 7):
            raise RuntimeError("division\nby nothing")
        return super().choose(query)


@pytest.mark.parametrize(
    ("at", "sentence"),
    [
        ("prepare", "failing can't be prepared for this pool"),
        ("memory", "it ran out of memory"),
        ("first", "RuntimeError: division by nothing"),
        ("eighth", "RuntimeError: division by nothing"),  # the second after six to warm up
    ],
)
def test_a_strategy_that_fails_leaves_the_others_to_be_measured(
    pool, tmp_path, monkeypatch, third_nearest, at, sentence
):
    """Its row says why in one sentence, and the exit status is 1; a figure shows the others."""
    monkeypatch.setitem(STRATEGIES, Failing.name, Failing)
    word = f"failing:at={at}"
    words = ("--queries", 4, "--strategy", word, "--strategy", "random", "--boxes", tmp_path / "boxes.svg")
    result = run("select", "--pool", pool.path, "--json", tmp_path / "rows.json", *words)
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert f"{word} failed: {sentence}." in result.output.splitlines()
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["strategy"] for row in rows] == ["blas-scan", "exhaustive", "random", word]
    assert rows[-1]["failure"] == sentence
    assert all(set(row) >= SELECT_KEYS and row["queries"] == 4 for row in rows[:-1])
    assert "random" in (tmp_path / "boxes.svg").read_text("utf-8").lower()


def test_a_strategy_that_selects_no_item_of_the_pool_has_failed(pool, tmp_path, monkeypatch):
    """It is not judged, nor are the others kept from it."""
    monkeypatch.setitem(STRATEGIES, Failing.name, Failing)
    result = run("select", "--pool", pool.path, "--queries", 2, "--strategy", "failing:at=item")
    assert result.exit_code == 1, result.output
    assert "failing:at=item failed: " in result.output
    assert "Traceback" not in result.output


def test_an_error_of_the_full_scan_is_not_hidden(pool, monkeypatch):
    """Everything is compared with it."""

    def failing(*_):
        raise RuntimeError("no scan")

    monkeypatch.setattr(STRATEGIES["exhaustive"], "choose_many", failing)
    result = run("select", "--pool", pool.path, "--queries", 2, "--strategy", "random")
    assert str(result.exception) == "no scan"


def test_random_selection_is_as_good_as_an_equal_subsample(pool):
    """One random item is worth as much as the nearest of one random item: the interval has 1 in it."""
    row = next(
        row for row in select(pool, "--queries", 60, "--strategy", "random") if row["strategy"] == "random"
    )
    assert row["ratio_to_equal_rows_low"] < 1 < row["ratio_to_equal_rows_high"]
    assert row["ratio_to_equal_rows"] == pytest.approx(1, abs=0.3)
    assert row["ratio_to_subsample"] > row["ratio_to_equal_rows"]


def test_select_by_default_takes_every_strategy(pool):
    """Without --strategy all of them take part, the subsample with several budgets."""
    words = [row["strategy"] for row in select(pool, "--queries", 2)]
    assert set(words) >= {*strategy_names(), "subsample:n_scored=500", "subsample:n_scored=2000"}
    assert len(set(words)) == len(words)


def test_select_measures_prefixes_of_the_pool(pool):
    """Each number of items is a pool of its own, asked with the same hyperplanes."""
    rows = select(pool, "--items", 50, "--items", 700, "--queries", 3, "--strategy", "subsample:n_scored=600")
    assert [(row["items"], row["strategy"]) for row in rows] == [
        (items, word) for items in (50, 700) for word in ("blas-scan", "exhaustive", "subsample:n_scored=600")
    ]
    small, large = rows[2], rows[5]
    assert small["scored_median"] < 50 < large["scored_median"] == 600
    assert small["rank_median"] == 0


def test_select_reads_a_corpus(pool, tmp_path, third_nearest):
    """--planes brings hyperplanes of several settings, which are also told together; --setting takes some."""
    corpus = Corpus(
        [*one_vs_all(pool, 6), *one_vs_all(pool, 6, C=10.0), *session_planes(pool, "sessions: some", 2, 4)],
        pool.digest,
    )
    corpus.save(tmp_path / "planes.npz")
    few = ("--planes", tmp_path / "planes.npz", "--strategy", "third-nearest", "--queries", 5)
    assert list(dict.fromkeys(row["setting"] for row in select(pool, *few))) == [
        *corpus.settings,
        "all single",
    ]
    together = select(pool, *few)[-1]
    assert (together["setting"], together["queries"], together["rank_median"]) == ("all single", 10, 2)
    for text, found in {PAPER: {PAPER}, "C=10": {corpus.settings[1]}, "sessions": {"sessions: some"}}.items():
        assert {row["setting"] for row in select(pool, *few, "--setting", text)} == found


def test_sessions_are_played_with_memory(pool, tmp_path, third_nearest):
    """A round gets what the strategy remembers of the one before; the first, and any with --cold, nothing."""
    planes = session_planes(pool, "sessions: some", 2, 4)
    Corpus(planes, pool.digest).save(tmp_path / "planes.npz")
    words = ("--planes", tmp_path / "planes.npz", "--strategy", "third-nearest", "--queries", 8)
    digests = [plane.hyperplane.digest for plane in planes]
    before = [None, *digests[:3], None, *digests[4:7]]
    assert select(pool, *words)[0]["queries"] == 8
    assert third_nearest.asked[-8:] == list(zip(digests, before, strict=True))
    assert select(pool, *words, "--cold")[0]["cold"]
    assert third_nearest.asked[-8:] == [(digest, None) for digest in digests]


def test_indexes_are_kept(pool, tmp_path):
    """With --indexes a second run builds nothing and selects the same; a damaged one is built anew."""
    folder = tmp_path / "indexes"
    words = ("--queries", 3, "--strategy", "bh-hash-weighted:n_functions=40", "--indexes", folder)
    first, again = (select(pool, *words)[-1] for _ in range(2))
    assert first["fit_seconds"] > 0
    assert again["fit_seconds"] is None
    assert again["margin_median"] == first["margin_median"]
    (kept,) = folder.iterdir()
    codes = kept / "structure-codes.npy"
    codes.write_bytes(codes.read_bytes()[:-1] + b"?")
    result = run("select", "--pool", pool.path, *words)
    assert "codes.npy is damaged" in result.output
    assert "Fitted bh-hash-weighted" in result.output


def test_draws_are_runs_with_other_seeds_and_have_intervals_over_them(pool):
    """Student's interval of the means of the draws, of ranks, and of their ratios to the published H-Hash."""
    names = ("h-hash", "h-hash-weighted", "random")
    words = ("--queries", 6, *(word for name in names for word in ("--strategy", name)))
    together = {row["strategy"]: row for row in select(pool, *words, "--seed", 4, "--draws", 3)}
    apart = [{row["strategy"]: row for row in select(pool, *words, "--seed", 4 + draw)} for draw in range(3)]
    for name, row in together.items():
        assert (row["draws"], row["queries"], row["baseline"]) == (3, 18, "h-hash")
        for measure in ("rank_plus_1", "rank_ratio_to_baseline"):
            logs = np.log([one[name][measure] for one in apart])
            assert row[measure] == pytest.approx(np.exp(logs.mean()))
            if np.ptp(logs):
                interval = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
                assert (row[f"{measure}_low"], row[f"{measure}_high"]) == pytest.approx(
                    tuple(np.exp(interval))
                )
    assert together["exhaustive"]["rank_plus_1"] == 1
    assert together["h-hash"]["rank_ratio_to_baseline"] == 1
    for row in together.values():
        assert row["time_ratio_to_exhaustive_low"] <= row["time_ratio_to_exhaustive"]
        assert row["time_ratio_to_baseline"] <= row["time_ratio_to_baseline_high"]


def test_the_table_over_draws_has_published_and_weighted_methods(pool):
    """Two draws have no intervals, so all differences are open; without H-Hash, there are none."""
    names = ("h-hash", "h-hash-weighted")
    words = ("--pool", pool.path, "--queries", 2, "--draws", 2)
    told = run("select", *words, *(word for name in names for word in ("--strategy", name))).output
    table = told[told.index("Geometric means, with 95 % intervals over the draws") :]
    weighted = next(line for line in table.splitlines() if line.startswith("h-hash-weighted"))
    assert weighted.count("open") == 2
    assert "open" not in next(line for line in table.splitlines() if line.startswith("h-hash "))
    told = run("select", *words, "--strategy", "random").output
    assert "open" not in told[told.index("Geometric means") : told.index("ms: median time")]


def test_draws_share_the_hyperplanes_of_a_file(pool, tmp_path, third_nearest):
    """And differ in what the strategies draw."""
    planes = one_vs_all(pool, 4)
    Corpus(planes, pool.digest).save(tmp_path / "planes.npz")
    select(
        pool, "--planes", tmp_path / "planes.npz", "--strategy", "third-nearest", "--draws", 2, "--warm-up", 1
    )
    digests = [plane.hyperplane.digest for plane in planes]
    asked = [digest for digest, memory in third_nearest.asked if memory is None]
    assert asked == [digests[0], *digests] * 2


def test_a_strategy_that_fails_in_a_later_draw_is_left_out(pool, monkeypatch, third_nearest):
    """With the reason; the others are measured in all draws."""
    choose = third_nearest.choose

    def failing(self, query):
        if self.random_state == 1:
            raise InputError("no more")
        return choose(self, query)

    monkeypatch.setattr(third_nearest, "choose", failing)
    file = pool.path.parent / "rows.json"
    words = ("--queries", 2, "--strategy", "third-nearest", "--draws", 3, "--json", file)
    result = run("select", "--pool", pool.path, *words)
    assert result.exit_code == 1
    assert "third-nearest failed: no more" in result.output
    rows = {row["strategy"]: row for row in json.loads(file.read_text())}
    assert rows["exhaustive"]["queries"] == 6
    assert "rank_median" not in rows["third-nearest"]


def test_strategies_that_ask_one_index_share_it(pool):
    """Neither other shares of a mixture nor the mixture itself cost a second margin index."""
    words = ["margin-index", "margin-index:confidence=0.9", "mixture", "mixture:likely=0.4,random=0.1"]
    result = run("select", "--pool", pool.path, "--queries", 2, *(f"--strategy={word}" for word in words))
    assert [line.split()[1] for line in result.output.splitlines() if line.startswith("Fitted")] == [
        "exhaustive",
        "margin-index",
    ]


@pytest.mark.parametrize(("name", "words"), [("time.svg", ()), ("time.PNG", ("--strategy", "random"))])
def test_a_figure_is_drawn(pool, tmp_path, name, words):
    """Time against rank, in the format that the name asks for; of every strategy, if none is named."""
    select(pool, "--figure", tmp_path / name, "--items", 300, "--items", 800, "--queries", 2, *words)
    begins = {".svg": b"<?xml", ".png": b"\x89PNG"}[name[-4:].lower()]
    assert (tmp_path / name).read_bytes().startswith(begins)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--strategy", "psychic"), "strategy must be one of random, .*, got 'psychic'"),
        (("--strategy", "subsample:500"), "a strategy must be NAME or NAME:param=value"),
        (
            ("--strategy", "h-hash-weighted:structure=trees"),
            "structure of h-hash-weighted must be table or orders or scan, got 'trees'",
        ),
        (("--items", "801"), "--items must be from 1 to 800 for the pool .*, got 801"),
        (("--setting", "C=10"), f"--setting must be, or be part of, one of {PAPER}; got 'C=10'"),
        (("--planes", "nowhere.npz"), "there is no corpus of hyperplanes at nowhere.npz"),
        (("--figure", "time.jpg"), "--figure must end in .svg or .png, got time.jpg"),
        (("--boxes", "time.jpg"), "--boxes must end in .svg or .png, got time.jpg"),
        (("--planes-of", "nowhere"), "There is no pool at nowhere: no such folder"),
    ],
)
def test_select_refuses_what_it_cannot_measure(pool, words, sentence):
    """One sentence that names what was given, and exit code 2."""
    assert re.search(sentence, refused("select", "--pool", pool.path, *words))


def test_select_needs_truth(tmp_path):
    """Without known classes there is nothing to train on, and it says so."""
    unknown = build(FakeSource(50, 4, classes=()), tmp_path / "pool")
    assert "needs at least two classes" in refused("select", "--pool", unknown.path)


def test_build_measures_and_cleans_up(tmp_path, monkeypatch):
    """`bench build` gives one JSON object with the promised keys and leaves nothing behind."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    file = tmp_path / "build.json"
    result = run("build", "--json", file, "--items", 100)
    assert result.exit_code == 0, result.output
    found = json.loads(file.read_text())
    assert set(found) >= BUILD_KEYS
    assert found["items"] >= 100
    assert found["images_per_second"] == pytest.approx(found["items"] / found["seconds"])
    assert not set(found) & MODEL_KEYS
    assert list(tmp_path.iterdir()) == [file]


class InPairs:
    """A session in which the first run of a thread waits for that of another thread."""

    def __init__(self, session: Any) -> None:
        self.session, self.get_inputs = session, session.get_inputs
        self.shapes: list[tuple[int, ...]] = []
        self.threads: set[threading.Thread] = set()
        self.barrier = threading.Barrier(2)

    def run(self, outputs: list[str], feed: dict[str, np.ndarray]) -> list[np.ndarray]:
        if threading.current_thread() not in self.threads:
            self.threads.add(threading.current_thread())
            self.barrier.wait(60)
        self.shapes += [value.shape for value in feed.values()]
        return self.session.run(outputs, feed)


def test_a_build_is_compared_with_its_model_alone(tmp_path, monkeypatch):
    """In turn, with as many threads, and one image a run; the ratio is the median of the rounds."""
    model, file = write_model(tmp_path / "model.onnx"), tmp_path / "build.json"
    session = InPairs(open_session(model))
    monkeypatch.setattr(bare_model, "ROUND_SECONDS", 0.1)
    monkeypatch.setattr(bare_model, "open_session", lambda *_: session)
    result = run("build", "--json", file, "--source", f"onnx:{model}:digits:50", "--threads", 2)
    assert result.exit_code == 0, result.output
    found = json.loads(file.read_text())
    assert set(found) >= BUILD_KEYS | MODEL_KEYS
    assert found["threads"] == 2
    ratios = np.divide(found["build_rounds"], found["model_rounds"])
    assert len(ratios) == bare_model.ROUNDS
    assert found["ratio_to_model"] == pytest.approx(np.median(ratios))
    assert (found["ratio_to_model_low"], found["ratio_to_model_high"]) == (min(ratios), max(ratios))
    shares = np.divide(found["model_cpu_ms"], found["build_cpu_ms"])
    assert found["cpu_ratio_to_model"] == pytest.approx(np.median(shares))
    assert len(session.threads) == 2 * bare_model.ROUNDS
    assert set(session.shapes) == {(1, 3, 8, 8)}
    assert "The model alone, 2 threads" in result.output


def test_build_keeps_the_pool_where_asked(tmp_path):
    """With --out the pool stays; a folder that holds something is refused and left alone."""
    out = tmp_path / "pool"
    assert run("build", "--items", 100, "--out", out).exit_code == 0
    before = sorted(path.name for path in out.iterdir())
    again = run("build", "--items", 100, "--out", out)
    assert again.exit_code == 2
    assert f"--out must be a new or an empty folder, got {out}" in again.stderr
    assert sorted(path.name for path in out.iterdir()) == before


def test_rank_is_that_of_brute_force(pool):
    """Rank counts the items strictly nearer in float64; excluded ones do not count."""
    plane = Hyperplane(np.random.default_rng(0).standard_normal(pool.n_features), 0.1)
    margins = np.abs(plane.scores(pool.rows_of(pool.ids)))
    nearest_first = pool.ids[np.argsort(margins)]
    for rank in (0, 1, 10, len(pool) - 1):
        assert rank_of(pool, plane, nearest_first[rank]) == rank
    assert rank_of(pool, plane, nearest_first[10], exclude=nearest_first[2:7]) == 5


def test_rank_by_score_is_that_of_brute_force(pool):
    """It counts the items with a larger score; excluded ones do not count."""
    plane = Hyperplane(np.random.default_rng(0).standard_normal(pool.n_features), 0.1)
    largest_first = pool.ids[np.argsort(-plane.scores(pool.rows_of(pool.ids)))]
    of_all = BruteForce(pool, plane, key=np.negative)
    for rank in (0, 1, 10, len(pool) - 1):
        assert of_all.rank(largest_first[rank]) == rank
    of_some = BruteForce(pool, plane, exclude=largest_first[2:7], key=np.negative)
    assert of_some.rank(largest_first[10]) == 5


def test_rank_of_equals_is_0(tmp_path):
    """Items just as near do not count as nearer."""
    twins = build(FakeSource(64, 3, separation=0.0), tmp_path / "pool")
    plane = Hyperplane(np.zeros(3), 1.0)
    assert {rank_of(twins, plane, item) for item in twins.ids} == {0}


def test_median_rank_of_best_of_random_items():
    """The formula agrees with drawing at random (the median of 4,000 draws, to 10 %)."""
    rng = np.random.default_rng(0)
    best = [rng.choice(100_000, 50, replace=False).min() for _ in range(4000)]
    assert median_rank_of_best(50, 100_000) == pytest.approx(np.median(best), rel=0.1)


def test_planes_are_those_of_the_paper(pool):
    """Each hyperplane is trained on as many labels of every class, those of one class being a yes."""
    planes = one_vs_all(pool, 7, labels_per_class=4, seed=3)
    assert len(planes) == 7
    for plane in planes:
        truth = pool.truth(plane.labeled)
        assert np.bincount(truth).tolist() == [4, 4, 4]
        scores = plane.hyperplane.scores(pool.rows_of(plane.labeled))
        assert scores[truth == plane.positive].mean() > scores[truth != plane.positive].mean()
    assert [plane.positive for plane in planes[:3]] != [0, 0, 0]
    assert {plane.positive for plane in planes} == {0, 1, 2}
    again = one_vs_all(pool, 7, labels_per_class=4, seed=3)
    assert [p.hyperplane.digest for p in again] == [p.hyperplane.digest for p in planes]
