"""What lies in a project's folder, and who may serve it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from core.errors import InputError

PROJECT_FILE = "project.json"
LABELS_FILE = "labels.db"
POOL_FOLDER = "pool"
INDEX_FOLDER = "indexes"
LOCK_FILE = "serve.lock"
FORMAT = 1


@dataclass(frozen=True)
class ProjectFile:
    """What a project's folder says of itself.

    Parameters
    ----------
    pool : str
        The pool's folder, relative to the project where it lies inside.
    source : str
        The SOURCE word to build the pool from; empty where the pool was there before the project.
    relative_to : str
        The folder that relative paths in `source` mean.
    use_classes : bool
        Whether class subfolders are taken for the truth, a part of which is then held out.
    format : int
        Version of this file.
    """

    pool: str
    source: str
    relative_to: str
    use_classes: bool = True
    format: int = FORMAT

    @classmethod
    def read(cls, folder: Path) -> ProjectFile:
        """The project file in `folder`.

        Raises
        ------
        InputError
            If there is none, if it is damaged, or of a newer version.
        """
        path = folder / PROJECT_FILE
        if not path.is_file():
            raise InputError(f"There is no project at {folder}: {PROJECT_FILE} is missing")
        try:
            said = json.loads(path.read_text("utf-8"))
            read = cls(**said)
        except (ValueError, TypeError) as error:
            raise InputError(f"The project file {path} is damaged: {error}") from None
        if read.format > FORMAT:
            raise InputError(
                f"The project {folder} has format {read.format}, this version of Marginalia reads {FORMAT}"
            )
        return read

    def write(self, folder: Path) -> None:
        """Write this into `folder`."""
        (folder / PROJECT_FILE).write_text(json.dumps(asdict(self), indent=2) + "\n", "utf-8")

    def pool_path(self, folder: Path) -> Path:
        """Where the pool of the project in `folder` lies."""
        return folder / self.pool


def is_project(folder: Path) -> bool:
    """Whether `folder` holds a project."""
    return (folder / PROJECT_FILE).is_file()


def lock_project(folder: Path) -> FileLock:
    """The lock that whoever serves the project holds; an InputError where another process has it."""
    lock = FileLock(folder / LOCK_FILE)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(
            f"The project {folder} is already being served by another process: stop that one first"
        ) from None
    except OSError as error:
        raise InputError(
            f"The project {folder} cannot be locked for serving: {os.strerror(error.errno or 0)}"
        ) from None
    return lock
