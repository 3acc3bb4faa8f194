"""The harness of all measurements, which runs an experiment on pools, saves its rows as JSON and prints them.

To add a measurement, subclass `Experiment` in a separate module and add a command, or, for similar items, a
name in `app.experiments.bench.similar`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from closecall.app.experiments.bench.report import write_json
from closecall.core.pool.pool import Pool

Row = dict[str, Any]


class Experiment(ABC):
    """A measurement. Subclasses are dataclasses, whose fields are the options of the command.

    Attributes
    ----------
    threads : int or None
        Threads that BLAS may use; None for no limit.
    """

    threads: int | None = None

    @abstractmethod
    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Measure, and yield rows as soon as they are available."""

    def show(self, rows: Sequence[Row]) -> None:  # noqa: B027
        """Print the rows that `measure` yielded together."""

    def conclude(self, rows: Sequence[Row]) -> None:  # noqa: B027
        """Print a summary of all rows."""


def run(experiment: Experiment, folders: Iterable[Path], json_file: Path | None) -> None:
    """Measure on each of the pools in `folders`; print rows, and write all rows so far to `json_file`."""
    rows: list[Row] = []
    with threadpool_limits(experiment.threads, user_api="blas"):
        for folder in folders:
            for found in experiment.measure(Pool.open(folder)):
                rows += found
                write_json(json_file, rows)
                experiment.show(found)
    experiment.conclude(rows)


def about(pool: Pool) -> Row:
    """Return the columns that describe the pool of a row."""
    return {"data": pool.path.resolve().name, "items": len(pool), "dim": pool.n_features}
