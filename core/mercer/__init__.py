"""Kernels in the sense of Mercer: how alike two items are, as an inner product in some space."""

from closecall.core.mercer.box import PyramidBox
from closecall.core.mercer.kernel import (
    ChiSquared,
    Cosine,
    Intersection,
    Kernel,
    Learned,
    Transformed,
    kernel_from,
    rbf,
)
from closecall.core.mercer.pyramid import PyramidMatch

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
