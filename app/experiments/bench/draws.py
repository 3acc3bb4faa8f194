"""Figures over several draws of what is random: what their rows have in common, and how means are told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from closecall.core.pool.pool import Pool

Row = dict[str, Any]


def row_of(pool: Pool, figure: str, **words: Any) -> Row:
    """How every row of a figure begins: its name, what the pool is, and the words of the plan."""
    data = pool.path.resolve().name
    return {"figure": figure, "data": data, "items": len(pool), "dim": pool.n_features, **words}


def heading(row: Row, said: str) -> str:
    """The line above a table of such rows."""
    return f"\n{row['data']}, {row['items']:,} × {row['dim']}: {said}"


def spread(values: np.ndarray) -> str:
    """Mean ± standard deviation, if there are several values."""
    spread = f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else ""
    return f"{values.mean():.1f}{spread}"


def each(values: Iterable[float | None]) -> str:
    """All values, – for those that are None."""
    return " ".join("–" if value is None else f"{value:g}" for value in values)
