"""Group measured rows of search structures by search effort, and find the cheapest sufficient effort."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from closecall.app.experiments.bench.experiment import Row

ENOUGH = 0.8
"""Minimum recall of a sufficient search effort."""

_EFFORT = ("candidates", "compared", "effort")
"""Columns that describe the search effort of a structure."""


def by_structure(rows: Sequence[Row]) -> dict[tuple[str, int | None], list[Row]]:
    """Group rows by structure and number of bits.

    The number of bits is None for faiss indexes, which have no codes.
    """
    grouped: dict[tuple[str, int | None], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row["structure"], row.get("bits")), []).append(row)
    return grouped


def by_effort(rows: Sequence[Row]) -> list[list[Row]]:
    """Group rows of one structure and pool size by search effort. A group has one row per draw."""
    grouped: dict[tuple[float | None, ...], list[Row]] = {}
    for row in rows:
        grouped.setdefault(tuple(row.get(name) for name in _EFFORT), []).append(row)
    return list(grouped.values())


def cheapest(efforts: Sequence[list[Row]]) -> list[Row] | None:
    """Return the rows of the fastest sufficient search effort; None if no effort suffices.

    An effort suffices if its mean recall is at least `ENOUGH`. The fastest has the least mean time.
    """
    enough = [rows for rows in efforts if mean_of(rows)["recall"] >= ENOUGH]
    return min(enough, key=lambda rows: mean_of(rows)["ms"], default=None)


def mean_of(rows: Sequence[Row]) -> Row:
    """Average the rows of one effort over the random draws."""
    names = ("bits", *_EFFORT, "recall", "ms", "exact_ms")
    return {name: float(np.mean([row[name] for row in rows])) for name in names if name in rows[0]}
