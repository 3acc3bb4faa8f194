"""Search structures, which find the rows whose binary codes are most similar to a query.

For the structures in `STRUCTURES`, a query is a hyperplane or a point. `SIMILARITY_STRUCTURES` also has
structures for which a query can only be a point.
"""

from closecall.core.search.ball import HammingBall
from closecall.core.search.base import Found, SearchStructure
from closecall.core.search.orders import PermutedOrders
from closecall.core.search.points import SIMILARITY_STRUCTURES, built_for_points
from closecall.core.search.scan import HammingScan
from closecall.core.search.table import HashTable
from closecall.core.search.tables import BucketTables

STRUCTURES: dict[str, type[SearchStructure]] = {
    cls.name: cls for cls in (HashTable, PermutedOrders, HammingScan)
}

__all__ = [
    "SIMILARITY_STRUCTURES",
    "STRUCTURES",
    "BucketTables",
    "Found",
    "HammingBall",
    "HammingScan",
    "HashTable",
    "PermutedOrders",
    "SearchStructure",
    "built_for_points",
]
