"""Mercer kernels: similarities of two items that are inner products in some feature space."""

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
from closecall.core.mercer.local import LocalFeatures
from closecall.core.mercer.proximity import ProximityDistribution
from closecall.core.mercer.pyramid import PyramidMatch

__all__ = [
    "ChiSquared",
    "Cosine",
    "Intersection",
    "Kernel",
    "Learned",
    "LocalFeatures",
    "ProximityDistribution",
    "PyramidBox",
    "PyramidMatch",
    "Transformed",
    "kernel_from",
    "rbf",
]
