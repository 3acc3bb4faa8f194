"""Query strategies of the literature, to be compared with those that the pages offer.

All of them answer in far less time than a full scan. They choose among a few items near the hyperplane, which
the margin index finds (`shortlist.py`), or among random items of the pool (`sampled.py`).
"""

from closecall.core.selection.contenders.density import DensityWeighted
from closecall.core.selection.contenders.disagreement import Disagreement
from closecall.core.selection.contenders.output_change import OutputChange
from closecall.core.selection.contenders.probcover import ProbCover
from closecall.core.selection.contenders.typiclust import TypiClust
from closecall.core.selection.contenders.variance import VarianceReduction

CONTENDERS = {
    cls.name: cls
    for cls in (DensityWeighted, OutputChange, VarianceReduction, Disagreement, TypiClust, ProbCover)
}
"""The strategies by name."""

__all__ = [
    "CONTENDERS",
    "DensityWeighted",
    "Disagreement",
    "OutputChange",
    "ProbCover",
    "TypiClust",
    "VarianceReduction",
]
