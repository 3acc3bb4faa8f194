from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from closecall.app.indexes import strategies as indexes
from closecall.app.indexes.strategies import Indexes
from closecall.core.accelerator.device import Device
from closecall.core.errors import InputError
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.selection import STRATEGIES
from closecall.core.selection.margin import MarginIndex
from closecall.core.selection.random import RandomSampling
from tests.fakes import FakeSource
from tests.waiting import until

NAME = "margin-index"


@pytest.fixture(autouse=True)
def everything_is_saved(monkeypatch):
    """However quickly it was built."""
    monkeypatch.setattr(indexes, "CHEAP_SECONDS", 0)


@pytest.fixture(scope="module")
def pool(tmp_path_factory) -> Pool:
    return build(FakeSource(3000), tmp_path_factory.mktemp("indexes") / "pool")


@contextmanager
def watching(pool: Pool, folder: Path) -> Iterator[Indexes]:
    made = Indexes(lambda: pool, folder)
    made.start()
    yield made
    made.close()


@pytest.fixture
def gate(monkeypatch) -> Iterator[threading.Event]:
    """Opens when building margin indexes may go on; it begins open."""
    opened, fit = threading.Event(), MarginIndex.fit

    def late(self, pool, *, progress=None):
        if progress:
            progress(1, 4)
        assert opened.wait(120)
        return fit(self, pool, progress=progress)

    monkeypatch.setattr(MarginIndex, "fit", late)
    opened.set()
    yield opened
    opened.set()


def is_saved(made: Indexes) -> bool:
    """Whether the index that is used is the one in the folder."""
    made_index = made.get(NAME)
    codes = made_index.layout_.codes if isinstance(made_index, MarginIndex) else None
    return isinstance(codes, np.memmap) and codes.filename is not None and codes.filename.suffix == ".npy"


def test_an_index_is_saved_and_then_used_as_saved(pool, tmp_path):
    """Its arrays lie in the project's folder, so that those it was built in are freed."""
    with watching(pool, tmp_path / "indexes") as made:
        made.want(NAME)
        until(lambda: is_saved(made))
        assert made.problem is None
    assert [path.name for path in (tmp_path / "indexes").iterdir()] == [NAME]


def test_a_saved_index_is_not_built_again(pool, tmp_path, gate):
    """It is there at once the next time, and asked as strategies are asked now, not as when it was saved."""
    MarginIndex(budget=5_000).fit(pool).save(tmp_path / NAME)
    gate.clear()
    with watching(pool, tmp_path) as made:
        made.want(NAME)
        until(lambda: made.get(NAME))
        assert is_saved(made)
        assert made.get(NAME).params() == MarginIndex().params()


@pytest.mark.parametrize("damage", ["flipped", "of another pool", "with other clusters"])
def test_a_saved_index_that_cannot_be_used_is_told_and_built_again(pool, tmp_path, gate, caplog, damage):
    """A sentence says so for as long as it takes; then the index is whole again, on the disk, too."""
    others = build(FakeSource(3000, seed=8), tmp_path / "others")
    params = {"n_clusters": 3} if damage == "with other clusters" else {}
    saved = others if damage == "of another pool" else pool
    folder = tmp_path / "indexes"
    MarginIndex(**params).fit(saved).save(folder / NAME)
    if damage == "flipped":
        codes = folder / NAME / "codes.npy"
        codes.write_bytes(codes.read_bytes()[:-1] + b"?")
    gate.clear()
    with watching(pool, folder) as made:
        made.want(NAME)
        until(lambda: made.problem)
        assert made.problem == "The saved Margin index can't be used: it is being rebuilt"
        assert "The saved index margin-index is rebuilt" in caplog.text
        assert made.state(NAME).notice is not None
        gate.set()
        until(lambda: is_saved(made))
        assert made.problem is None
    loaded, built = MarginIndex.load(folder / NAME, pool), MarginIndex().fit(pool)
    assert np.array_equal(loaded.layout_.codes, built.layout_.codes)


def test_an_index_that_fails_stops_no_other(pool, tmp_path, monkeypatch, caplog):
    """Whatever it raises: a sentence says so, and the thread goes on."""

    def fails(*_, **__):
        raise ZeroDivisionError("nobody expected it")

    monkeypatch.setattr(MarginIndex, "fit", fails)
    with watching(pool, tmp_path) as made:
        made.want(NAME)
        until(lambda: made.problem)
        assert made.problem == "margin-index can't be used with this pool: nobody expected it"
        until(lambda: "Traceback" in caplog.text)  # it is logged after that
        made.want("exhaustive")
        until(lambda: made.get("exhaustive"))
        assert made.state(NAME).failure is not None


