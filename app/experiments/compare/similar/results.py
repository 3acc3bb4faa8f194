"""Results of a comparison of hash families: a long table with one measured number per row, and its reader."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from closecall.app.experiments.compare.plan import UNITS
from closecall.app.experiments.compare.results import RESULTS, about, write_manifest
from closecall.app.experiments.compare.similar.plan import FamilyUnit, SimilarityPlan
from closecall.app.experiments.compare.statistics import Interval, interval
from closecall.app.experiments.compare.unit import read_table, write_table
from closecall.core.errors import InputError
from closecall.core.experiment.similarity import Measured
from closecall.core.pool.pool import Pool

if TYPE_CHECKING:
    import pyarrow as pa

YARDSTICKS, REFUSED, NEAREST = b"yardsticks", b"refused", b"nearest"
"""Metadata keys of a unit's table; their values are JSON. See `core.experiment.similarity.Measured`."""

TIMES = ("seconds", "scan ratio", "build seconds", "fit seconds", "hash seconds", "query seconds")
"""Measures of time. The plan determines the values of all other measures."""

TOLD_SHARE = 0.01
"""Approximate share of the pool that is retrieved for the numbers in the report's table."""

Floats = NDArray[np.float64]


class Lane(NamedTuple):
    """A hash family in one of its forms. The form is "" if the family has only one."""

    family: str
    form: str


def schema() -> pa.Schema:
    """Return the schema of the tables of a single unit and of all units.

    Each row has one `core.experiment.similarity.Value`.
    """
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("family", pa.string(), nullable=False),
            pa.field("form", pa.string(), nullable=False),
            pa.field("draw", pa.int16(), nullable=False),
            pa.field("bits", pa.int32(), nullable=False),
            ("structure", pa.string()),
            ("retrieved", pa.int64()),
            pa.field("measure", pa.string(), nullable=False),
            pa.field("value", pa.float64(), nullable=False),
        ]
    )


def write_unit(out: Path, unit: FamilyUnit, measured: Measured) -> None:
    """Write the results of one unit: one family in one draw."""
    import pyarrow as pa

    rows = [{"family": unit.family, "draw": unit.draw, **one._asdict()} for one in measured.values]
    metadata = {
        YARDSTICKS: json.dumps(measured.yardsticks),
        REFUSED: json.dumps(measured.refused),
        NEAREST: json.dumps(measured.nearest),
    }
    table = pa.Table.from_pylist(rows, schema=schema()).replace_schema_metadata(metadata)
    write_table(out / UNITS / unit.file, table)


