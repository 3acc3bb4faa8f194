"""The harness of all measurements: it runs an experiment on pools, saves its rows as JSON and prints them.

To add a measurement, subclass `Experiment` in a separate module and add a command, or, for similar items, a
name in `app.experiments.bench.similar`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from threadpoolctl import threadpool_limits

from closecall.app.experiments.bench.report import write_json
from closecall.core.pool.pool import Pool

Row = dict[str, Any]

S = TypeVar("S")
"""Type of the measured subject: almost always a `Pool`."""


class Experiment(ABC, Generic[S]):
    """A measurement. Subclasses are dataclasses; their fields are the options of the command.

    Attributes
    ----------
    has_one_row : bool
        Whether the JSON file has a single row, not a list.
    threads : int or None
        Threads that BLAS may use; None for no limit.
    """

    has_one_row: ClassVar[bool] = False

    threads: int | None = None

    @abstractmethod
    def measure(self, subject: S, /) -> Iterator[list[Row]]:
        """Measure, and yield rows as soon as they are available."""

    def show(self, rows: Sequence[Row]) -> None:
        """Print the rows that `measure` yielded together."""

    def conclude(self, rows: Sequence[Row]) -> None:
        """Print a summary of all rows."""


def run(experiment: Experiment[Pool], folders: Iterable[Path], json_file: Path | None) -> None:
    """Measure on each of the pools in `folders`; see `record`."""
    record(experiment, map(Pool.open, folders), json_file)


def record(experiment: Experiment[S], subjects: Iterable[S], json_file: Path | None) -> None:
    """Measure on each of the `subjects`; write all rows so far to `json_file`, and print the new ones."""
    rows: list[Row] = []
    with threadpool_limits(experiment.threads, user_api="blas"):
        for subject in subjects:
            for found in experiment.measure(subject):
                rows += found
                write_json(json_file, rows[0] if experiment.has_one_row else rows)
                experiment.show(found)
    experiment.conclude(rows)


def about(pool: Pool) -> Row:
    """Return the columns that describe a row's pool."""
    return {"data": pool.path.resolve().name, "items": len(pool), "dim": pool.n_features}
