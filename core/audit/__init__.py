"""Audit of a classifier: estimates for the whole pool from items that are drawn with known probability."""

from closecall.core.audit.intervals import LEVEL, Audited, Interval, estimate
from closecall.core.audit.passing import pass_over
from closecall.core.audit.strata import RULE, Frame, Strata, bands
from closecall.core.audit.turns import is_audit_turn, is_overlap_turn
from closecall.core.audit.weights import inclusion, inclusion_by_stratum

__all__ = [
    "LEVEL",
    "RULE",
    "Audited",
    "Frame",
    "Interval",
    "Strata",
    "bands",
    "estimate",
    "inclusion",
    "inclusion_by_stratum",
    "is_audit_turn",
    "is_overlap_turn",
    "pass_over",
]
