"""Build a project's pool in a child process, so that pages never wait for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from closecall.app.runtime import child
from closecall.app.runtime.interruption import EXIT_STOPPED
from closecall.core.pool.build import Progress, read_progress

LOG_FILE = "build.log"

NICE = 10
"""Niceness of the processes that build pools, so that the pages have priority."""


class Builder:
    """The build of one pool.

    A build can be resumed. The process that builds the pool may have started before this object was created,
    and may outlive it. Progress is therefore read from the pool's folder. If another process is building the
    pool, a new child waits for its end, and then builds the missing items.

    Parameters
    ----------
    pool : Path
        The pool's folder; created by the builder.
    source : str
        The word for the source, as for ``closecall pool build``; see `core.sources.words`.
    relative_to : Path
        The folder that relative paths in `source` refer to.
    use_classes : bool
        Whether subfolders are the true classes of their items.
    provider : str
        The execution provider of the model in `source`; empty for the default.
    """

    def __init__(
        self, pool: Path, source: str, relative_to: Path, *, use_classes: bool = True, provider: str = ""
    ) -> None:
        self._pool = pool
        self._source = source
        self._relative_to = relative_to
        self._use_classes = use_classes
        self._provider = provider
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start a child process that begins the build, or resumes it."""
        words = ["pool", "build", self._source, "--out", str(self._pool), "--quiet", "--wait"]
        if not self._use_classes:
            words.append("--no-classes")
        if self._provider:
            words += ["--provider", self._provider]
        log = self._pool.parent / LOG_FILE
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                child.command(*words, nice=NICE),
                # The working folder of this process may no longer exist.
                cwd=self._relative_to if self._relative_to.is_dir() else self._pool.parent,
                env=child.environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def stop(self) -> None:
        """Stop the child process that this object started; the items built so far are kept."""
        if self._process and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def progress(self) -> Progress | None:
        """Return the progress of the build, or None before it begins."""
        return read_progress(self._pool)

    def is_stopped(self) -> bool:
        """Return whether the child has ended, the pool is incomplete, and no process is building it."""
        if self._process is None or self._process.poll() is None:
            return False
        progress = self.progress()
        return progress is None or progress.state == "stopped"

    def problem(self) -> str | None:
        """Return a sentence that says why the child process of this object failed, or None."""
        if self._process is None or self._process.poll() in (None, 0, -15, EXIT_STOPPED):
            return None
        lines = (self._pool.parent / LOG_FILE).read_text("utf-8", "replace").strip().splitlines()
        reason = lines[-1].removeprefix("Error: ") if lines else "without a message"
        return f"The pool could not be built: {reason}"
