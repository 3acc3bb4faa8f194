"""Metrics learned from pairs of similar and dissimilar items, or from triples."""

from closecall.core.metric.constraints import Constraints, RelativeConstraints
from closecall.core.metric.itml import ITML
from closecall.core.metric.kernel_learning import KernelLearning
from closecall.core.metric.metrics import ExplicitMetric, ImplicitMetric, Metric, metric_from_arrays
from closecall.core.metric.online import Change, OnlineITML

__all__ = [
    "ITML",
    "Change",
    "Constraints",
    "ExplicitMetric",
    "ImplicitMetric",
    "KernelLearning",
    "Metric",
    "OnlineITML",
    "RelativeConstraints",
    "metric_from_arrays",
]
