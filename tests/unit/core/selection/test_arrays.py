from __future__ import annotations

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.selection import ArrayPool


@pytest.mark.parametrize(
    ("X", "ids", "sentence"),
    [
        (np.eye(3), [3, 2, 1], "3 ascending numbers"),
        (np.eye(3), [1, 1, 2], "3 ascending numbers"),
        (np.eye(3), [1, 2], "3 ascending numbers"),
        (np.ones(3), None, r"shape \(N, n_features\), got \(3,\)"),
    ],
)
def test_rows_and_ids_that_do_not_belong_together_are_refused(X, ids, sentence):
    """Excluded items would otherwise be selected, and rows left out."""
    with pytest.raises(InputError, match=sentence):
        ArrayPool(X, ids=ids)
