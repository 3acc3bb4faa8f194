from __future__ import annotations

import errno
import itertools
import json
import tarfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.features import compute
from closecall.core.files.sizes import bytes_in_words
from closecall.core.pool.build import Progress, build, read_progress
from closecall.core.pool.build_progress import lock_for_building
from closecall.core.pool.build_size import estimate
from closecall.core.pool.manifest import Manifest
from closecall.core.pool.pool import Pool
from closecall.core.sources import KINDS, source_from, text_folder
from tests.fakes import FakeSource
from tests.pools import contents, small_parts


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)


def fake(n_items: int = 200, **options: Any) -> FakeSource:
    return FakeSource(n_items, **{"held_out": range(3, 40, 3), **options})


def _set_after(n_calls: int, stop: threading.Event) -> Callable[[Progress], None]:
    calls = itertools.count(1)
    return lambda _: stop.set() if next(calls) > n_calls else None


def test_threads_change_nothing(tmp_path: Path) -> None:
    """One thread or eight, GIST or embeddings: the same bytes in every file."""
    for name, source in {"own": fake(), "gist": fake(100, n_features=None, unreadable=[1, 60])}.items():
        build(source, tmp_path / name / "1", threads=1)
        build(source, tmp_path / name / "8", threads=8)
        assert contents(tmp_path / name / "1") == contents(tmp_path / name / "8")


def test_results_waiting_to_be_stored_are_few(tmp_path: Path) -> None:
    """However slow the disk, threads run only a few chunks ahead: memory is bounded."""
    begun = []
    ahead = []

    class Watched(FakeSource):
        def features(self, items: np.ndarray) -> np.ndarray | None:
            begun.append(len(items))
            return super().features(items)

    build(
        Watched(2000, held_out=()),
        tmp_path / "p",
        threads=2,
        progress=lambda now: ahead.append(sum(begun) - now.done),
    )
    assert max(ahead) <= 7 * (2 * 2 + 2)


def test_stopping_and_building_again_changes_nothing(tmp_path: Path) -> None:
    """A build stopped after any chunk keeps what was published and ends in the same bytes."""
    source = fake()
    whole = build(source, tmp_path / "whole")
    path = tmp_path / "stopped"
    stops = 0
    for n_chunks in range(1, 100):
        stop = threading.Event()
        calls: list[Progress] = []

        def count(
            now: Progress, limit: int = n_chunks, stop: threading.Event = stop, calls: Any = calls
        ) -> None:
            calls.append(now)
            if len(calls) > limit:
                stop.set()

        pool = build(source, path, stop=stop, progress=count)
        assert np.array_equal(pool.ids, whole.ids[: len(pool)])
        if pool.complete:
            break
        stops += 1
        assert read_progress(path) == Progress(
            done=len(pool) + len(pool.held_out), total=200, state="stopped", rows=len(pool)
        )
    assert stops >= 5
    assert contents(path) == contents(tmp_path / "whole")


