"""Programs that label and read while the server is killed: ``python -m tests.programs [--kills N]``.

Three programs of ``tests/fixtures/programs`` use the client of the HTTP API at the same time. ``label.py``
labels digits. ``read.py`` copies each answer into a database of its own. ``predict.py`` posts predictions and
reads them back. Meanwhile, the server is killed with SIGKILL again and again, and so is ``read.py``, which
goes on from its cursor. Afterwards, what the programs have is compared with the log. Prints a table, and
exits with 1 if there is any difference.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from closecall.app.experiments.bench.serving import Server
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.workspace import Workspace
from closecall.client import Client
from closecall.core.learning.round import is_positive
from closecall.core.pool.pool import Pool
from tests.folders import ROOT
from tests.projects import digits_pool

PROGRAMS = ROOT / "tests" / "fixtures" / "programs"
KEY, POSITIVE = "digits", "7"
SEVENS = "sevens.txt"

PATIENCE = 120
"""Seconds without a new answer after which the run has failed."""

WAITS = (0.2, 1.5)
"""Range in seconds between two kills of the reader, drawn at random."""


@dataclass
class Line:
    """A line of the table: what was counted, how much there is, and whether it should be there."""

    what: str
    number: int
    is_wrong: bool = False


@dataclass
class Outcome:
    """What a run found."""

    lines: list[Line] = field(default_factory=list)

    def add(self, what: str, number: int) -> None:
        self.lines.append(Line(what, number))

    def differences(self, what: str, found: Iterable[Any]) -> None:
        number = len(list(found))
        self.lines.append(Line(what, number, is_wrong=number > 0))

    @property
    def wrong(self) -> list[Line]:
        return [line for line in self.lines if line.is_wrong]

    def __str__(self) -> str:
        width = max(len(line.what) for line in self.lines)
        return "\n".join(
            f"{line.what:<{width}} {line.number:>8,}{'  !' if line.is_wrong else ''}" for line in self.lines
        )


class Program:
    """One of the programs, in a process of its own, with the lines that it has printed."""

    def __init__(
        self, name: str, folder: Path, environment: dict[str, str], replaced: tuple[str, str]
    ) -> None:
        self.lines: list[str] = []
        self.kills = 0
        self._folder = folder
        self._code = (PROGRAMS / f"{name}.py").read_text("utf-8").replace(*replaced)
        self._environment = environment
        self._errors = folder / f"{name}.log"
        self.start()

    def start(self) -> None:
        with self._errors.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", self._code],
                cwd=self._folder,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        threading.Thread(target=self._listen, args=(self.process.stdout,), daemon=True).start()

    def _listen(self, stream: Any) -> None:
        for line in stream:
            self.lines.append(line.rstrip("\n"))

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.kills += 1

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def errors(self) -> str:
        return self._errors.read_text("utf-8", "replace")[-2000:]


def make_project(folder: Path, n_items: int) -> tuple[Path, str]:
    """Make a project on at least `n_items` digits, and a token for it."""
    pool = digits_pool(n_items + n_items // 5)
    with Workspace(folder) as workspace:
        shutil.copytree(pool, folder / "pool")
        made = workspace.create(NewProject(str(folder / "pool"), f"Is this a {POSITIVE}?"))
    project = folder / KEY
    if made != KEY:
        (folder / made).rename(project)
    command = [sys.executable, "-m", "closecall.app.cli", "token", "create", str(project)]
    words = ["--name", "ada", "--scope", "own"]
    return project, subprocess.run(
        [*command, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def run(folder: Path, *, kills: int, n_items: int, seed: int) -> Outcome:
    """Run the programs, kill the server `kills` times, and compare.

    The server is killed after equally many answers each time, and a random while later.
    """
    rng = random.Random(seed)
    project, token = make_project(folder, n_items)
    pool = Pool.open(folder / "pool")
    sevens = is_positive(pool.truth(pool.ids), pool.classes.index(POSITIVE))
    is_yes = dict(zip(pool.ids.tolist(), sevens.tolist(), strict=True))
    names = pool.source.names(pool.ids[sevens])
    (folder / SEVENS).write_text("\n".join(names), "utf-8")
    server = Server(project)
    environment = {**os.environ, "CLOSECALL_URL": server.url, "CLOSECALL_TOKEN": token}
    started = time.monotonic()
    with ExitStack() as stack:
        server.start()
        stack.callback(server.stop)
        programs = {}
        for name, replaced in (
            ("label", ("(session, 1000)", f"(session, {n_items})")),
            ("read", ("time.sleep(1)", "time.sleep(0.1)")),
            ("predict", ("", "")),
        ):
            programs[name] = Program(name, folder, environment, replaced)
            stack.callback(programs[name].stop)
        over = threading.Event()
        stack.callback(over.set)
        reaper = threading.Thread(target=_kill_now_and_then, args=(programs["read"], over, rng.random()))
        reaper.start()
        for number in range(kills):
            _wait_for(programs["label"], (number + 1) * n_items // (kills + 1))
            time.sleep(rng.uniform(0, 0.3))
            server.kill()
            server.start()
        _wait_for(programs["label"], n_items)
        code = programs["label"].process.wait(PATIENCE)
        over.set()
        reaper.join()
        client = Client(server.url, token).project(KEY)
        log = list(client.answers())
        _wait_until_read(folder, log[-1].id)
    outcome = Outcome()
    outcome.add("kills of the server", kills)
    outcome.add("kills of the reader", programs["read"].kills)
    outcome.add("seconds", round(time.monotonic() - started))
    _compare(outcome, programs, log, is_yes, _copied(folder), code, n_items)
    return outcome


def _compare(
    outcome: Outcome,
    programs: dict[str, Program],
    log: Sequence[Any],
    is_yes: dict[int, bool],
    copied: list[tuple[str, int, str]],
    code: int,
    n_items: int,
) -> None:
    words = [line.split() for line in programs["label"].lines[:n_items]]
    given = [(answer, int(item)) for item, answer in words]
    stored = [(answer.id, answer.item) for answer in log]
    outcome.add("answers acknowledged", len(given))
    outcome.differences("  lost", set(given) - set(stored))
    outcome.differences("  stored twice", (n for n in Counter(stored).values() if n > 1))
    outcome.differences("  stored, but never given", set(stored) - set(given))
    outcome.differences("  in another order", () if given == stored else [1])
    outcome.differences("  wrong", (a for a in log if (a.answer == "yes") != is_yes[a.item]))
    outcome.differences(
        "  items asked about twice", (n for n in Counter(i for _, i in given).values() if n > 1)
    )
    outcome.differences("  failures of the program", [code] if code else [])
    expected = [(answer.id, answer.item, answer.answer) for answer in log]
    outcome.add("answers read by cursor", len(copied))
    outcome.differences("  missed", Counter(expected) - Counter(copied))
    outcome.differences("  read twice, or never given", (Counter(copied) - Counter(expected)).elements())
    outcome.differences("  in another order", () if copied == expected else [1])
    predicted = [line.split() for line in programs["predict"].lines]
    outcome.add("predictions posted", sum(int(number) for number, _ in predicted))
    outcome.differences("  sets that differ", (same for _, same in predicted if same != "True"))
    outcome.differences(
        "  failures of the program", [1] if not predicted or programs["predict"].errors() else []
    )


def _kill_now_and_then(program: Program, over: threading.Event, seed: float) -> None:
    """Kill a program at random moments, and start it again."""
    rng = random.Random(seed)
    while not over.wait(rng.uniform(*WAITS)):
        program.kill()
        program.start()


def _wait_for(program: Program, n_lines: int) -> None:
    """Wait until a program has printed this number of lines."""
    until, before = time.monotonic() + PATIENCE, 0
    while (number := len(program.lines)) < n_lines:
        if number > before:
            until, before = time.monotonic() + PATIENCE, number
        if program.process.poll() is not None or time.monotonic() > until:
            raise AssertionError(f"The program stopped after {number} lines: {program.errors()}")
        time.sleep(0.02)


def _wait_until_read(folder: Path, answer_id: str) -> None:
    until = time.monotonic() + PATIENCE
    while answer_id not in {answer for answer, _, _ in _copied(folder)} and time.monotonic() < until:
        time.sleep(0.1)


def _copied(folder: Path) -> list[tuple[str, int, str]]:
    """Return what the reader has stored, in its order."""
    with closing(sqlite3.connect(folder / "answers.db", timeout=30)) as store:
        if not store.execute("SELECT 1 FROM sqlite_master WHERE name = 'answers'").fetchall():
            return []  # on a busy machine, the reader has not begun yet
        return store.execute("SELECT id, item, answer FROM answers ORDER BY rowid").fetchall()


def main() -> None:
    """Run the programs once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="kills of the server")
    parser.add_argument("--items", type=int, default=1000, help="items to label")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="closecall-programs-") as folder:
        outcome = run(Path(folder), kills=chosen.kills, n_items=chosen.items, seed=chosen.seed)
    print(outcome)
    if outcome.wrong:
        sys.exit("There are differences")


if __name__ == "__main__":
    main()
