"""Query strategies by hyperplane hashing: methods as published (`papers`) and with weights (`weighted`)."""

from closecall.core.selection.hashed.base import HashedSearch
from closecall.core.selection.hashed.papers import (
    BHHashSearch,
    CodeSearch,
    EHHashSearch,
    HHashSearch,
    LBHHashSearch,
)
from closecall.core.selection.hashed.weighted import (
    WeightedBHHash,
    WeightedEHHash,
    WeightedHHash,
    WeightedLBHHash,
    WeightedSearch,
)

PAPERS = tuple(kind.name for kind in (HHashSearch, EHHashSearch, BHHashSearch, LBHHashSearch))
"""Names of the strategies that follow the papers. The names of the weighted forms end in "-weighted"."""

__all__ = [
    "PAPERS",
    "BHHashSearch",
    "CodeSearch",
    "EHHashSearch",
    "HHashSearch",
    "HashedSearch",
    "LBHHashSearch",
    "WeightedBHHash",
    "WeightedEHHash",
    "WeightedHHash",
    "WeightedLBHHash",
    "WeightedSearch",
]
