from __future__ import annotations

import errno
import itertools
import json
import multiprocessing
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.pool.build import Progress, build, read_progress
from closecall.core.pool.pool import Pool
from tests.fakes import FakeSource
from tests.pools import contents, small_parts, small_pool
from tests.scale import scaled, thorough

KILLS = scaled(quick=5, all=12, long=200)


class Slow(FakeSource):
    """Takes its time, so that there is something to interrupt."""

    def features(self, items: np.ndarray) -> np.ndarray | None:
        time.sleep(0.002)
        return super().features(items)


class Saved(FakeSource):
    """Keeps something beside its spec, so that there is more to write."""

    def save(self, folder: Path) -> None:
        (folder / "list").write_text(str(len(self)))


SLOW = Slow(400, held_out=range(0, 60, 3))
BEFORE, SAVED = (Saved(n, held_out=range(0, 60, 3)) for n in (80, 150))


def require_honest(path: Path, reference: Path) -> int:
    """What an interrupted builder leaves is nothing, or the first rows of what was meant, and says which."""
    if not (path / "pool.json").exists():
        with pytest.raises(InputError, match=r"no pool.json|no such folder"):
            Pool.open(path)
        return 0
    pool, whole = Pool.open(path), Pool.open(reference)
    pool.check(deep=True)
    assert np.array_equal(pool.ids, whole.ids[: len(pool)])
    assert np.array_equal(pool.rows(np.arange(len(pool))), whole.rows(np.arange(len(pool))))
    assert pool.complete == (len(pool) == pool.expected)
    progress = read_progress(path)
    assert progress is not None
    assert progress.state == ("done" if pool.complete else "stopped")
    return len(pool)


def published(path: Path) -> int:
    """How many rows of a pool are there, while it is being built."""
    try:
        return len(Pool.open(path))
    except InputError:
        return 0


def _build_in_child(path: str, threads: int) -> None:
    small_parts()
    build(SLOW, path, threads=threads)