@dataclass(frozen=True, eq=False)
class SimilarityResults:
    """Results of all units of a comparison.

    Parameters
    ----------
    plan : SimilarityPlan
    pool : Pool
    table : pyarrow.Table
        All results; see `schema`.
    yardsticks : dict
        For each family and form, the name of the measure of similarity that defines the true neighbours.
    refused : dict
        Reasons why a family, a form or a number of bits could not be measured. A key is a pair: the family,
        and a description of the form or number of bits. The description is "" for the whole family.
    nearest : dict of arrays of shape (n_queries,)
        For each family and form that was measured with the longest codes: the recall@R of each query with
        these codes, averaged over draws. R is the property `first`, the smallest number of retrieved rows
        that is measured.
    """

    plan: SimilarityPlan
    pool: Pool
    table: pa.Table
    yardsticks: dict[Lane, str]
    refused: dict[tuple[str, str], str]
    nearest: dict[Lane, Floats]

    @classmethod
    def read(cls, plan: SimilarityPlan, pool: Pool, out: Path) -> SimilarityResults:
        """Read the results of all units from their files.

        Raises
        ------
        InputError
            If a file is missing or damaged, or of another version.
        """
        import pyarrow as pa

        tables = [read_table(out / UNITS / unit.file, schema()) for unit in plan.units]
        yardsticks: dict[Lane, str] = {}
        refused: dict[tuple[str, str], str] = {}
        nearest: dict[Lane, list[list[float]]] = {}
        for unit, table in zip(plan.units, tables, strict=True):
            metadata = table.schema.metadata
            if NEAREST not in metadata:
                raise InputError(f"{out / UNITS / unit.file} is of another version: choose another folder")
            for form, word in json.loads(metadata[YARDSTICKS]).items():
                yardsticks.setdefault(Lane(unit.family, form), word)
            for what, reason in json.loads(metadata[REFUSED]).items():
                refused.setdefault((unit.family, what), reason)
            for form, values in json.loads(metadata[NEAREST]).items():
                nearest.setdefault(Lane(unit.family, form), []).append(values)
        table = pa.concat_tables([one.replace_schema_metadata(None) for one in tables])
        means = {lane: np.mean(draws, axis=0) for lane, draws in nearest.items()}
        return cls(plan, pool, table, yardsticks, refused, means)

    @property
    def lanes(self) -> list[Lane]:
        """All measured families and forms, in the order of the plan's families and of their forms."""
        place = {family: number for number, family in enumerate(self.plan.families)}
        return sorted(self.yardsticks, key=lambda lane: place[lane.family])

    @property
    def has_classes(self) -> bool:
        """Whether the classes of queries and items are known."""
        return "precision" in self.measures

    @cached_property
    def measures(self) -> set[str]:
        """Names of all measures in the table."""
        return set(self.table["measure"].to_pylist())

    @property
    def first(self) -> int:
        """R of recall@R, the smallest number of retrieved rows that is measured."""
        return self.plan.retrieved(len(self.pool))[0]

    @property
    def told(self) -> int:
        """Number of retrieved rows in the report's table: about `TOLD_SHARE` times the number of rows."""
        n = len(self.pool)
        return min(self.plan.retrieved(n), key=lambda k: abs(k - TOLD_SHARE * n))

    @property
    def limits(self) -> list[float]:
        """Shares of the pool that search structures may rank exactly, ascending."""
        pairs = zip(self.table["structure"].to_pylist(), self.table["retrieved"].to_pylist(), strict=True)
        return [k / len(self.pool) for k in sorted({k for structure, k in pairs if structure and k})]

    def draws(
        self,
        lane: Lane,
        measure: str,
        *,
        bits: int,
        structure: str | None = None,
        retrieved: int | None = None,
    ) -> Floats:
        """Return the values of one measure, one per random draw; an empty array if there are none."""
        return np.array([row["value"] for row in self._rows(lane, measure, bits, structure, retrieved)])

    def gain(self, lane: Lane, base: Lane, measure: str, *, bits: int, retrieved: int) -> Interval | None:
        """Return the mean difference between two families in one measure, with its interval over the draws.

        The difference is paired by draw. It is None if the families have no draw in common.
        """
        own, others = (
            {row["draw"]: row["value"] for row in self._rows(one, measure, bits, None, retrieved)}
            for one in (lane, base)
        )
        differences = [own[draw] - others[draw] for draw in sorted(own.keys() & others.keys())]
        return interval(differences, np.zeros(len(differences))) if differences else None

    def mean(self, lane: Lane, measure: str, **where: Any) -> float | None:
        """Return the mean of the values that `draws` returns; None if there are none."""
        values = self.draws(lane, measure, **where)
        return float(values.mean()) if len(values) else None

    def by_bits(self, lane: Lane, measure: str, retrieved: int) -> tuple[Floats, Floats]:
        """Return the code lengths, ascending, and a measure's mean over draws for each code length.

        Both arrays have shape (n_lengths,).
        """
        found = [(n, self.mean(lane, measure, bits=n, retrieved=retrieved)) for n in self.plan.bits]
        return _columns([(n, value) for n, value in found if value is not None])

    def by_retrieved(
        self, lane: Lane, measure: str, *, bits: int, structure: str | None = None
    ) -> tuple[Floats, Floats]:
        """Return the numbers of retrieved rows, ascending, and a measure's mean over draws for each."""
        found: dict[int, list[float]] = {}
        for row in self._all.get((lane, measure, bits, structure), []):
            found.setdefault(row["retrieved"], []).append(row["value"])
        return _columns([(k, float(np.mean(values))) for k, values in sorted(found.items())])

    def longest(self, lane: Lane) -> int:
        """Return the largest number of bits that a family's form was measured with."""
        return max(bits for own, _, bits, _ in self._all if own == lane)

    def _rows(
        self, lane: Lane, measure: str, bits: int, structure: str | None, retrieved: int | None
    ) -> list[dict[str, Any]]:
        rows = self._all.get((lane, measure, bits, structure), [])
        return [row for row in rows if row["retrieved"] == retrieved]

    @cached_property
    def _all(self) -> dict[tuple[Lane, str, int, str | None], list[dict[str, Any]]]:
        grouped: dict[tuple[Lane, str, int, str | None], list[dict[str, Any]]] = {}
        for row in self.table.to_pylist():
            key = Lane(row["family"], row["form"]), row["measure"], row["bits"], row["structure"]
            grouped.setdefault(key, []).append(row)
        return grouped


def write_results(results: SimilarityResults, out: Path) -> None:
    """Write the table of all results and the manifest to the folder `out`."""
    write_table(out / RESULTS, results.table)
    metadata = {
        "plan": asdict(results.plan),
        "pool": about(results.pool),
        "yardsticks": {" ".join(lane).strip(): word for lane, word in results.yardsticks.items()},
        "refused": {" ".join(what).strip(): reason for what, reason in results.refused.items()},
    }
    write_manifest(out, metadata)


def _columns(pairs: Sequence[tuple[float, float]]) -> tuple[Floats, Floats]:
    array = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return array[:, 0], array[:, 1]
