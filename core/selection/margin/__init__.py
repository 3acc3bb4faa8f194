"""The margin index: clusters locate rows with wᵀx + b near zero, and a cascade refines their scores."""

from closecall.core.selection.margin.index import MarginIndex

__all__ = ["MarginIndex"]
