"""Search structures: from codes to candidate rows.

`STRUCTURES` serve queries by hyperplanes as well as by points; `SIMILARITY_STRUCTURES` all that serve points.
"""

from core.search.ball import HammingBall
from core.search.base import Found, SearchStructure
from core.search.orders import PermutedOrders
from core.search.points import SIMILARITY_STRUCTURES, built_for_points
from core.search.scan import HammingScan
from core.search.table import HashTable
from core.search.tables import BucketTables

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