def test_a_complete_pool_is_left_as_it_is(tmp_path: Path) -> None:
    """Building a complete pool again opens it."""
    build(fake(), tmp_path / "p")
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.npy")}
    assert len(build(fake(), tmp_path / "p")) == 187
    assert before == {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.npy")}


def test_progress_counts_up_to_all_items(tmp_path: Path) -> None:
    """Progress never goes back, counts every item once, and tells other processes the same."""
    told: list[Progress] = []
    path = tmp_path / "p"
    assert read_progress(path) is None

    def look(now: Progress) -> None:
        told.append(now)
        seen = read_progress(path)
        assert seen is not None
        assert seen.total == 200
        assert seen.done <= now.done

    build(fake(n_features=None, unreadable=[50]), path, progress=look)
    assert [now.done for now in told] == sorted(now.done for now in told)
    assert {now.state for now in told[:-1]} == {"building"}
    assert told[-1].state == "done"
    assert (told[-1].done, told[-1].total, told[-1].rows, told[-1].seconds_left) == (200, 200, 186, 0.0)
    last = read_progress(path)
    assert last == told[-1]
    assert all(now.seconds_left is None or now.seconds_left >= 0 for now in told)


def test_progress_knows_whether_someone_builds(tmp_path: Path) -> None:
    """The lock tells a running builder from one that was killed, whatever its last words were."""
    path = tmp_path / "p"
    stop = threading.Event()
    states: list[Progress | None] = []

    def look(now: Progress) -> None:
        states.append(read_progress(path))
        if now.rows == 20:
            stop.set()

    build(fake(), path, stop=stop, progress=look)
    assert {now.state for now in states[:-1] if now} == {"building"}
    dead = json.loads((path / "progress.json").read_text()) | {"state": "building", "done": 77}
    (path / "progress.json").write_text(json.dumps(dead))
    now = read_progress(path)
    assert now is not None
    assert (now.state, now.done, now.rows) == ("stopped", 20, 20)
    for rubbish in ("{", "[]", '{"done": 1, "other": 2}'):
        (path / "progress.json").write_text(rubbish)
        assert read_progress(path) == now
    lock = lock_for_building(path)
    try:
        assert read_progress(path).state == "building"  # type: ignore[union-attr]
    finally:
        lock.release()


def test_a_failed_build_leaves_its_reason(tmp_path: Path) -> None:
    """Another process can read why the builder gave up."""

    class Broken(FakeSource):
        def truth(self, items: np.ndarray) -> np.ndarray:
            if items[-1] > 100:
                raise InputError("the folder of images is gone")
            return super().truth(items)

    with pytest.raises(InputError, match="images is gone"):
        build(Broken(200), tmp_path / "p")
    now = read_progress(tmp_path / "p")
    assert now is not None
    assert (now.state, now.message, now.rows) == ("stopped", "the folder of images is gone", 70)
    assert build(FakeSource(200), tmp_path / "p").complete


@pytest.mark.parametrize("kind", ["folder", "emptied folder", "tar", "edges:folder"])
def test_images_that_vanish_are_not_taken_for_unreadable_ones(tmp_path: Path, kind: str) -> None:
    """The build stops, and goes on once they are back, as if nothing had been."""
    images = tmp_path / "images"
    images.mkdir()
    for i in range(120):
        Image.fromarray(np.random.default_rng(i).integers(0, 256, (9, 9), dtype=np.uint8)).save(
            images / f"{i}.png"
        )
    (images / "damaged.png").write_bytes(b"no image")
    away = tmp_path / "away"
    if kind == "tar":
        with tarfile.open(tmp_path / "images.tar", "w") as packed:
            packed.add(images, "images")
        images = tmp_path / "images.tar"
    edges = "edges:" if kind == "edges:folder" else ""
    source = source_from(f"tar:{tmp_path}/*.tar" if kind == "tar" else f"{edges}{images}")
    assert source.vanished() is None
    whole = build(source, tmp_path / "whole")
    assert [problem.name.rpartition("/")[2] for problem in whole.problems()] == ["damaged.png"]

    def unplug(now: Progress) -> None:
        if now.rows and not away.exists():
            images.rename(away)
            if kind == "emptied folder":  # as a mount point is without its drive
                images.mkdir()

    with pytest.raises(InputError, match=rf"{images} no longer exists"):
        build(source, tmp_path / "p", progress=unplug, threads=1)
    assert 0 < len(Pool.open(tmp_path / "p")) < len(whole)
    assert source.vanished() == images
    away.rename(images)
    assert build(source, tmp_path / "p").complete
    assert contents(tmp_path / "p") == contents(tmp_path / "whole")


def test_images_that_are_away_for_a_moment_are_read_again(tmp_path: Path) -> None:
    """The drive is back before the builder can see that it was away."""

    class Away(FakeSource):
        calls = 0

        def features(self, items: np.ndarray) -> np.ndarray | None:
            Away.calls += 1
            rows = super().features(items)
            return np.zeros_like(rows) if Away.calls == 3 else rows

    assert build(Away(200), tmp_path / "p", threads=1).problems() == []
    build(FakeSource(200), tmp_path / "sound")
    assert contents(tmp_path / "p") == contents(tmp_path / "sound")


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO, errno.ESTALE, None], ids=str)
@pytest.mark.parametrize("kind", ["folder", "tar", "texts"])
def test_a_failure_that_may_pass_stops_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, code: int | None
) -> None:
    """It says nothing about the item: too many open files, a drive that doesn't answer, or no memory."""
    items = tmp_path / "items"
    items.mkdir()
    for i in range(120):
        if kind == "texts":
            (items / f"{i}.txt").write_text(f"letter number {i}")
        else:
            Image.new("L", (9, 9), i).save(items / f"{i}.png")
    if kind == "tar":
        with tarfile.open(tmp_path / "items.tar", "w") as packed:
            packed.add(items, "items")
    spec = {"folder": str(items), "tar": f"tar:{tmp_path}/items.tar", "texts": f"texts:{items}"}[kind]
    source = source_from(spec)
    whole = build(source, tmp_path / "whole", threads=1)
    reads = itertools.count(1)

    def failing(opened: Callable[..., Any]) -> Callable[..., Any]:
        def once(*args: Any, **options: Any) -> Any:
            if next(reads) == 90:
                raise MemoryError if code is None else OSError(code, "it failed")
            return opened(*args, **options)

        return once

    with monkeypatch.context() as patched:
        if kind == "texts":
            patched.setattr(text_folder, "decoded", failing(text_folder.decoded))
        else:
            patched.setattr(Image, "open", failing(Image.open))
        with pytest.raises(InputError, match="it failed" if code else "not enough memory"):
            build(source, tmp_path / "p", threads=1)
    assert build(source, tmp_path / "p").problems() == []
    assert contents(tmp_path / "p") == contents(whole.path)


