"""One unit of work of a comparison: running a race, and writing its results to a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closecall.app.experiments.compare.plan import UNITS
from closecall.app.experiments.compare.race_plan import RacePlan, RaceUnit
from closecall.core.errors import InputError
from closecall.core.evaluation.held_out_scorer import Accuracy
from closecall.core.files.durable import disk_trouble, replace_file

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from closecall.core.simulation.race import Race, Turn

TIMES = ("select_seconds", "select_cpu_seconds", "train_seconds", "train_cpu_seconds")
"""Columns with measured times. The plan determines the values of all other columns."""

FAILURES = b"failures"
"""Metadata key of a unit's table; its value is JSON with the reason for each strategy that ended early."""

WORKERS = b"workers"
"""Metadata key of a unit's table; its value is the number of units that ran in parallel."""


def schema() -> pa.Schema:
    """Return the schema of the tables of a single unit and of all units.

    Round 0 is the classifier trained on the initial labels. In the rows of round 0, the columns about a
    selection are null. The column `rank` is null in most rounds; see `core.simulation.race.Turn`.
    """
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("positive", pa.int16(), nullable=False),
            pa.field("run", pa.int16(), nullable=False),
            pa.field("strategy", pa.string(), nullable=False),
            pa.field("round", pa.int32(), nullable=False),
            pa.field("n_labels", pa.int32(), nullable=False),
            pa.field("n_positives", pa.int32(), nullable=False),
            ("item", pa.int64()),
            ("answer", pa.bool_()),
            ("margin", pa.float64()),
            ("rank", pa.int64()),
            ("scored", pa.int64()),
            *((name, pa.float64()) for name in TIMES),
            *((name, pa.float64()) for name in Accuracy._fields),
            pa.field("digest", pa.string(), nullable=False),
        ]
    )


def run_unit(
    plan: RacePlan, unit: RaceUnit, race: Race, n_workers: int, goes_on: Callable[[], bool]
) -> pa.Table | None:
    """Run the race until its last round or until all strategies have ended; return the table (see `schema`).

    Parameters
    ----------
    plan : RacePlan
        The plan, with the number of rounds.
    unit : RaceUnit
        The unit to run.
    race : Race
        The race at its start.
    n_workers : int
        Number of units that run in parallel, for the metadata.
    goes_on : callable
        Called before each round. If it returns False, the race ends and `run_unit` returns None.
    """
    import pyarrow as pa

    rows: list[dict[str, Any]] = [
        {
            "strategy": lane.name,
            "round": 0,
            "n_labels": len(race.first),
            "n_positives": int(race.first.y.sum()),
            **race.first_accuracy._asdict(),
            "digest": race.first_hyperplane.digest,
        }
        for lane in race.lanes
    ]
    while race.round < plan.iterations and not race.is_over:
        if not goes_on():
            return None
        rows += [_row(turn) for turn in race.step()]
    place = {lane.name: number for number, lane in enumerate(race.lanes)}
    rows.sort(key=lambda row: (place[row["strategy"]], row["round"]))
    for row in rows:
        row.update(positive=unit.positive, run=unit.run)
    failures = {lane.name: lane.failure for lane in race.lanes if lane.failure}
    metadata = {FAILURES: json.dumps(failures), WORKERS: str(n_workers)}
    return pa.Table.from_pylist(rows, schema=schema()).replace_schema_metadata(metadata)


def write_table(path: Path, table: pa.Table) -> None:
    """Write a Parquet file atomically."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    with disk_trouble(path):
        replace_file(path, sink.getvalue().to_pybytes())


def read_unit(out: Path, unit: RaceUnit) -> pa.Table:
    """Read the table of a finished unit; see `read_table`."""
    return read_table(out / UNITS / unit.file, schema())


def read_table(path: Path, expected: pa.Schema) -> pa.Table:
    """Read a table that `write_table` wrote.

    Raises
    ------
    InputError
        If the file is missing or damaged, or does not have the columns `expected`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} is damaged: delete it, and the same command makes it again") from error
    if not table.schema.equals(expected):
        raise InputError(f"{path} is of another version: choose another folder")
    return table


def _row(turn: Turn) -> dict[str, Any]:
    row = {name: value for name, value in vars(turn).items() if name not in {"accuracy", "hyperplane"}}
    return {**row, **turn.accuracy._asdict(), "digest": turn.hyperplane.digest}
