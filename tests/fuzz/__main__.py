"""Gives malformed images, uploads, import files, answers, backups and project files to what reads them.

``python -m tests.fuzz --number 10000 --seed 1`` tries so many cases of each kind, and says of each that ends
otherwise than by one of our own errors, or takes more than a second of processor time, or writes outside of
its folder, by which seed it comes again: ``--only KIND --seed SEED --number 1``. Cases run in processes of
their own, so that one that crashes or hangs is told, too. What was found once is in ``kept.json``, which the
tests try again.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import queue
import resource
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from closecall.app.experiments.compare.peers import memory_limited
from tests.folders import PREFIX, remove_folders
from tests.statements import compiled_once

KEPT = Path(__file__).with_name("kept.json")

SLOW_SECONDS = 1.0
"""Of processor time: of the clock's, other programs take their share."""

MOST_MEMORY = 6 * 2**30
"""Bytes of addresses that a worker may have: what asks for more is refused it."""

A_PROCESS = 3000
"""Cases that one process tries: what it keeps of closed projects goes with it."""

UNNAMED = getattr(os, "O_TMPFILE", ~0)
"""A file that no folder has: the system's, until it is closed."""

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
CHANGES = {
    "os.mkdir",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
}
DEVICES = ("/dev/", "/proc/")
COMPILED = "/__pycache__/"
"""Where Python and Numba keep what they compiled."""


def generator(kind: str, seed: int) -> np.random.Generator:
    """All that a case is made from."""
    return np.random.default_rng([seed, sum(kind.encode())])