def test_an_index_that_failed_is_tried_again_when_the_pool_has_grown(pool, tmp_path, monkeypatch):
    """Not before: the same items would fail again."""
    fit, tried = MarginIndex.fit, []

    def fails_on_few(self, pool, *, progress=None):
        tried.append(len(pool))
        if len(pool) < 3000:
            raise ZeroDivisionError("too few")
        return fit(self, pool, progress=progress)

    monkeypatch.setattr(MarginIndex, "fit", fails_on_few)
    snapshots = [pool.prefix(1000), pool.prefix(1000), pool]
    monkeypatch.setattr(type(pool), "refreshed", lambda _: snapshots.pop(0))
    made = Indexes(lambda: snapshots.pop(0), tmp_path)
    made.want(NAME)
    for _ in range(2):
        made._catch_up()
        assert made.problem == "margin-index can't be used with this pool: too few"
    made._catch_up()
    assert tried == [1000, 3000]
    assert made.problem is None
    assert made.get(NAME) is not None


def test_a_pool_that_fails_to_open_is_tried_again(pool, tmp_path, caplog):
    """Whatever it raises; the sentence goes when it has passed, and the log has its trace once."""
    broken = threading.Event()
    broken.set()
    asked = []

    def open_pool() -> Pool:
        asked.append(1)
        if broken.is_set():
            raise ZeroDivisionError("nobody expected it")
        return pool

    made = Indexes(open_pool, tmp_path)
    made.start()
    try:
        for _ in range(3):
            n = len(asked)
            made.want(NAME)
            until(lambda n=n: len(asked) > n)
        assert made.problem == (
            "Keeping the indexes up with the pool failed: ZeroDivisionError: nobody expected it"
        )
        assert caplog.text.count("Traceback") == 1
        broken.clear()
        made.want(NAME)
        until(lambda: made.get(NAME))
        until(lambda: made.problem is None)
    finally:
        made.close()


def test_an_index_is_tried_before_anybody_asks_it(pool, tmp_path, monkeypatch):
    """The first query loads compiled code and maps files: nobody waits for that, nor for the saved one's."""
    choose, asked = MarginIndex.choose, []

    def noted(self, query):
        asked.append(self is made.get(NAME))
        return choose(self, query)

    monkeypatch.setattr(MarginIndex, "choose", noted)
    with watching(pool, tmp_path) as made:
        made.want(NAME)
        until(lambda: is_saved(made))
    assert asked == [False, False]


class Own(RandomSampling):
    """Somebody's own strategy."""

    name = "own"


@pytest.mark.parametrize("word", ["exhaustive", "subsample", "own"])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_strategy_without_an_index_is_ready_at_once(pool, tmp_path, gate, monkeypatch, word, is_late):
    """As soon as there is a pool, even while the index of another strategy is being built."""
    monkeypatch.setitem(STRATEGIES, Own.name, Own)
    gate.clear()
    opened = threading.Event()
    if not is_late:
        opened.set()
    made = Indexes(lambda: pool if opened.is_set() else None, tmp_path)
    made.start()
    try:
        made.want(NAME)
        if is_late:
            made.want(word)
            assert made.get(word) is None
            opened.set()
        until(lambda: made.state(NAME).share)
        if not is_late:
            made.want(word)
        ready = made.get(word)
        assert ready is not None
        assert ready.n_items == len(pool)
        assert made.get(word) is ready
        assert made.get(NAME) is None
    finally:
        gate.set()
        made.close()


def test_mixtures_ask_the_margin_index(pool, tmp_path):
    """Whatever their shares, they need none of their own; each stays the same until the index changes."""
    words = ("mixture", "mixture:margin=0.1,likely=0.9,random=0", NAME)
    with watching(pool, tmp_path) as made:
        for word in words:
            made.want(word)
        until(lambda: is_saved(made))
        found = [made.get(word) for word in words]
        assert [one.params().get("likely") for one in found if one] == [0.3, 0.9, None]
        assert all(one.arrays()["codes"] is found[-1].arrays()["codes"] for one in found)
        assert all(made.get(word) is one for word, one in zip(words, found, strict=True))
        assert made.state(words[1]) is made.state(NAME)
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_mixtures_follow_the_margin_index_as_the_pool_grows(pool, tmp_path):
    """They cover what it covers."""
    made = Indexes(lambda: pool.prefix(1000), tmp_path)
    made.want("mixture")
    made._catch_up()
    before = made.get("mixture")
    assert before is not None
    assert before.n_items == 1000
    made._catch_up()
    after = made.get("mixture")
    assert after is not None
    assert (before.n_items, after.n_items) == (1000, 3000)


