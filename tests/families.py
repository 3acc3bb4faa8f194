"""Hash families that learn little, where a test is not about how well they do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from closecall.core.hashing import FAMILIES
from closecall.core.metric.validation import GAMMAS, choose_gamma

LITTLE = {
    "rbm": {"layers": (64, 64), "most_passes": 2},
    "boosted": {"n_pairs": 2000},
    "ksh": {"n_steps": 20},
    "ksh-learned": {"n_pairs": 300, "n_steps": 20},
}
"""Parameters by the family's name."""


@contextmanager
def learning_little() -> Iterator[None]:
    """The defaults of slow learners are such that a test need not wait for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(choose_gamma.__kwdefaults__, "gammas", GAMMAS[:2])
        patch.setitem(choose_gamma.__kwdefaults__, "n_folds", 2)
        for name, parameters in LITTLE.items():
            defaults = FAMILIES[name].__init__.__kwdefaults__
            for parameter, value in parameters.items():
                assert parameter in defaults
                patch.setitem(defaults, parameter, value)
        yield
