"""Random but repeatable choice of the rounds that belong to the audit or to the overlap.

In each round, an annotator answers one item. In an audit round, this is a random item, which is not used for
training. In an overlap round, it is an item that another annotator has already answered.
"""

from __future__ import annotations

from closecall.core.errors import InputError
from closecall.core.numerics.randomness import seed_for, uniform


def is_audit_turn(round_number: int, share: float, *, seed: int = 0) -> bool:
    """Return whether this round draws an item for the audit instead of selecting an item to train on.

    The choice does not depend on other rounds or on the answers, so an annotator cannot recognize an audited
    item by its position. The same arguments always give the same result.

    Parameters
    ----------
    round_number : int
        Number of the round within the session.
    share : float, 0 to 1
        Expected fraction of rounds that belong to the audit.
    seed : int
        Seed of the session.

    Raises
    ------
    InputError
        If `share` is not between 0 and 1.
    """
    return _is_turn("audit turns", round_number, share, seed)


def is_overlap_turn(round_number: int, share: float, *, seed: int = 0) -> bool:
    """Return whether this round shows an item that another annotator has already answered.

    See `is_audit_turn` for parameters and errors. The two functions choose rounds independently.
    """
    return _is_turn("overlap turns", round_number, share, seed)


def _is_turn(purpose: str, round_number: int, share: float, seed: int) -> bool:
    if not 0 <= share <= 1:
        raise InputError(f"share must be from 0 to 1, got {share}")
    return bool(uniform(seed_for(purpose, seed), [round_number], 1)[0, 0] < share)