def test_while_a_device_scans_the_pool_no_item_is_missed(pool, tmp_path, monkeypatch):
    """Near-exact search scans, a search with a budget keeps to it; a device that fails is not used again."""
    monkeypatch.setattr(indexes, "POLL_SECONDS", 0.01)
    made = Indexes(lambda: pool.prefix(1000), tmp_path, device=Device("cpu", "cpu"))
    made.start()
    with closing(made):
        words = (NAME, "auto", "mixture", f"{NAME}:budget=9000", "exhaustive")
        for word in words:
            made.want(word)
        until(lambda: made.device_state == "ready" and all(map(made.get, words)))
        assert made.pool is not None
        assert made.pool.kept is not None
        until(lambda: made.get(NAME).n_items == len(pool))
        confidences = [made.get(word).params().get("confidence") for word in words]
        assert confidences == [1.0, 1.0, 1.0, None, None]
        assert made.get(NAME) is made.get(NAME)
        made.pool.kept._fail(RuntimeError("no kernel image"))
        assert made.device_state == "trouble"
        assert made.get(NAME).params() == MarginIndex().params()
    assert made.pool.kept.n_rows == 0


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("mixture:likely=0.9", "shares of a mixture must be at least 0 and sum to 1"),
        (
            "mixture:colour=red",
            "mixture has the parameters margin, likely, random, scans, budget, share, confidence",
        ),
        ("margin-index:n_clusters=4", "can give margin-index the parameters budget, confidence, share; got"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(pool, tmp_path, word, message):
    """Whoever picks it is told; nothing is built."""
    made = Indexes(lambda: pool, tmp_path)
    with pytest.raises(InputError, match=message):
        made.want(word)
    assert made.state(word).fitted is None


def test_building_says_how_far_it_is(pool, tmp_path, gate):
    """From nothing to ready."""
    gate.clear()
    with watching(pool, tmp_path) as made:
        assert made.state(NAME).share == 0
        made.want(NAME)
        until(lambda: made.state(NAME).share == 0.25)
        assert made.get(NAME) is None
        gate.set()
        until(lambda: made.get(NAME))


def test_what_a_killed_process_was_saving_is_removed(pool, tmp_path):
    """What it had saved before stays."""
    MarginIndex().fit(pool).save(tmp_path / NAME)
    (tmp_path / f"{NAME}-abc12345.tmp").mkdir()
    (tmp_path / f"{NAME}-abc12345.tmp" / "codes.npy").write_bytes(b"half")
    with watching(pool, tmp_path) as made:
        made.want(NAME)
        until(lambda: is_saved(made))
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_closing_does_not_wait_for_an_index(pool, tmp_path, gate):
    """What is being built is given up, and nothing of it is saved."""
    gate.clear()
    made = Indexes(lambda: pool, tmp_path)
    made.start()
    made.want(NAME)
    until(lambda: made.state(NAME).share)
    closing = threading.Thread(target=made.close)
    closing.start()
    until(lambda: made._watch._is_closed)
    gate.set()
    closing.join(120)
    assert not closing.is_alive()
    assert made.get(NAME) is None
    assert list(tmp_path.iterdir()) == []


def test_what_takes_long_says_so_before_it_is_asked_for(pool, tmp_path, monkeypatch):
    """Until its index is ready or saved; what can't cover the pool, or is quick, says nothing."""
    words = ("random", "h-hash", "eh-hash")
    with watching(pool, tmp_path) as kept:
        until(lambda: kept.pool is not None)
        assert kept.costs(words) == {}
        monkeypatch.setattr(indexes, "LONG_SECONDS", 0)
        told = kept.costs(words)
        assert list(told) == ["eh-hash"]
        assert told["eh-hash"].startswith("about ")
        kept.want("eh-hash")
        until(lambda: kept.state("eh-hash").fitted is not None)
        assert kept.costs(words) == {}
    with watching(pool, tmp_path) as kept:
        until(lambda: kept.pool is not None)
        assert kept.costs(words) == {}