@compiled_once()
def work(kind: str, first: int, number: int, folder: Path, patience: float) -> None:
    """Try the cases of a kind; a line of JSON before each, and one after it.

    Before somebody's `patience` ends, a case says where it hangs.
    """
    from tests.fuzz.targets import TARGETS

    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    attempt = TARGETS[kind](folder)
    with _watching(folder) as written:
        for seed in range(first, first + number):
            print(json.dumps({"begins": seed}), flush=True)
            faulthandler.dump_traceback_later(0.8 * patience)
            print(json.dumps(_tried(attempt, kind, seed, seed == first + number - 1, written)), flush=True)
    print(json.dumps({"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}), flush=True)
    remove_folders()
    os._exit(0)


def run_here(kind: str, first: int, number: int, folder: Path) -> Report:
    """Try the cases in this process, which one that crashes or hangs would end.

    What other threads of this process write is their own affair.
    """
    from tests.fuzz.targets import TARGETS

    report = Report(kind)
    others = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
    attempt = TARGETS[kind](folder)
    with memory_limited(MOST_MEMORY / 1e9), _watching(folder, others) as written:
        for seed in range(first, first + number):
            report.take(_tried(attempt, kind, seed, seed == first + number - 1, written))
    return report


def _tried(attempt: Any, kind: str, seed: int, is_last: bool, written: list[str]) -> dict[str, Any]:
    """Try a case, and look at what is left after the last one; what became of it."""
    from tests.fuzz.targets import OURS

    began, said, wrong = time.thread_time() - _aside(attempt), "", ""
    try:
        try:
            attempt(generator(kind, seed))
        finally:
            if is_last and hasattr(attempt, "finish"):
                attempt.finish()
    except OURS as error:
        said = type(error).__name__
        if "\n" in str(error) or not str(error):
            wrong = f"no sentence: {error!r}"
    except BaseException:  # noqa: BLE001 (whatever it is, it is looked for)
        wrong = traceback.format_exc()
    seconds = time.thread_time() - _aside(attempt) - began
    if written:
        wrong = f"{wrong}wrote outside: {written}"
        written.clear()
    return {"ended": seed, "said": said, "wrong": wrong, "seconds": seconds}


def _aside(attempt: Any) -> float:
    """Return the seconds of a processor that went into stages and checks, not into cases."""
    return float(getattr(attempt, "aside", 0.0))


_watches: list[Callable[[str, tuple[Any, ...]], None]] = []


@cache
def _hook() -> None:
    """Tell those that watch of what this program does: a hook stays as long as its process."""
    sys.addaudithook(lambda event, arguments: [watch(event, arguments) for watch in _watches] and None)


@contextmanager
def _watching(folder: Path, others: Set[int | None] = frozenset()) -> Iterator[list[str]]:
    """Gives what this program writes elsewhere than in `folder`, but for what its `others` threads write."""
    allowed = (os.path.realpath(folder), os.path.realpath(tempfile.gettempdir()) + f"/{PREFIX}")
    written: list[str] = []

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            if not isinstance(path, (str, bytes)) or not (flags & WRITING if flags else "w" in str(mode)):
                return
            if flags & UNNAMED == UNNAMED:
                return
            if os.path.isdir(path):  # noqa: PTH112 (what is opened so has no name)
                return
        elif event in CHANGES:
            path = arguments[0]
        else:
            return
        if isinstance(path, (str, bytes, os.PathLike)) and threading.get_ident() not in others:
            real = os.path.realpath(_within(event, arguments, os.fsdecode(path)))
            if not real.startswith((*allowed, *DEVICES)) and COMPILED not in f"{real}/":
                written.append(f"{event} {real}")

    _hook()
    _watches.append(watch)
    try:
        yield written
    finally:
        _watches.remove(watch)


def _within(event: str, arguments: tuple[Any, ...], path: str) -> str:
    """Return the path, also where it is relative to an open folder."""
    folder = arguments[-1] if event in ("os.remove", "os.rmdir") else -1
    if folder == -1 or os.path.isabs(path):  # noqa: PTH117
        return path
    return os.path.join(os.path.realpath(f"/proc/self/fd/{folder}"), path)  # noqa: PTH118


class Report:
    """What became of the cases of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.tried = self.refused = 0
        self.slowest, self.slowest_seed = 0.0, 0
        self.memory = 0
        self.wrong: list[tuple[int, str]] = []

    def take(self, line: dict[str, Any]) -> None:
        """One case's end."""
        self.tried += 1
        self.refused += bool(line["said"])
        if line["seconds"] > self.slowest:
            self.slowest, self.slowest_seed = line["seconds"], line["ended"]
        if line["wrong"]:
            self.wrong.append((line["ended"], line["wrong"]))
        elif line["seconds"] > SLOW_SECONDS:
            self.wrong.append((line["ended"], f"took {line['seconds']:.2f} s of processor time"))

    def __str__(self) -> str:
        said = (
            f"{self.kind}: {self.tried:,} tried, {self.refused:,} refused, {len(self.wrong)} wrong; slowest "
        )
        said += f"{self.slowest:.3f} s (seed {self.slowest_seed}), {self.memory / 1024:,.0f} MB"
        return "\n".join([said, *(f"  seed {seed}: {what}" for seed, what in self.wrong)])


def run(kind: str, first: int, number: int, patience: float) -> Report:
    """Try the cases in a process that is watched: one that is silent for `patience` seconds hangs."""
    report, at, end = Report(kind), first, first + number
    while at < end:
        with tempfile.TemporaryDirectory(prefix="closecall-fuzz-") as folder:
            words = [sys.executable, "-m", "tests.fuzz", "--worker", folder, "--only", kind]
            process = subprocess.Popen(
                [
                    *(*words, "--seed", str(at), "--number", str(min(A_PROCESS, end - at))),
                    *("--patience", str(patience)),
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert process.stdout is not None
            assert process.stderr is not None
            lines: queue.Queue[str] = queue.Queue()
            said: list[str] = []
            readers = [
                threading.Thread(target=_pass_on, args=(process.stdout, lines.put), daemon=True),
                threading.Thread(target=_pass_on, args=(process.stderr, said.append), daemon=True),
            ]
            for reader in readers:
                reader.start()
            begun: int | None = None
            is_done = False
            while not is_done:
                try:
                    # What is there before the first case has to load and to compile.
                    line = json.loads(lines.get(timeout=patience if begun is not None else 300))
                except queue.Empty:
                    process.kill()
                    break
                except ValueError:
                    break
                if "begins" in line:
                    begun = line["begins"]
                elif "ended" in line:
                    report.take(line)
                    if line["wrong"]:  # a run of 100,000 cases takes long
                        print(f"{kind}, seed {line['ended']}: {line['wrong']}", file=sys.stderr, flush=True)
                    at = line["ended"] + 1
                elif "memory" in line:
                    report.memory = max(report.memory, line["memory"])
                    is_done = True
            code = process.wait()
            if not is_done:
                if begun is None:
                    raise RuntimeError(f"{kind} did not begin: {''.join(said)[-2000:]}")
                what = f"{'hung' if code == -9 else f'ended the program ({code})'}: {''.join(said)[-3000:]}"
                print(f"{kind}, seed {begun}: {what}", file=sys.stderr, flush=True)
                report.wrong.append((begun, what))
                at = begun + 1
    return report


def _pass_on(stream: Any, take: Any) -> None:
    for line in stream:
        take(line)
    take("")


def main() -> None:
    """See the module."""
    from tests.fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--number", type=int, default=10_000, help="cases of each kind")
    parser.add_argument("--seed", type=int, default=1, help="that of the first case")
    parser.add_argument("--only", choices=sorted(TARGETS), help="one kind alone")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds until a case hangs")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.only, given.seed, given.number, given.worker, given.patience)
    found = False
    for kind in [given.only] if given.only else TARGETS:
        report = run(kind, given.seed, given.number, given.patience)
        print(report, flush=True)
        found |= bool(report.wrong)
    sys.exit(found)


if __name__ == "__main__":
    main()