def test_one_builder_a_pool(tmp_path: Path) -> None:
    """A second builder is turned away and touches nothing."""
    path = tmp_path / "p"
    build(fake(), path)
    before = contents(path)
    lock = lock_for_building(path)
    try:
        with pytest.raises(InputError, match=r"p is being built by another process"):
            build(fake(400), path)
    finally:
        lock.release()
    assert contents(path) == before


class Waiting(threading.Event):
    """An event that says when it is looked at for the second time: the builder has waited for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.is_awaited = threading.Event()
        self._calls = itertools.count(1)

    def is_set(self) -> bool:
        if next(self._calls) > 1:
            self.is_awaited.set()
        return super().is_set()


def test_a_builder_that_may_wait_completes_what_another_leaves(tmp_path: Path) -> None:
    """It touches nothing before the other has ended, however the other ends."""
    path, stop = tmp_path / "p", Waiting()
    path.mkdir()
    with ThreadPoolExecutor(1) as executor:
        with lock_for_building(path):
            waiting = executor.submit(build, fake(), path, stop=stop, wait=True)
            assert stop.is_awaited.wait(60)
            assert contents(path) == {}
        assert waiting.result().complete


def test_a_builder_that_waits_can_be_stopped(tmp_path: Path) -> None:
    """It returns what the other has built so far, and leaves it alone."""
    path, stop = tmp_path / "p", Waiting()
    build(fake(), path, progress=_set_after(3, begun := threading.Event()), stop=begun)
    before = contents(path)
    with lock_for_building(path), ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(build, fake(), path, stop=stop, wait=True)
        assert stop.is_awaited.wait(60)
        stop.set()
        assert not waiting.result().complete
    assert contents(path) == before


def test_a_longer_source_makes_the_pool_grow(tmp_path: Path) -> None:
    """Items added at the source's end become rows at the pool's end; what was there is not touched."""
    path = tmp_path / "p"
    small = build(fake(90), path)
    before = contents(path)
    grown = build(fake(333), path)
    direct = build(fake(333), tmp_path / "direct")
    assert len(small) == 77
    assert grown.prefix(77).digest == small.digest
    assert np.array_equal(small.refreshed().ids, direct.ids)
    everything = np.arange(len(direct))
    assert np.array_equal(grown.rows(everything), direct.rows(everything))
    assert np.array_equal(grown.truth(grown.ids), direct.truth(direct.ids))
    assert grown.complete
    assert grown.expected == len(direct)
    assert grown.source.spec() == fake(333).spec()
    after = contents(path)
    assert all(after[name] == digest for name, digest in before.items() if name != "pool.json")


def test_the_first_items_wait_for_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 5,000 items, 500 of them held out, a hundred are published before 2,000 have been looked at."""
    monkeypatch.undo()
    begun = 0
    through: list[tuple[int, int]] = []

    class Watched(FakeSource):
        def features(self, items: np.ndarray) -> np.ndarray | None:
            nonlocal begun
            begun += len(items)
            return super().features(items)

    def look(now: Progress) -> None:
        if now.rows and not through:
            through.append((now.rows, begun))

    build(Watched(5000, 2, held_out=range(0, 5000, 10)), tmp_path / "p", threads=2, progress=look)
    ((rows, looked_at),) = through
    assert rows == 100
    assert looked_at < 2000


