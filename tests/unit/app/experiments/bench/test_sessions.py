from __future__ import annotations

import json
import time

import numpy as np
import pytest
from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.app.engine.strategy_memory import Remembered
from closecall.app.experiments.bench.contenders import Answer
from closecall.app.experiments.bench.sessions import Round, Session, figures, sessions_of
from closecall.core.errors import InputError
from closecall.core.experiment.corpus import Corpus
from closecall.core.experiment.planes import Plane, one_vs_all
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.build import build
from closecall.core.selection import STRATEGIES, Choice, QueryStrategy
from tests.fakes import FakeSource

KEYS = {
    *("strategy", "data", "items", "dim", "memory", "sessions", "rounds", "pace_seconds"),
    *("median_ms", "p90_ms", "p99_ms", "exhaustive_ms", "ratio_to_exhaustive", "p90_ratio_to_exhaustive"),
    *("cpu_median_ms", "cpu_ratio_to_exhaustive", "scan_cpu_share", "cpu_ms_per_round"),
    *("with_memory", "memory_age_median", "memory_age_p90", "late_p99_ms", "late_max_ms", "sustained"),
    *("recall_at_1", "recall_at_1_low"),
}

N_SESSIONS, N_ROUNDS = 3, 6


class Second(QueryStrategy):
    """Selects the second nearest of all, and notes what it is given."""

    name = "second"

    def __init__(self, *, random_state: int = 0) -> None:
        super().__init__(random_state=random_state)
        self.given: list[object] = []

    def choose(self, query):
        self.given.append(query.memory)
        margins = np.abs(query.plane().scores(self.pool_.rows(np.arange(len(self.pool_)))))
        margins[~query.allowed(self.pool_.ids)] = np.inf
        row = np.argsort(margins)[1:2]
        return Choice(self.pool_.ids[row], margins[row], scored=len(margins))

    def remember(self, hyperplanes):
        return [plane.digest for plane in hyperplanes]


class TheFirst:
    """In place of `Memories`: each session remembers its first hyperplane from its third round on."""

    def __init__(self, first: Hyperplane) -> None:
        self.first = first
        self.asked = 0
        self.offered: list[str] = []

    def newest(self, *_):
        self.asked += 1
        return Remembered(self.first.digest, "the first") if self.asked > 2 else None

    def offer(self, _session, _index, hyperplane, seconds):
        assert seconds >= 0
        self.offered.append(hyperplane.digest)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    return build(FakeSource(900, 8, classes=("a", "b", "c")), tmp_path_factory.mktemp("bench") / "pool")


@pytest.fixture(scope="module")
def planes(pool) -> list[Plane]:
    """Sessions of hyperplanes that are as good as any, and some single ones."""
    rng = np.random.default_rng(0)
    return one_vs_all(pool, 2) + [
        Plane(Hyperplane(rng.standard_normal(8), 0.0), pool.ids[:t], 0, "sessions: some", session, t)
        for session in range(N_SESSIONS)
        for t in range(N_ROUNDS)
    ]


@pytest.fixture(scope="module")
def corpus(pool, planes, tmp_path_factory):
    file = tmp_path_factory.mktemp("corpus") / "planes.npz"
    Corpus(planes, pool.digest).save(file)
    return file


def run(pool, corpus, *words: object):
    return CliRunner().invoke(
        main, ["bench", "sessions", "--pool", str(pool.path), "--planes", str(corpus), *map(str, words)]
    )


def measure(pool, corpus, tmp_path, *words: object) -> list[dict]:
    file = tmp_path / "sessions.json"
    few = ("--sessions", N_SESSIONS, "--rounds", N_ROUNDS, "--pace", 0.02)
    result = run(pool, corpus, *few, "--json", file, *words)
    assert result.exit_code == 0, result.output
    return json.loads(file.read_text())


