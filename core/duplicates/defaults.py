"""Default angles for groups, as fractions of the typical angle between two items of a pool.

A fixed angle would not suit every pool, because the typical angle depends on the features. The fractions come
from measurements with `closecall bench duplicates`; see docs/benchmarks-checks.md.
"""

from __future__ import annotations

from closecall.core.duplicates.files import Kind
from closecall.core.selection.diversity import typical_angle
from closecall.core.selection.reader import PoolRows

SHARES: dict[Kind, float] = {"near": 0.1, "bursts": 0.4}
"""Largest angle between an item and its leader, divided by the median angle between two items of the pool."""


def default_angle(pool: PoolRows, kind: Kind) -> float:
    """Return the default angle for groups of this kind, in radians; 0 if there are fewer than two rows."""
    return SHARES[kind] * typical_angle(pool) if len(pool) > 1 else 0.0
