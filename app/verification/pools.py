"""The pools of a project that `verify` reads."""

from __future__ import annotations

from pathlib import Path

from closecall.app.projects.config import ProjectFile
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool


class Pools:
    """The pools of a project, opened when needed: one per description, which is a set of features.

    Parameters
    ----------
    project : Path
        The project's folder.
    file : ProjectFile
        The project's settings.

    Raises
    ------
    InputError
        If the pool with the features in use can't be read.
    """

    def __init__(self, project: Path, file: ProjectFile) -> None:
        self._project = project
        self._file = file
        self.current = Pool.open(file.pool_path(project))
        self._opened: dict[str, Pool | InputError] = {file.description: self.current}

    def under(self, description: str) -> Pool | InputError:
        """Return the pool with the features of a description, or the reason why it can't be read."""
        if description not in self._opened:
            try:
                self._opened[description] = Pool.open(self._file.pool_under(description, self._project))
            except InputError as error:
                self._opened[description] = error
        return self._opened[description]

    def may_have_row(self, item: int) -> bool:
        """Return whether the item has features, or may get them while the pool is being built."""
        return self._have_row(item) or self.current.awaits(item)

    def _have_row(self, item: int) -> bool:
        """Return whether the item has features under any description whose pool has been opened."""
        return any(isinstance(pool, Pool) and pool.has_row(item) for pool in self._opened.values())
