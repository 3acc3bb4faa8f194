"""Search structures: from codes to candidate rows."""

from core.search.base import SearchStructure
from core.search.orders import PermutedOrders
from core.search.tables import BucketTables

STRUCTURES: dict[str, type[SearchStructure]] = {cls.name: cls for cls in (BucketTables, PermutedOrders)}

__all__ = ["STRUCTURES", "BucketTables", "PermutedOrders", "SearchStructure"]
