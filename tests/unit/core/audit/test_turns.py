from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from closecall.core.audit import is_audit_turn
from closecall.core.errors import InputError


def turns(share, n=4000, seed=0):
    return np.array([is_audit_turn(number, share, seed=seed) for number in range(n)])


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_a_share_of_the_rounds_is_audited(share):
    """As many as so many coins show, and neither more nor fewer after an audited one."""
    found = turns(share)
    assert binomtest(int(found.sum()), 4000, share).pvalue > 1e-3
    after = found[1:][found[:-1]]
    assert binomtest(int(after.sum()), len(after), share).pvalue > 1e-3


def test_none_and_all():
    """0 and 1 leave nothing to chance."""
    assert not turns(0.0, 200).any()
    assert turns(1.0, 200).all()


def test_turns_can_be_told_again():
    """The seed decides, and each session has its own turns."""
    assert np.array_equal(turns(0.3, 200), turns(0.3, 200))
    assert not np.array_equal(turns(0.3, 200), turns(0.3, 200, seed=1))


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_share_must_be_a_share(share):
    """It is refused otherwise."""
    with pytest.raises(InputError, match="share must be from 0 to 1"):
        is_audit_turn(3, share)
