from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from closecall.app.experiments.compare.peers import PEERS, Peer, make_peer, memory_limited
from closecall.core.errors import InputError
from closecall.core.linear.svm import train
from closecall.core.pool.build import build
from closecall.core.selection import make_strategy
from closecall.core.simulation.race import Course, Race
from tests.fakes import FakeSource
from tests.pools import small_pool

COURSE = Course(positive=1, n_first=2, seed=4)
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """Of several segments, with gaps in the ids."""
    source = FakeSource(300, 8, classes=("a", "b", "c"), held_out=range(0, 300, 7), lean=1.0)
    return small_pool(tmp_path_factory.mktemp("peers") / "pool", source)


class Local(Peer):
    """A library that is always there: the least certain first, by the probabilities alone."""

    name = "local"
    package = "json"
    distribution = "local"

    def ask(self, classifier, labeled, n):
        certain = np.abs(classifier.predict_proba(self.X_)[:, 1] - 0.5)
        certain[labeled] = np.inf
        return np.argsort(certain, kind="stable")[:n][::-1]


class Wasteful(Local):
    """Asks for more memory than there is."""

    def ask(self, *_):
        return np.empty(10**9 // 8, dtype=np.int64)


@pytest.fixture(params=PEERS)
def peer(request, pool):
    """Each peer that is installed."""
    pytest.importorskip(PEERS[request.param].package)
    return make_peer(request.param).fit(pool)


def race_both(pool, peer, rounds=20):
    race = Race(pool, {"peer": peer, "exhaustive": make_strategy("exhaustive").fit(pool)}, COURSE)
    turns = [turn for _ in range(rounds) for turn in race.step()]
    return [[turn.item for turn in turns if turn.strategy == name] for name in ("peer", "exhaustive")], race


def test_uncertainty_sampling_is_the_nearest_item(pool, peer):
    """Every peer that is installed selects what the exhaustive scan does, round after round."""
    (peers, exhaustive), race = race_both(pool, peer)
    assert [lane.failure for lane in race.lanes] == [None, None]
    assert peers == exhaustive


def test_probabilities_keep_the_order_of_the_margins(pool):
    """What a peer is told of the hyperplane is enough to find the nearest items, in any number."""
    (peers, exhaustive), _ = race_both(pool, Local().fit(pool))
    assert peers == exhaustive
    X = pool.rows(np.arange(9))
    plane = train(X, np.arange(9) % 2 == 0, np.arange(9))
    exclude = pool.ids[:50]
    found = Local().fit(pool).select(plane, 5, exclude=exclude)
    expected = make_strategy("exhaustive").fit(pool).select(plane, 5, exclude=exclude)
    assert found.ids.tolist() == expected.ids.tolist()
    assert found.margins == pytest.approx(expected.margins)


def test_an_exhausted_pool(tmp_path):
    """A peer has no more items than others."""
    pool = build(FakeSource(12, 4, classes=("a", "b"), held_out=[0]), tmp_path / "pool")
    race = Race(pool, {"peer": Local().fit(pool)}, replace(COURSE, n_first=1))
    while not race.is_over:
        race.step()
    assert len(race.lanes[0].labels) == len(pool)


@on_linux
def test_a_peer_that_needs_too_much_memory_is_out(pool):
    """The race goes on without it, and memory is as free as before."""
    (peers, exhaustive), race = race_both(pool, Wasteful(gigabytes=0.5).fit(pool), rounds=3)
    assert (len(peers), len(exhaustive)) == (0, 3)
    assert race.lanes[0].failure == "it ran out of memory"
    assert len(np.empty(10**9 // 8)) == 10**9 // 8


@on_linux
def test_a_pool_that_does_not_fit_is_told_when_it_is_asked(pool):
    """Not when the lanes are made, which would end all of them."""
    race = Race(pool, {"peer": Local(gigabytes=0.0).fit(BigPool(pool))}, COURSE)
    assert race.step() == []
    assert race.lanes[0].failure == "it ran out of memory"


class BigPool:
    """The pool, with more rows than fit when they are put together."""

    def __init__(self, pool):
        self._pool = pool

    def __getattr__(self, name):
        return getattr(self._pool, name)

    def __len__(self):
        return len(self._pool)

    def blocks(self):
        block = np.zeros((10**6, 8), dtype=np.float32)
        return iter([(0, block)] * 40)


@on_linux
def test_the_limit_is_lifted_again():
    """Also after a failure."""
    with pytest.raises(MemoryError), memory_limited(0.1):
        np.empty(10**8)
    assert len(np.empty(10**8)) == 10**8


def test_a_library_that_is_not_installed_is_named(monkeypatch):
    """With what to do about it."""
    monkeypatch.setattr(PEERS["modal"], "package", "no_such_package")
    with pytest.raises(InputError, match=r"modAL-python cannot be imported .*closecall\[peers\]"):
        make_peer("modal").check()
    with pytest.raises(InputError, match=r"a peer must be one of scikit-activeml, small-text, modal"):
        make_peer("psychic")
