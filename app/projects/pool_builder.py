"""Builds a project's pool in a process of its own, so that the page never waits for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from closecall.app.runtime import child
from closecall.core.pool.build import Progress, read_progress

LOG_FILE = "build.log"

NICE = 10
"""How far builders lower their priority: pages come first."""


class Builder:
    """The building of one pool, wherever it runs.

    The process is resumable and may outlive or predate this object: what is known of it is read from the
    pool's folder. `start` does nothing where another process is already building the pool.

    Parameters
    ----------
    pool : Path
        The pool's folder; created by the builder.
    source : str
        The SOURCE word of ``closecall pool build``.
    relative_to : Path
        The folder that relative paths in `source` mean.
    use_classes : bool
        Whether class subfolders are taken for the truth.
    """

    def __init__(self, pool: Path, source: str, relative_to: Path, *, use_classes: bool = True) -> None:
        self._pool = pool
        self._source = source
        self._relative_to = relative_to
        self._use_classes = use_classes
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start building, or resume where an earlier builder ended."""
        words = ["pool", "build", self._source, "--out", str(self._pool), "--quiet"]
        if not self._use_classes:
            words.append("--no-classes")
        log = self._pool.parent / LOG_FILE
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                child.command(*words, nice=NICE),
                # The folder that this process was started in may be gone.
                cwd=self._relative_to if self._relative_to.is_dir() else self._pool.parent,
                env=child.environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def stop(self) -> None:
        """Ask the builder that this object started to stop; what it has published stays."""
        if self._process and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def progress(self) -> Progress | None:
        """How far the pool is, or None before the builder's first word."""
        return read_progress(self._pool)

    def problem(self) -> str | None:
        """Why the builder that this object started gave up, in one sentence; None while all is well."""
        if self._process is None or self._process.poll() in (None, 0, -15):
            return None
        lines = (self._pool.parent / LOG_FILE).read_text("utf-8", "replace").strip().splitlines()
        said = lines[-1].removeprefix("Error: ") if lines else "it said nothing"
        return f"The pool could not be built: {said}"
