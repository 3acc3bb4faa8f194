"""Results of a comparison: a table, arrays to compute with, and a manifest of the conditions."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from closecall.app.experiments.compare.race_plan import RacePlan, RaceUnit
from closecall.app.experiments.compare.unit import FAILURES, WORKERS, read_unit, write_table
from closecall.core.duplicates import unrepeated_held_out
from closecall.core.errors import InputError
from closecall.core.evaluation.held_out_scorer import Accuracy
from closecall.core.files.durable import disk_trouble, replace_file
from closecall.core.pool.pool import Pool

if TYPE_CHECKING:
    import pyarrow as pa

RESULTS = "results.parquet"
MANIFEST = "manifest.json"

Floats = NDArray[np.float64]

_FROM_START = (*Accuracy._fields, "n_positives")
"""Columns that also have values in round 0."""

_PACKAGES = ("closecall", "numpy", "scipy", "numba", "scikit-learn", "pyarrow")


@dataclass(frozen=True, eq=False)
class RaceResults:
    """The results of all races, as arrays indexed by strategy, unit and round. A unit is one race.

    If a strategy ends early, its values in the later rounds are NaN.

    Parameters
    ----------
    plan : RacePlan
    pool : Pool
    units : sequence of RaceUnit
    table : pyarrow.Table
        All results, with one row per strategy, unit and round; see `app.experiments.compare.unit.schema`.
    failures : dict
        Reasons why strategies ended early: for each name of a strategy, a dict with the reason in each unit.
    workers : tuple of int
        All numbers of parallel workers that were used, ascending. If the comparison was interrupted and
        continued with another number of workers, there are several numbers.
    auroc, average_precision, recall : array of shape (n_strategies, n_units, iterations + 1)
        Accuracy on the held-out items; see `core.evaluation.held_out_scorer.Accuracy`. Round 0 is before the
        first selection.
    n_positives : array of shape (n_strategies, n_units, iterations + 1)
        Number of positive labels, including those that a race begins with.
    answer, margin, scored : array of shape (n_strategies, n_units, iterations)
        Values in rounds 1 and later. `answer` is 1 for yes and 0 for no; `margin` is |wᵀx + b|.
    select_cpu_seconds, train_cpu_seconds : array of shape (n_strategies, n_units, iterations)
        Processor time of all threads. The table also has wall-clock times, which other programs lengthen.
    rank : array of shape (n_strategies, n_units, iterations)
        Number of unlabeled items nearer to the hyperplane; NaN in rounds in which it was not computed.
    item : array of shape (n_strategies, n_units, iterations), int64
        Id of the selected item; −1 if no item was selected.
    """

    plan: RacePlan
    pool: Pool
    units: Sequence[RaceUnit]
    table: pa.Table
    failures: dict[str, dict[RaceUnit, str]]
    workers: tuple[int, ...]
    auroc: Floats
    average_precision: Floats
    recall: Floats
    n_positives: Floats
    answer: Floats
    margin: Floats
    scored: Floats
    select_cpu_seconds: Floats
    train_cpu_seconds: Floats
    rank: Floats
    item: NDArray[np.int64]

    @classmethod
    def read(cls, plan: RacePlan, pool: Pool, out: Path) -> RaceResults:
        """Read the results of all units from their files.

        Raises
        ------
        InputError
            If a file is missing or damaged.
        """
        import pyarrow as pa

        units = sorted(plan.units, key=lambda unit: (plan.classes.index(unit.positive), unit.run))
        tables = [read_unit(out, unit) for unit in units]
        failures: dict[str, dict[RaceUnit, str]] = {}
        for unit, table in zip(units, tables, strict=True):
            for name, reason in json.loads(table.schema.metadata[FAILURES]).items():
                failures.setdefault(name, {})[unit] = reason
        workers = tuple(sorted({int(one.schema.metadata[WORKERS]) for one in tables}))
        table = pa.concat_tables([one.replace_schema_metadata(None) for one in tables])
        arrays = _arrays(plan, units, tables)
        return cls(plan, pool, units, table, failures, workers, **arrays)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the strategies and peers, in the order of the first axis."""
        return self.plan.names

    @property
    def classes(self) -> NDArray[np.int64]:
        """Class of each unit, of shape (n_units,)."""
        return np.array([unit.positive for unit in self.units])

    def of(self, values: NDArray[Any], name: str) -> NDArray[Any]:
        """Return one strategy's part of `values`, an array whose first axis is the strategies."""
        return np.asarray(values[self.names.index(name)])

    @property
    def n_first(self) -> int:
        """Number of labels that each race begins with."""
        return int(np.min(self.table["n_labels"].to_numpy()))

    def yes_share(self, name: str) -> float:
        """Return the share of positive answers among the items that the strategy selected."""
        return float(np.nanmean(self.of(self.answer, name)))

    @property
    def gain(self) -> Floats:
        """Increase in AUROC since round 0, in points; shape (n_strategies, n_units, iterations + 1)."""
        return 100 * (self.auroc - self.auroc[:, :, :1])

    @property
    def mean_gain(self) -> Floats:
        """Mean of `gain` over rounds 1 and later, of shape (n_strategies, n_units).

        This is the area between the learning curve and its level in round 0, divided by the number of labels.
        All strategies have the same level in round 0.
        """
        return np.asarray(self.gain[:, :, 1:].mean(axis=2))


