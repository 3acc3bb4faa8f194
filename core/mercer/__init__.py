"""Kernels in the sense of Mercer: how alike two items are, as an inner product in some space."""

from core.mercer.box import PyramidBox
from core.mercer.kernel import (
    ChiSquared,
    Cosine,
    Intersection,
    Kernel,
    Learned,
    Transformed,
    kernel_from,
    rbf,
)
from core.mercer.pyramid import PyramidMatch

__all__ = [
    "ChiSquared",
    "Cosine",
    "Intersection",
    "Kernel",
    "Learned",
    "PyramidBox",
    "PyramidMatch",
    "Transformed",
    "kernel_from",
    "rbf",
]
