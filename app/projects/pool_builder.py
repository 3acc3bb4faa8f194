"""Build a project's pool in a child process, so that pages never wait for it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from closecall.app.projects.config import ProjectFile
from closecall.app.runtime import child
from closecall.app.runtime.interruption import EXIT_STOPPED
from closecall.core.errors import InputError
from closecall.core.pool.build import Progress, read_progress
from closecall.core.pool.pool import Pool
from closecall.storage.errors import without_addresses

LOG_FILE = "build.log"

NICE = 10
"""Niceness of the processes that build pools, so that the pages have priority."""


class Building:
    """The build of one pool by a command in a child process.

    A build can be resumed. The process that builds the pool may have started before this object was created,
    and may outlive this object. Progress is therefore read from the pool's folder. If another process is
    building the pool, a new child waits until that process ends, and then builds the missing items.

    Parameters
    ----------
    pool : Path
        The pool's folder, which the command creates. Its parent folder must exist.
    words : sequence of str
        Arguments of ``closecall`` that build the pool.
    working_folder : Path
        The folder that relative paths in `words` refer to.
    """

    def __init__(self, pool: Path, words: Sequence[str], working_folder: Path) -> None:
        self._pool = pool
        self._words = words
        self._working_folder = working_folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start a child process that begins the build, or resumes it."""
        log = self._pool.parent / LOG_FILE
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                child.command(*self._words, nice=NICE),
                # The working folder of this process may no longer exist.
                cwd=self._working_folder if self._working_folder.is_dir() else self._pool.parent,
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

    @property
    def is_running(self) -> bool:
        """Return whether the child process that this object started is at work."""
        return self._process is not None and self._process.poll() is None

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
        return f"The pool could not be built: {without_addresses(reason)}"


class Builder(Building):
    """The build of a project's pool from its source; see `Building`.

    Parameters
    ----------
    pool : Path
        The pool's folder.
    source : str
        The word for the source, as for ``closecall pool build``; see `core.sources.words`.
    relative_to : Path
        The folder that relative paths in `source` refer to.
    use_classes : bool
        Whether subfolders are the true classes of their items.
    provider : str
        The execution provider of the model in `source`; empty for the default.
    dtype : str
        The type in which features are stored; empty for the default.
    """

    def __init__(
        self,
        pool: Path,
        source: str,
        relative_to: Path,
        *,
        use_classes: bool = True,
        provider: str = "",
        dtype: str = "",
    ) -> None:
        words = ["pool", "build", source, "--out", str(pool), "--quiet", "--wait"]
        if not use_classes:
            words.append("--no-classes")
        if provider:
            words += ["--provider", provider]
        if dtype:
            words += ["--dtype", dtype]
        super().__init__(pool, words, relative_to)


def started_builder(folder: Path, file: ProjectFile) -> Builder | None:
    """Return the builder of a project's pool, and start it if the pool is incomplete.

    Return None if the project has no source.
    """
    if not file.source:
        return None
    path = file.pool_path(folder)
    builder = Builder(
        path,
        file.source,
        Path(file.relative_to),
        use_classes=file.use_classes,
        provider=file.provider,
        dtype=file.dtype,
    )
    try:
        complete = Pool.open(path).complete
    except InputError:
        complete = False
    if not complete:
        builder.start()
    return builder


def what_is_gone(pool: Pool) -> str | None:
    """Return a sentence that says which files with the pool's images or texts no longer exist, or None."""
    try:
        source = pool.source
    except InputError as error:
        return str(error)
    gone = source.vanished()
    if gone is None:
        return None
    return f"There is no {gone} any more: restore what the pool was made from, or add a link to it"
