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

PAPERS = tuple(kind.name for kind in (HHashSearch, EHHashSearch, BHHashSearch, LBHHashSearch))
"""Names of the papers' methods; those of their weighted forms end in "-weighted"."""

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
