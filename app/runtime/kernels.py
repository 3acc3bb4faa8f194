"""Compile the kernels (functions compiled by Numba) in a child process while the server is already running.

After an installation, nothing is compiled yet, and compiling takes a minute or two. Meanwhile Numba would
lock the whole process, and even kernels that are only loaded from disk would have to wait. A child process
therefore compiles the kernels in several steps (`Step`), training's kernels first. This process calls
`is_ready` or `wait_for` before it uses a kernel. If the child fails, kernels are compiled in this process
when they are first used.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import get_args

from closecall.app.runtime import child
from closecall.app.runtime.background import ClosedError
from closecall.core.numerics.kernel_cache import Step, marker, use_writable_folder

PATIENCE = 300.0
"""Maximum number of seconds to wait for the child process. After that, this process compiles by itself."""

log = logging.getLogger(__name__)


class Preparation:
    """A child process that compiles all Numba functions.

    Parameters
    ----------
    command : list of str
        Command line of the child, which must print its progress like ``closecall.core.warmup --report``.
    """

    def __init__(self, command: list[str]) -> None:
        self.share = 0.0
        """The share of Numba functions that are compiled, 0 … 1."""
        self._complete = {step: threading.Event() for step in get_args(Step)}
        self._stopped = False
        # The child may be killed at any moment, so its temporary files are removed here.
        self._scratch = TemporaryDirectory(prefix="closecall-", ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            command,
            env={**child.environment(), "TMPDIR": self._scratch.name},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, name="kernels", daemon=True)
        self._reader.start()

    def is_complete(self, step: Step) -> bool:
        """Return whether the functions in the set `step` are compiled, or the child process has ended."""
        return self._complete[step].is_set()

    def wait(self, step: Step) -> None:
        """Wait until the Numba functions in the set `step` are compiled, at most `PATIENCE` seconds.

        Raises
        ------
        ClosedError
            If the child was stopped.
        """
        self._complete[step].wait(PATIENCE)
        if self._stopped:
            raise ClosedError

    def stop(self) -> None:
        """End the child process and remove its temporary files. Functions that it has compiled are kept."""
        self._stopped = True
        self._process.kill()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        last = ""
        for line in self._process.stdout:
            first, *steps = line.split() or [""]
            try:
                self.share = float(first)
            except ValueError:
                last = line.strip() or last
                continue
            for step in self._complete.keys() & set(steps):
                self._complete[step].set()
        # Ctrl+C, or stopping the service, ends the child together with the server and needs no warning.
        ended = self._process.wait()
        self._scratch.cleanup()
        if ended not in (0, -signal.SIGINT, -signal.SIGTERM) and not self._stopped:
            log.warning("The kernels could not be compiled ahead and will be when they are used: %s", last)
        for complete in self._complete.values():
            complete.set()


_running: Preparation | None = None


@contextmanager
def prepared_in_background() -> Iterator[None]:
    """Compile the missing Numba functions in a child process, at most until the ``with`` block ends."""
    global _running
    use_writable_folder()
    if marker().exists():
        yield
        return
    _running = Preparation(child.module("closecall.core.warmup", "--report"))
    try:
        yield
    finally:
        _running.stop()
        _running = None


def share() -> float | None:
    """Return the share of Numba functions that are compiled, 0 … 1; None if no child process is compiling."""
    running = _running
    return None if running is None or running.is_complete("everything") else running.share


def is_ready(step: Step) -> bool:
    """Return whether the Numba functions in the set `step` can be used without waiting for the compiler."""
    running = _running
    return running is None or running.is_complete(step)


def wait_for(step: Step) -> None:
    """Wait for the Numba functions in the set `step`; see `Preparation.wait`, which may raise ClosedError."""
    if (running := _running) is not None:
        running.wait(step)
