"""Search structures: from codes to candidate rows."""

from core.search.base import SearchStructure
from core.search.orders import PermutedOrders
from core.search.scan import HammingScan
from core.search.table import HashTable

STRUCTURES: dict[str, type[SearchStructure]] = {
    cls.name: cls for cls in (HashTable, PermutedOrders, HammingScan)
}

__all__ = ["STRUCTURES", "HammingScan", "HashTable", "PermutedOrders", "SearchStructure"]
