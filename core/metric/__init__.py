"""Metrics learned from what is similar and what is not."""

from core.metric.constraints import Constraints
from core.metric.itml import ITML
from core.metric.kernel_learning import KernelLearning
from core.metric.metrics import ExplicitMetric, ImplicitMetric, Metric, metric_from_arrays

__all__ = [
    "ITML",
    "Constraints",
    "ExplicitMetric",
    "ImplicitMetric",
    "KernelLearning",
    "Metric",
    "metric_from_arrays",
]
