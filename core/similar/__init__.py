"""Find similar: the nearest items to an example, found exactly or by hash codes."""

from closecall.core.similar.index import ExactSearch, HashedSimilarity, Neighbours, SimilaritySearch
from closecall.core.similar.nearness import ByAngle, ByDistance, ByFamily, Nearness, nearness_of

__all__ = [
    "ByAngle",
    "ByDistance",
    "ByFamily",
    "ExactSearch",
    "HashedSimilarity",
    "Nearness",
    "Neighbours",
    "SimilaritySearch",
    "nearness_of",
]
