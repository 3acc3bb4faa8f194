"""Selection by hyperplane hashing: the papers' methods (`papers`), and our weighted form (`weighted`)."""

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

__all__ = [
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
