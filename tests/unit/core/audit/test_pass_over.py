from __future__ import annotations

import numpy as np
import pytest

from closecall.core.audit import pass_over
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import ArrayPool, PoolExhausted, make_strategy

PLANE = Hyperplane(np.array([1.0, -0.5, 0.2]), 0.1)


@pytest.fixture(scope="module")
def strategy():
    return make_strategy("exhaustive").fit(ArrayPool(np.random.default_rng(0).standard_normal((200, 3))))


@pytest.fixture(scope="module")
def nearest(strategy):
    """All items, the nearest first."""
    return strategy.select(PLANE, 200).ids


@pytest.mark.parametrize("n", [1, 12])
def test_audited_items_are_passed_over(strategy, nearest, n):
    """What is selected are the nearest of the others, and what was passed over is all that was nearer."""
    audited = nearest[[0, 1, 3, 4, 9, 60, 150]]
    selection, passed = pass_over(lambda reached: strategy.select(PLANE, n, exclude=reached), audited)
    others = nearest[np.isin(nearest, audited, invert=True)]
    assert selection.ids.tolist() == others[:n].tolist()
    place = nearest.tolist().index(selection.ids[-1])
    assert passed.tolist() == sorted(set(audited) & set(nearest[:place]))


def test_without_audited_items_in_the_way_one_query_is_enough(strategy, nearest):
    """Others are not noted."""
    asked = []

    def select(reached):
        asked.append(reached.tolist())
        return strategy.select(PLANE, 3, exclude=reached)

    selection, passed = pass_over(select, iter(nearest[3:].tolist()))
    assert selection.ids.tolist() == nearest[:3].tolist()
    assert (passed.tolist(), asked) == ([], [[]])


def test_who_is_asked_about_depends_on_the_audit_only_where_it_was_passed_over(strategy, nearest):
    """Items of the audit that are far away change nothing, so the audit says nothing by who remains."""
    for audited in ([], nearest[100:].tolist()):
        selection, passed = pass_over(lambda reached: strategy.select(PLANE, exclude=reached), audited)
        assert selection.ids.tolist() == nearest[:1].tolist()
        assert not len(passed)


def test_a_pool_of_audited_items_is_exhausted(strategy, nearest):
    """Then there is nothing to select."""
    with pytest.raises(PoolExhausted):
        pass_over(lambda reached: strategy.select(PLANE, exclude=reached), nearest)