def test_a_row_for_each_mode(pool, corpus, tmp_path, monkeypatch):
    """All rounds of all sessions are played; what selects at once remembers only where it must."""
    monkeypatch.setattr("closecall.app.experiments.bench.sessions.WORTHWHILE_SECONDS", 60.0)
    rows = measure(pool, corpus, tmp_path, "--memory", "off", "--memory", "auto", "--memory", "on")
    assert [row["memory"] for row in rows] == ["off", "auto", "on"]
    for row in rows:
        assert set(row) >= KEYS
        assert (row["sessions"], row["rounds"], row["items"]) == (N_SESSIONS, N_ROUNDS, len(pool))
        assert 0 < row["median_ms"] <= row["p90_ms"] <= row["p99_ms"]
        assert row["cpu_ms_per_round"] >= row["cpu_median_ms"] > 0
        assert row["recall_at_1_low"] <= row["recall_at_1"] <= 1
    off, auto, on = rows
    assert off["with_memory"] == auto["with_memory"] == 0
    assert off["memory_age_median"] is None
    assert 0 <= on["with_memory"] <= (N_ROUNDS - 1) / N_ROUNDS


def test_recall_is_that_of_brute_force(pool, corpus, tmp_path, monkeypatch):
    """A strategy that always takes the second nearest never finds the nearest, a full scan always does."""
    monkeypatch.setitem(STRATEGIES, "second", Second)
    assert measure(pool, corpus, tmp_path, "--strategy", "second")[0]["recall_at_1"] == 0
    row = measure(pool, corpus, tmp_path, "--strategy", "exhaustive")[0]
    assert row["recall_at_1"] == 1
    assert 0.8 < row["recall_at_1_low"] < 1


def test_what_is_printed_has_the_figures(pool, corpus):
    """In sentences, a paragraph a mode."""
    result = run(pool, corpus, "--sessions", 1, "--rounds", 2, "--pace", 0.01)
    assert "margin-index, pool, 900 × 8; 1 session, a round every 0.01 s; memory auto:" in result.output
    assert "of an exhaustive scan" in result.output
    assert "of 2 rounds (at least" in result.output


def test_a_session_selects_with_the_newest_memory(pool, planes):
    """It passes on what it remembers, offers each of its hyperplanes, and knows how old the memory is."""
    own = [plane for plane in planes if plane.session == 1]
    index = Second().fit(pool)
    memories, session = TheFirst(own[0].hyperplane), Session("1", own)
    session.play(index, memories, time.perf_counter(), 0.001)
    assert index.given == [None, None, *["the first"] * (N_ROUNDS - 2)]
    assert [played.age for played in session.rounds] == [None, None, *range(2, N_ROUNDS)]
    assert memories.offered == [plane.hyperplane.digest for plane in own]
    assert all(played.late_ms >= 0 for played in session.rounds)


def test_the_figures_are_those_of_all_rounds():
    """Times, ages, delays and hits of made-up rounds."""
    rounds = [Round(ms=t, cpu_ms=t / 2, late_ms=t, age=t or None, margin=0.1 * t) for t in range(101)]
    sessions = [Session("0", [], rounds), Session("1", [], rounds)]
    scans = [Answer(0, 1, 500.0, 400.0)] * 3
    truth = np.full((2, 101), 0.05)
    row = figures(sessions, 0.2, scans, 2020.0, truth)
    assert (row["median_ms"], row["p90_ms"], row["p99_ms"], row["cpu_median_ms"]) == (50, 90, 99, 25)
    assert (row["ratio_to_exhaustive"], row["p90_ratio_to_exhaustive"]) == (50 / 500, 90 / 500)
    assert row["cpu_ratio_to_exhaustive"] == 25 / 400
    assert row["cpu_ms_per_round"] == 10
    assert row["with_memory"] == 100 / 101
    assert (row["memory_age_median"], row["late_max_ms"]) == (50.5, 100)
    assert row["sustained"]
    assert not figures(sessions, 0.1, scans, 1.0, truth)["sustained"]
    assert row["recall_at_1"] == 1 / 101


def test_sessions_are_the_first_ones_that_are_long_enough(planes):
    """Single hyperplanes are no sessions."""
    assert [[plane.round for plane in own] for own in sessions_of(planes, 2, 4)] == [[0, 1, 2, 3]] * 2
    with pytest.raises(InputError, match="--sessions 4 of --rounds 6 are more than the 3 so long"):
        sessions_of(planes, 4, 6)
    with pytest.raises(InputError, match="more than the 0 so long"):
        sessions_of(planes, 1, N_ROUNDS + 1)


def test_bad_input_gets_one_sentence(pool, corpus, tmp_path):
    """As everywhere."""
    result = run(pool, corpus, "--sessions", 50)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "make more with closecall bench planes" in result.stderr
    assert run(pool, tmp_path / "nowhere.npz").exit_code == 2
