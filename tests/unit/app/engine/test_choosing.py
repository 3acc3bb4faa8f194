"""The draw of items that need a further annotator, compared with a shuffle of all of them."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.app.engine.choosing import draw_wanted
from closecall.app.engine.selection_parameters import OVERLAP
from closecall.core.numerics.randomness import seed_for, uniform
from closecall.storage import LabelState
from closecall.storage.ascending import without


def shuffled(wanted, n, seed):
    """The first items of a Fisher–Yates shuffle, as earlier versions of the program drew them."""
    wanted = wanted.copy()
    for place, draw in enumerate(uniform(seed_for(OVERLAP, seed), np.arange(n), 1)[:, 0]):
        other = place + int((len(wanted) - place) * draw)
        wanted[[place, other]] = wanted[[other, place]]
    return wanted[:n].tolist()


@pytest.mark.parametrize("n_items", [1, 2, 7, 60])
def test_a_draw_is_the_beginning_of_a_shuffle(n_items):
    """So that logs of earlier versions can be verified."""
    items = np.arange(n_items, dtype=np.int64) * 3
    standing = LabelState(1).standing()._replace(wanted=items)
    leased = items[1::5].tolist()
    left = without(items, np.array(leased, dtype=np.int64))
    for seed in range(20):
        for n in (1, 5, n_items + 3):
            drawn, probability = draw_wanted(standing, leased, seed=seed, n=n)
            m = min(n, len(left))
            assert drawn.tolist() == shuffled(left, m, seed)
            assert probability == m / len(left)