def read_finished(out: Path) -> RaceResults:
    """Read the results of a comparison.

    Raises
    ------
    InputError
        If there is no comparison in the folder, or if races are missing.
    """
    plan = RacePlan.read(out)
    if missing := len(plan.missing(out)):
        verb = "is" if missing == 1 else "are"
        raise InputError(f"{out} is unfinished: {missing} of {len(plan.units)} races {verb} missing")
    return RaceResults.read(plan, plan.open_pool(), out)


def write_results(results: RaceResults, out: Path, *, label_seconds: float) -> None:
    """Write the table of all results and the manifest to the folder `out`."""
    write_table(out / RESULTS, results.table)
    manifest = {
        "plan": asdict(results.plan),
        "classes": [results.pool.classes[positive] for positive in results.plan.classes],
        "pool": about(results.pool),
        "workers": results.workers,
        "label_seconds": label_seconds,
        "failures": {
            name: {unit.file: reason for unit, reason in of.items()} for name, of in results.failures.items()
        },
    }
    write_manifest(out, manifest)


def write_manifest(out: Path, contents: dict[str, Any]) -> None:
    """Write `contents`, the machine and the versions as the manifest of the folder `out`."""
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    manifest = {**contents, "machine": machine(), "versions": versions(), "written": now}
    path = out / MANIFEST
    with disk_trouble(path):
        replace_file(path, (json.dumps(manifest, indent=1) + "\n").encode())


def about(pool: Pool) -> dict[str, Any]:
    """Return the description of a pool for the manifest."""
    return {
        "title": pool.title,
        "digest": pool.digest,
        "items": len(pool),
        "features": pool.n_features,
        "held_out": len(unrepeated_held_out(pool)),
    }


def machine() -> dict[str, Any]:
    """Return the description of this machine for the manifest, as the system reports it."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """Return the versions of Closecall and its numerical packages."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _arrays(plan: RacePlan, units: Sequence[RaceUnit], tables: Sequence[pa.Table]) -> dict[str, NDArray[Any]]:
    shape = (len(plan.names), len(units), plan.iterations + 1)
    names = {name: place for place, name in enumerate(plan.names)}
    columns = [*_FROM_START, "answer", "margin", "scored", "select_cpu_seconds", "train_cpu_seconds", "rank"]
    arrays: dict[str, NDArray[Any]] = {name: np.full(shape, np.nan) for name in columns}
    item = np.full(shape, -1, dtype=np.int64)
    for number, table in enumerate(tables):
        lanes = np.array([names[name] for name in table["strategy"].to_pylist()])
        rounds = table["round"].to_numpy()
        for name in columns:
            arrays[name][lanes, number, rounds] = table[name].cast("double").to_numpy()
        item[lanes, number, rounds] = table["item"].fill_null(-1).to_numpy()
    arrays["item"] = item
    return {name: array if name in _FROM_START else array[:, :, 1:] for name, array in arrays.items()}
