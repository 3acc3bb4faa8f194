"""Auditing a classifier: items drawn with known probability, and what they say about all the others."""

from core.audit.intervals import LEVEL, Audited, Interval, estimate
from core.audit.passing import pass_over
from core.audit.strata import Frame, Strata, bands
from core.audit.turns import is_audit_turn, is_overlap_turn
from core.audit.weights import inclusion

__all__ = [
    "LEVEL",
    "Audited",
    "Frame",
    "Interval",
    "Strata",
    "bands",
    "estimate",
    "inclusion",
    "is_audit_turn",
    "is_overlap_turn",
    "pass_over",
]
