"""Search structures, which find candidate rows by their codes.

The structures in `STRUCTURES` answer queries by hyperplanes and by points. `SIMILARITY_STRUCTURES` also has
structures that only answer queries by points.
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
