"""A race that somebody watches."""

from __future__ import annotations

import gc
import json
import time
from types import SimpleNamespace

import numpy as np
import pytest

from closecall.app.api.compare import race as live_race
from closecall.app.api.compare.race import FIRST_PICKS, LiveRace, find_race
from closecall.core.errors import InputError
from closecall.core.selection import make_strategy
from closecall.core.simulation.race import Course, Race
from tests.projects import new_project, open_workspace
from tests.waiting import until

LANES = ("random", "exhaustive")
"""What these tests let race."""


@pytest.fixture
def session(tmp_path):
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        yield project.session(project.log.start_session(1, "ada", "exhaustive", seed=5).id)


@pytest.fixture
def race(session):
    made = live(session)
    yield made
    made.pause()
    until(lambda: made._thread is None)


def live(session, **settings):
    strategies = {name: make_strategy(name).fit(session.project.pool) for name in LANES}
    return LiveRace(session, strategies, **{"n_first": 2} | settings)


def test_what_it_tells_is_what_the_engine_gives(session, race):
    """Round by round, each once however the browser asks; everything but the times."""
    pool = session.project.pool
    strategies = {name: make_strategy(name).fit(pool) for name in LANES}
    record = session.concept.record
    course = Course(pool.classes.index("7"), n_first=2, C=record.c, class_weight=record.class_weight)
    engine = Race(pool, strategies, course)
    told = []
    for n in range(1, 5):
        race.step()
        until(lambda n=n: len(race.since(0)["turns"]) == n)
        told += race.since(len(told))["turns"]
    assert race.about()["first_auroc"] == engine.first_accuracy.auroc
    for turns in told:
        for (auroc, margin, milliseconds, scored), turn in zip(turns, engine.step(), strict=True):
            assert auroc == pytest.approx(turn.accuracy.auroc, abs=1e-5)
            assert margin == pytest.approx(turn.margin, rel=1e-2)
            assert scored == turn.scored
            assert milliseconds > 0


def test_a_step_is_one_round_and_a_pause_is_kept(race):
    """Whatever else is asked meanwhile."""
    race.step()
    until(lambda: not race.since(0)["is_running"])
    assert len(race.since(0)["turns"]) == 1
    race.start()
    until(lambda: len(race.since(0)["turns"]) >= 3)
    assert race.since(0)["is_running"]
    race.pause()
    until(lambda: race._thread is None)
    n = len(race.since(0)["turns"])
    time.sleep(0.05)
    assert len(race.since(0)["turns"]) == n


def test_it_is_over_after_its_rounds(race, monkeypatch):
    """Then neither start nor step goes on."""
    monkeypatch.setattr(live_race, "ROUNDS", 6)
    race.set_speed(30)
    race.start()
    until(lambda: not race.since(0)["is_running"])
    assert race.since(0)["is_over"]
    race.start()
    race.step()
    assert len(race.since(0)["turns"]) == 6
    assert not race.since(0)["is_running"]


def test_nobody_looks_and_it_waits(race, monkeypatch):
    """Who comes back finds it where it stopped, and can go on."""
    with monkeypatch.context() as soon:
        soon.setattr(live_race, "LEFT_SECONDS", 0.2)
        race.start()
        until(lambda: race._thread is None)
    n = len(race.since(0)["turns"])
    assert n < live_race.ROUNDS
    assert not race.since(0)["is_running"]
    race.step()
    until(lambda: len(race.since(0)["turns"]) == n + 1)


def test_pictures_come_of_the_first_picks_and_of_the_newest_if_asked(race):
    """So that most answers are small; all of it is JSON."""
    race.set_speed(30)
    race.start()
    until(lambda: len(race.since(0)["turns"]) > FIRST_PICKS)
    race.pause()
    until(lambda: race._thread is None)
    all_of_it, rest = race.since(0, pictures=True), race.since(FIRST_PICKS)
    assert [len(of_round) for of_round in all_of_it["firsts"]] == [len(LANES)] * FIRST_PICKS
    assert all(src.startswith("data:image/jpeg") for of_round in all_of_it["firsts"] for src in of_round)
    assert len(all_of_it["picks"]) == len(LANES)
    assert (rest["firsts"], rest["picks"]) == ([], None)
    assert len(json.dumps(rest["turns"][0])) < 60 * len(LANES)


def test_a_race_that_fails_says_so_and_can_be_started_again(session, race, monkeypatch):
    """Its thread ends; the project tells why, until a round succeeds."""

    def fails():
        raise ZeroDivisionError("nobody expected it")

    with monkeypatch.context() as broken:
        broken.setattr(race._race, "step", fails)
        race.step()
        until(lambda: not race.since(0)["is_running"])
        assert session.project.problem().endswith("failed: ZeroDivisionError: nobody expected it")
    race.step()
    until(lambda: len(race.since(0)["turns"]) == 1)
    until(lambda: session.project.problem() is None)


def test_another_run_begins_with_other_labels(session):
    """The same run with the same."""
    firsts = [live(session, run=run)._race.first.ids.tolist() for run in (0, 0, 1)]
    assert firsts[0] == firsts[1] != firsts[2]


def test_a_race_is_known_by_its_key_as_long_as_somebody_has_it(session):
    made = live(session)
    key = made.key
    assert find_race(key) is made
    assert find_race("another") is None
    del made
    gc.collect()
    assert find_race(key) is None


def test_where_there_can_be_no_race_it_says_why(session):
    other = session.project.add_concept("Is it pretty?")
    elsewhere = session.project.session(session.project.log.start_session(other.id, "ada", "random").id)
    with pytest.raises(InputError, match="truth is known"):
        live(elsewhere)
    with pytest.raises(InputError, match="speed must be one of"):
        live(session).set_speed(7)


def test_while_the_pool_is_built_it_says_what_is_missing_yet(session, monkeypatch):
    """Its first segments may hold no held-out items."""
    pool = session.project.pool
    monkeypatch.setattr(pool, "complete", False)
    none = SimpleNamespace(ids=np.empty(0, dtype=np.int64))
    monkeypatch.setattr(type(pool), "held_out", property(lambda _: none))
    with pytest.raises(InputError, match="no held-out items yet"):
        live(session)
