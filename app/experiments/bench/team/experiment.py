"""Base class of the measurements of a team, with or without a server: common options, and the project."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from closecall.app.experiments.bench.experiment import Experiment
from closecall.app.experiments.bench.projects import make_project
from closecall.app.experiments.bench.team.person import Manner
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool

BEFORE = "before"
"""Name of the annotator of the initial labels."""


@dataclass(frozen=True)
class TeamExperiment(Experiment[Pool]):
    """A measurement in which a team of simulated annotators labels one concept.

    Parameters
    ----------
    annotators : int
        Number of annotators.
    minutes : float
        Minimum duration of labeling.
    manner : Manner
        Working habits of the annotators.
    positive : str or None
        The positive class; the pool's first class if None.
    n_labels : int
        Number of initial labels in the project.
    database : str or None
        Address of a PostgreSQL database; None for an SQLite file in the project.
    out : Path or None
        New folder that keeps the project; None for a temporary folder.
    """

    has_one_row = True

    annotators: int
    minutes: float
    manner: Manner
    positive: str | None
    n_labels: int
    database: str | None
    out: Path | None

    @contextmanager
    def _project(self, pool: Pool, positive: str, *, lease_seconds: float | None = None) -> Iterator[Path]:
        """Create the project, and yield its folder. A temporary folder is deleted when the context ends.

        Raises
        ------
        InputError
            If `out` exists already.
        """
        if self.out is not None and self.out.exists():
            raise InputError(f"--out must name a new folder, but {self.out} exists already")
        with tempfile.TemporaryDirectory(prefix="closecall-") as temporary:
            folder = self.out or Path(temporary) / f"team-{datetime.now():%Y%m%d-%H%M%S}"
            make_project(
                pool,
                folder,
                positive,
                n_labels=self.n_labels,
                annotator=BEFORE,
                seed=self.manner.seed,
                database=self.database,
                lease_seconds=lease_seconds,
            )
            yield folder
