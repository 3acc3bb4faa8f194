"""Which rounds are the audit's, or overlap's: a share of them, as if by a coin that can be tossed again."""

from __future__ import annotations

from closecall.core.errors import InputError
from closecall.core.numerics.randomness import seed_for, uniform


def is_audit_turn(round_number: int, share: float, *, seed: int = 0) -> bool:
    """Whether this round draws an item for the audit instead of selecting one to train on.

    Rounds are independent of each other, and of what is answered, so an annotator can't tell an audited item
    by when it comes; the same arguments give the same answer.

    Parameters
    ----------
    round_number : int
        Of the session.
    share : float, 0 … 1
        Of the rounds that are the audit's.
    seed : int
        The session's.

    Raises
    ------
    InputError
        If share is no share.
    """
    return _is_turn("audit turns", round_number, share, seed)


def is_overlap_turn(round_number: int, share: float, *, seed: int = 0) -> bool:
    """Whether this round asks for a further person's answer; as `is_audit_turn`, and independent of it."""
    return _is_turn("overlap turns", round_number, share, seed)


def _is_turn(purpose: str, round_number: int, share: float, seed: int) -> bool:
    if not 0 <= share <= 1:
        raise InputError(f"share must be from 0 to 1, got {share}")
    return bool(uniform(seed_for(purpose, seed), [round_number], 1)[0, 0] < share)