@pytest.mark.slow
def test_kill_9_at_any_moment(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Builders killed at random moments never leave damage, and the last one ends in the same bytes.

    Every other one has published rows before: on a slow machine too, pools of several lengths are left.
    """
    processes = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
    if sys.platform == "linux":
        processes.set_forkserver_preload(["tests.unit.core.pool.test_build_kill"])
    reference = tmp_path_factory.mktemp("whole") / "p"
    small_pool(reference, SLOW)
    rng = np.random.default_rng(0)
    landed, finished, states = 0, 0, set()
    for attempt in range(20 * KILLS):
        path = tmp_path / str(landed // 4 + finished)
        before = published(path)
        child = processes.Process(target=_build_in_child, args=(str(path), 1 + attempt % 3))
        child.start()
        if landed < KILLS:
            while not path.exists() and child.is_alive():
                time.sleep(0.001)
            while landed % 2 and published(path) == before and child.is_alive():
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.15))
            child.kill()
        child.join()
        landed += child.exitcode == -signal.SIGKILL
        finished += child.exitcode == 0
        states.add(require_honest(path, reference))
        if child.exitcode == 0 and landed >= KILLS:
            break
    assert landed >= KILLS
    assert len(states) >= scaled(quick=2, all=3)
    for path in tmp_path.iterdir():
        small_pool(path, SLOW)
        assert contents(path) == contents(reference)


@contextmanager
def suppress_only(error: type[BaseException], words: str) -> Iterator[None]:
    """Nothing, or an error with these words."""
    try:
        yield
    except error as raised:
        if words not in str(raised):
            raise


class Crashed(BaseException):
    """The power went."""


class Fault:
    """Lets the first `after` calls of os.fsync and os.replace pass, and none from then on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: str, after: int) -> None:
        self.kind, self.left, self.struck = kind, after, False
        self._replace = os.replace
        monkeypatch.setattr(os, "fsync", self._fsync)
        monkeypatch.setattr(os, "replace", self._replacing)

    def _fsync(self, descriptor: int) -> None:
        if self._strikes():
            if self.kind == "torn" and stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
            self._fail()

    def _replacing(self, source: Path, target: Path) -> None:
        strikes = self._strikes()
        if not strikes or self.kind == "after":
            self._replace(source, target)
        if strikes:
            self._fail()

    def _strikes(self) -> bool:
        self.left -= 1
        self.struck = self.left < 0
        return self.struck

    def _fail(self) -> None:
        if self.kind == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise Crashed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pool", "kind"),
    [
        thorough("new", "before"),
        thorough("new", "after"),
        ("new", "torn"),
        thorough("new", "full"),
        ("growing", "before"),
        thorough("growing", "after"),
        thorough("growing", "torn"),
        ("growing", "full"),
    ],
)
def test_a_fault_at_every_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool: str, kind: str
) -> None:
    """Power cut before or after any write, half a file on the disk, a full disk: nothing is damaged."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # a hundred builds, and no power cut that is real
    start, reference, path = tmp_path / "start", tmp_path / "whole", tmp_path / "p"
    start.mkdir()
    growing = pool == "growing"
    if growing:
        small_pool(start, BEFORE)
    shutil.copytree(start, reference)
    small_pool(reference, SAVED)
    step = scaled(quick=3, all=1) if kind == "full" else 1
    for n_writes in itertools.count(step=step):
        shutil.copytree(start, path)
        with pytest.MonkeyPatch.context() as faulty:
            fault = Fault(faulty, kind, n_writes)
            if kind == "full":
                with suppress_only(InputError, "p is full: finished work is safe"):
                    small_pool(path, SAVED)
            else:
                with suppress_only(Crashed, ""):
                    small_pool(path, SAVED)
        rows = require_honest(path, reference)
        assert rows >= 60 * growing
        if not fault.struck:
            break
        small_pool(path, SAVED)
        assert contents(path) == contents(reference)
        shutil.rmtree(path)
    assert n_writes > 30


def test_killed_and_then_grown(tmp_path: Path) -> None:
    """What a dead builder left is no hindrance to growing instead of resuming."""
    for n_writes in range(20, 32):
        path = tmp_path / str(n_writes)
        with pytest.MonkeyPatch.context() as faulty:
            Fault(faulty, "torn", n_writes)
            with pytest.raises(Crashed):
                small_pool(path, BEFORE)
        whole = small_pool(path, SAVED)
        assert whole.complete
        whole.check(deep=True)
        assert not list(path.rglob("*.tmp"))


def test_nothing_is_named_before_it_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a manifest appears, all that it names is synced, folders too; and then at once its own name."""
    path = tmp_path / "p"
    synced: set[tuple[int, int]] = set()
    fsync, replace = os.fsync, os.replace
    manifests = 0
    unsynced_name = False

    def key(file: Path) -> tuple[int, int]:
        """The file as it is now; a folder too, since what it names changes its time."""
        return file.stat().st_ino, file.stat().st_mtime_ns

    def note(descriptor: int) -> None:
        nonlocal unsynced_name
        fsync(descriptor)
        now = os.fstat(descriptor)
        synced.add((now.st_ino, now.st_mtime_ns))
        assert not unsynced_name or now.st_ino == path.stat().st_ino
        unsynced_name = False

    def look(source: Path, target: Path) -> None:
        nonlocal manifests, unsynced_name
        if Path(target).name == "pool.json":
            manifests += 1
            unsynced_name = True
            named = json.loads(Path(source).read_text())
            parts = [part["folder"] for part in (named["held_out"], *named["segments"]) if part]
            folders = [path / folder for folder in (*parts, named["source_folder"])]
            files = [file for folder in folders for file in folder.iterdir()]
            for needed in (Path(source), *files, *folders, *(path.glob("segments"))):
                assert key(needed) in synced, needed
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(os, "replace", look)
    small_pool(path, SAVED)
    assert manifests == 6  # the first, the held-out items, four segments
    assert not unsynced_name


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of four megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(disk)]
    if sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("only root can mount a small disk")
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this system does not let root mount a small disk")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_fills_while_building(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When others fill the disk, building ends in one sentence, and goes on when there is room again."""
    monkeypatch.setattr("closecall.core.pool.build_size.SPARE_BYTES", 0)
    source = FakeSource(500, 512)
    path, filler = small_disk / "p", small_disk / "filler"

    def fill(now: Progress) -> None:
        if now.rows >= 70 and not filler.exists():
            room = shutil.disk_usage(small_disk).free - 150_000
            filler.write_bytes(bytes(room))

    with pytest.raises(
        InputError, match=r"p is full: finished work is safe; free some space and build again"
    ):
        small_pool(path, source, progress=fill)
    pool = Pool.open(path)
    pool.check(deep=True)
    assert (len(pool), pool.complete) == (120, False)
    with pytest.raises(InputError, match="B free, and the pool needs"):
        small_pool(path, source)
    filler.unlink()
    assert small_pool(path, source).complete
    small_pool(tmp_path / "whole", source)
    assert contents(path) == contents(tmp_path / "whole")


def test_a_disk_too_small_from_the_start(small_disk: Path) -> None:
    """A real disk without room is noticed before the first write."""
    with pytest.raises(InputError, match="B free, and the pool needs"):
        build(FakeSource(3000, 512), small_disk / "p")


def test_a_disk_that_cannot_be_written(small_disk: Path) -> None:
    """On a read-only disk a whole pool opens, and building says what hinders it."""
    path = small_disk / "p"
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("closecall.core.pool.build_size.SPARE_BYTES", 0)
        small_pool(path, FakeSource(100))
        before = contents(path)
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        assert len(Pool.open(path)) == 100
        assert read_progress(path).state == "done"  # type: ignore[union-attr]
        with pytest.raises(InputError, match=r"p cannot be written: Read-only file system"):
            small_pool(path, FakeSource(200))
        with pytest.raises(InputError, match=r"the folder .*new cannot be made: Read-only"):
            small_pool(small_disk / "new", FakeSource(100))
        assert contents(path) == before
