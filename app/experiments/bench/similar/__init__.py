"""The figures of ``closecall bench similar``, one class per module."""

from __future__ import annotations

from closecall.app.experiments.bench.similar.coverage import Coverage
from closecall.app.experiments.bench.similar.figure import Figure as Figure
from closecall.app.experiments.bench.similar.kernels import Kernels
from closecall.app.experiments.bench.similar.neighbour_sweeps import NeighbourSweeps
from closecall.app.experiments.bench.similar.neighbours import NeighbourVotes
from closecall.app.experiments.bench.similar.precision import Precision
from closecall.app.experiments.bench.similar.precision_sweeps import PrecisionSweeps
from closecall.app.experiments.bench.similar.rectangles import Rectangles as Rectangles
from closecall.app.experiments.bench.similar.speed import Speed
from closecall.app.experiments.bench.similar.survey import Survey
from closecall.app.experiments.bench.similar.sweeps import Sweeps

FIGURES: dict[str, type[Figure] | type[Rectangles]] = {
    figure.name: figure
    for figure in (Kernels, Sweeps, Coverage, NeighbourVotes, Survey, Precision, Speed, Rectangles)
}
"""Figures by the values of ``--what``."""

SWEEPS: dict[str, type[Figure]] = {figure.name: figure for figure in (NeighbourSweeps, PrecisionSweeps)}
"""Figures that take the place of those of the same name if ``--figures`` is given."""
