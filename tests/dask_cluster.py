"""A Dask cluster on this machine: a scheduler and workers, each a process of its own that can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.folders import ROOT
from tests.waiting import until


class Cluster:
    """Processes in a folder of their own; `address` is the scheduler's."""

    def __init__(self, folder: Path, options: Sequence[str], protocol: str) -> None:
        self._folder = folder
        self._options = options
        self._n_started = 0
        self.workers: dict[str, subprocess.Popen[bytes]] = {}  # by name
        file = folder / "scheduler.json"
        words = f"--port 0 --protocol {protocol} --idle-timeout 1h --scheduler-file {file}"
        self.scheduler = self._start("scheduler", *words.split())
        until(lambda: file.exists() and file.read_text().endswith("}"))
        self.address = json.loads(file.read_text())["address"]

    def add(self, n: int) -> list[str]:
        """Start workers, and return their names."""
        names = []
        for _ in range(n):
            self._n_started += 1
            name = f"worker-{self._n_started}"
            words = f"{self.address} --no-nanny --name {name} --nthreads 1 --death-timeout 60"
            self.workers[name] = self._start("worker", *words.split())
            names.append(name)
        return names

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a worker."""
        self.workers[name].send_signal(number)
        if number == signal.SIGKILL:
            self.workers.pop(name).wait()

    def close(self) -> None:
        """Kill all processes."""
        for process in [*self.workers.values(), self.scheduler]:
            process.kill()
            process.wait()

    def _start(self, kind: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *words, *self._options]
        with (self._folder / "log.txt").open("ab") as log:
            return subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--no-dashboard"],
                cwd=self._folder,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )


@contextmanager
def cluster(n_workers: int = 4, options: Sequence[str] = (), *, protocol: str = "tcp") -> Iterator[Cluster]:
    """Start a cluster, and end it; `options` are those of all its processes."""
    with TemporaryDirectory() as folder:
        started = Cluster(Path(folder), options, protocol)
        try:
            started.add(n_workers)
            yield started
        finally:
            started.close()
