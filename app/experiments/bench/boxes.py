"""Box plots of selection times and of |wᵀx + b|, as in figures 4b and 4a of the H-Hash paper."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from closecall.app.experiments.bench.contenders import PLAIN_SCANS
from closecall.app.experiments.bench.figure import panel, panel_title
from closecall.app.experiments.compare.boxes import AROUND, ROW, Cost, draw_costs
from closecall.app.experiments.compare.drawing import styled
from closecall.app.experiments.compare.statistics import Box
from closecall.core.files.durable import disk_trouble

_WIDTH = 10.0
_HEADING = 0.5
"""Height of a panel's heading, in inches."""


def draw_boxes(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw box plots of selection times and |wᵀx + b|, with panels below each other.

    Parameters
    ----------
    rows : sequence of dict
        Rows of `app.experiments.bench.select.Selection.measure`. Each combination of data set, setting and
        number of items gets a panel.
    path : Path
        File to write. Its suffix, one of `app.experiments.bench.figure.FORMATS`, determines the format.
    """
    from matplotlib.figure import Figure

    strategies = [row for row in rows if row["strategy"] not in PLAIN_SCANS]
    panels = [list(group) for _, group in groupby(strategies, key=panel)]
    heights = [_HEADING + AROUND + ROW * len(of_panel) for of_panel in panels]
    with styled(path.stem):
        figure = Figure(figsize=(_WIDTH, sum(heights)), layout="constrained")
        parts = figure.subfigures(len(panels), 1, squeeze=False, height_ratios=heights)
        for part, of_panel in zip(parts.flat, panels, strict=True):
            first = of_panel[0]
            part.suptitle(f"{first['setting']}: {panel_title(first)}", fontsize=10, fontweight="bold")
            draw_costs(
                part,
                {row["strategy"]: Cost(Box(**row["ms_box"]), Box(**row["margin_box"])) for row in of_panel},
            )
        with disk_trouble(path):
            figure.savefig(path, dpi=160, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
