"""The baseline of a comparison of hash families, and what a difference to a baseline shows.

The baseline is fixed before anything is measured. In a draw, all families have the same queries, sample and
labels, so differences to the baseline are paired by draw.
"""

from __future__ import annotations

from closecall.app.experiments.compare.statistics import Interval
from closecall.core.hashing import RandomHyperplaneLSH

BASELINE = RandomHyperplaneLSH.name
"""The family that all other families are compared with."""


def is_open(gain: Interval) -> bool:
    """Return whether a difference is open: its interval contains zero, or it has no interval."""
    return gain.low is None or gain.high is None or gain.low <= 0 <= gain.high
