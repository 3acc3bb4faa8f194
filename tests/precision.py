"""How far floating-point results may be apart: tolerances that follow from how they are computed."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike


def rounding(n: int, dtype: DTypeLike = np.float32) -> float:
    """Return γₙ = nu / (1 − nu), where u is half the distance from 1 to the next number of `dtype`.

    Whatever the order in which a processor sums, with or without fused multiplication, the sum of n products
    is off by at most γₙ times the sum of their absolute values (Higham 2002, chapter 3). Of two rows of unit
    norm that sum is at most 1; n operations one after the other are off by a factor of at most 1 ± γₙ.
    """
    u = np.finfo(dtype).eps / 2
    return float(n * u / (1 - n * u))
