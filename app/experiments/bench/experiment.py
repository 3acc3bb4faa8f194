"""The base class of all measurements, and functions that run a measurement, and save and print its rows.

To add a measurement, subclass `Experiment` in a new module. Then add a command in
`app.experiments.bench.commands`. A measurement of similarity search needs no command: add it to the classes
in `app.experiments.bench.similar` instead.
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
    """A measurement. Subclasses are dataclasses whose fields are the options of the command.

    Attributes
    ----------
    has_one_row : bool
        Whether the JSON file has a single row instead of a list of rows.
    threads : int or None
        Number of threads that BLAS may use; None for no limit.
    """

    has_one_row: ClassVar[bool] = False

    threads: int | None = None

    @abstractmethod
    def measure(self, subject: S, /) -> Iterator[list[Row]]:
        """Measure `subject`, and yield lists of rows as soon as they are available."""

    def show(self, rows: Sequence[Row]) -> None:
        """Print one list of rows that `measure` yielded."""

    def conclude(self, rows: Sequence[Row]) -> None:
        """Print a summary of all rows."""


def run(experiment: Experiment[Pool], folders: Iterable[Path], json_file: Path | None) -> None:
    """Open the pools in `folders`, and run the experiment on them; see `record`."""
    record(experiment, map(Pool.open, folders), json_file)


def record(experiment: Experiment[S], subjects: Iterable[S], json_file: Path | None) -> None:
    """Run the experiment on each of `subjects`, and print the rows.

    After each list of rows, write all rows measured so far to `json_file`, unless it is None.
    """
    rows: list[Row] = []
    with threadpool_limits(experiment.threads, user_api="blas"):
        for subject in subjects:
            for found in experiment.measure(subject):
                rows += found
                write_json(json_file, rows[0] if experiment.has_one_row else rows)
                experiment.show(found)
    experiment.conclude(rows)


def about(pool: Pool) -> Row:
    """Return the columns of a row that describe the pool."""
    return {"data": pool.path.resolve().name, "items": len(pool), "dim": pool.n_features}