def test_held_out_items_come_when_as_many_others_are_there(tmp_path: Path) -> None:
    """They delay the growth by half at most, and are there before the last rows; resumed or not."""

    def order(n_items: int, held_out: range) -> list[int]:
        """At each step, the rows that are published; a manifest with held-out items counts as −1."""
        seen: list[int] = []
        path = tmp_path / f"{n_items}-{len(held_out)}"

        def look(_: Progress) -> None:
            manifest = Manifest.read(path)
            for now in [manifest.rows, *([-1] if manifest.held_out else [])]:
                if now not in seen:
                    seen.append(now)

        build(FakeSource(n_items, held_out=held_out), path, progress=look)
        return seen

    assert order(150, range(10)) == [0, 20, -1, 70, 120, 140]
    assert order(150, range(60)) == [0, 20, 70, -1, 90]
    assert order(150, range(130)) == [0, -1, 20]


def test_a_pool_of_other_segments_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool begun with a larger first segment, after its held-out items, keeps what it has."""
    before = fake(45)
    small_parts(monkeypatch, first=1000)
    build(before, tmp_path / "p")
    small_parts(monkeypatch)
    kept = contents(tmp_path / "p")
    grown, direct = build(fake(333), tmp_path / "p"), build(fake(333), tmp_path / "direct")
    assert all(contents(tmp_path / "p")[name] == kept[name] for name in kept if name != "pool.json")
    assert np.array_equal(grown.ids, direct.ids)
    assert np.array_equal(grown.rows(np.arange(len(grown))), direct.rows(np.arange(len(direct))))
    assert np.array_equal(grown.held_out.ids, direct.held_out.ids)


def test_a_stopped_pool_can_grow(tmp_path: Path) -> None:
    """Growth does not wait for the pool to be complete."""
    stop = threading.Event()
    build(fake(150), tmp_path / "p", stop=stop, progress=lambda now: stop.set() if now.rows else None)
    grown = build(fake(300), tmp_path / "p")
    assert grown.complete
    assert np.array_equal(grown.ids, build(fake(300), tmp_path / "direct").ids)


def test_a_growth_of_nothing_but_unreadable_items(tmp_path: Path) -> None:
    """A segment may be empty: its items are through, and the pool is complete."""
    build(FakeSource(30, None), tmp_path / "p")
    pool = build(FakeSource(40, None, unreadable=range(30, 40)), tmp_path / "p")
    assert (len(pool), pool.complete, pool.expected, len(pool.problems())) == (30, True, 30, 10)
    again = build(FakeSource(50, None, unreadable=range(30, 40)), tmp_path / "p")
    assert np.array_equal(again.ids, [*range(30), *range(40, 50)])
    assert np.array_equal(again.rows([29, 30]), compute(FakeSource(50, None), np.array([29, 40]))[0])


OTHERS: dict[str, tuple[Callable[[], FakeSource], str]] = {
    "seed": (lambda: fake(seed=1), "item 0 has changed"),
    "seed and longer": (lambda: fake(300, seed=1), "item 0 has changed"),
    "features": (lambda: fake(300, lean=1.0), "item 0 has changed"),
    "shorter": (lambda: fake(150), "150 items instead of 200"),
    "dimension": (lambda: fake(300, n_features=9), "9 features per item instead of 8"),
    "gist": (lambda: fake(300, n_features=None), "384 features per item instead of 8"),
    "classes": (lambda: fake(300, classes=("a", "b", "c")), "different classes"),
    "truth": (lambda: fake(300, priors=(0.9, 0.1), separation=0), "has changed"),
    "held out": (lambda: fake(300, held_out=[1]), "different held-out items"),
}


@pytest.mark.parametrize("which", OTHERS)
def test_another_source_is_refused(tmp_path: Path, which: str) -> None:
    """A pool never mixes two sources: what differs is said, and nothing changes."""
    make, difference = OTHERS[which]
    separation = 0 if which == "truth" else 1
    build(fake(separation=separation), tmp_path / "p")
    before = contents(tmp_path / "p")
    with pytest.raises(InputError, match=f"p was built from 200 made-up items, .*{difference}.*new folder"):
        build(make(), tmp_path / "p")
    assert contents(tmp_path / "p") == before


def test_an_item_whose_class_has_changed_is_named(tmp_path: Path) -> None:
    """Even if its features are the same."""

    class Relabeled(FakeSource):
        def truth(self, items: np.ndarray) -> np.ndarray:
            return np.where(items == 7, 1 - super().truth(items), super().truth(items))

    build(FakeSource(30, separation=0), tmp_path / "p")
    with pytest.raises(InputError, match="item 7 has changed, item 7"):
        build(Relabeled(40, separation=0), tmp_path / "p")


def test_an_item_that_became_unreadable_is_named(tmp_path: Path) -> None:
    """A source that lost a file does not continue the pool."""
    build(FakeSource(30, None), tmp_path / "p")
    with pytest.raises(InputError, match="item 29, item 29, can no longer be read"):
        build(FakeSource(40, None, unreadable=[29]), tmp_path / "p")


def test_what_the_source_saves_is_kept_for_each_growth(tmp_path: Path) -> None:
    """A source's own files are opened as they were saved; an earlier snapshot keeps its own."""

    class Listed(FakeSource):
        kind = "listed"

        def save(self, folder: Path) -> None:
            (folder / "list").write_text(str(len(self)))

        @classmethod
        def from_spec(cls, spec: dict[str, Any], folder: Path | None = None) -> Listed:
            source = super().from_spec(spec)
            assert folder is not None
            assert (folder / "list").read_text() == str(len(source))
            return source

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setitem(KINDS, "listed", Listed)
        small = build(Listed(90), tmp_path / "p")
        grown = build(Listed(120), tmp_path / "p")
        assert len(small.source) == 90
        assert len(grown.source) == len(Pool.open(tmp_path / "p").source) == 120


