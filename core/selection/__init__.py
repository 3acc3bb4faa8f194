"""Query strategies, which select the items to label next."""

from closecall.core.selection.arrays import ArrayPool
from closecall.core.selection.base import Progress, QueryStrategy
from closecall.core.selection.reader import PoolRows, RowReader
from closecall.core.selection.registry import (
    STRATEGIES,
    make_strategy,
    strategy_class,
    strategy_names,
    strategy_of_log,
)
from closecall.core.selection.requests import (
    Choice,
    LabeledItems,
    PoolExhausted,
    Query,
    Request,
    SearchIncomplete,
    Selection,
)
from closecall.core.selection.words import covering, strategy_from

__all__ = [
    "STRATEGIES",
    "ArrayPool",
    "Choice",
    "LabeledItems",
    "PoolExhausted",
    "PoolRows",
    "Progress",
    "Query",
    "QueryStrategy",
    "Request",
    "RowReader",
    "SearchIncomplete",
    "Selection",
    "covering",
    "make_strategy",
    "strategy_class",
    "strategy_from",
    "strategy_names",
    "strategy_of_log",
]
