"""Search for the items nearest to an example, exactly or by hash codes."""

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
