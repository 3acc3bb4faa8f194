"""The margin index: clusters that tell where wᵀx + b can be near zero, and a cascade of ever closer looks."""

from closecall.core.selection.margin.index import MarginIndex

__all__ = ["MarginIndex"]
