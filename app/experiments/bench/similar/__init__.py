"""The measurements of ``closecall bench similar``, one class per module.

A measurement reproduces figures or tables of a paper, so its class is called a figure. "The survey" is
K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013.
"""

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
"""The class for each value of ``--what``."""

SWEEPS: dict[str, type[Figure]] = {figure.name: figure for figure in (NeighbourSweeps, PrecisionSweeps)}
"""Classes that replace the classes of the same name in `FIGURES` if ``--figures`` is given."""