def test_dtype_of_a_pool_stays(tmp_path: Path) -> None:
    """The number format is chosen once; a wrong word is refused before anything is written."""
    build(fake(), tmp_path / "p", dtype="float16")
    assert build(fake(300), tmp_path / "p").dtype == np.float16
    with pytest.raises(InputError, match="has float16 features, got dtype float32"):
        build(fake(300), tmp_path / "p", dtype="float32")
    with pytest.raises(InputError, match="dtype must be float32, float16 or byte, got 'int8'"):
        build(fake(), tmp_path / "q", dtype="int8")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="threads must be at least 1, got 0"):
        build(fake(), tmp_path / "q", threads=0)
    assert not (tmp_path / "q").exists()


def test_nothing_makes_no_pool(tmp_path: Path) -> None:
    """A source without items, or with held-out items only, is refused with its name."""
    with pytest.raises(InputError, match="0 made-up items has no items"):
        build(FakeSource(0), tmp_path / "p")
    with pytest.raises(InputError, match="none of the 5 items"):
        build(FakeSource(5, held_out=range(5)), tmp_path / "p")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_estimate_is_what_the_pool_takes(tmp_path: Path, dtype: Any) -> None:
    """The size said beforehand is that of the files, but for a few kilobytes a segment."""
    source = fake(300, n_features=512)
    expected = estimate(source, dtype=dtype)
    build(source, tmp_path / "p", dtype=dtype)
    taken = sum(file.stat().st_size for file in (tmp_path / "p").rglob("*") if file.is_file())
    assert (expected.items, expected.n_features) == (300, 512)
    assert abs(taken - expected.bytes) < 8 * 4096
    assert estimate(FakeSource(1000, None)).n_features == 384


def test_too_little_room_is_said_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the disk lacks room no pool is begun, and no growth either."""
    path = tmp_path / "p"
    room, size = {"free": 32 << 20}, bytes_in_words(estimate(fake(2000, n_features=512)).bytes)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(**room))
    with pytest.raises(
        InputError, match=rf"p has 33.6 MB free, and the pool needs {size} more, with 33.6 MB to"
    ):
        build(fake(2000, n_features=512), path)
    assert contents(path) == {}
    room["free"] = 1 << 40
    build(fake(), path)
    room["free"] = 0
    before = contents(path)
    assert build(fake(), path).complete
    with pytest.raises(InputError, match="0 bytes free"):
        build(fake(300), path)
    assert contents(path) == before
