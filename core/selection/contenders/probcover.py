"""ProbCover: the item whose ball covers the most items that no label covers yet [1]_.

A label covers the items whose cosine to it is at least a threshold. The paper chooses the largest balls that
are nearly pure under a clustering. Here, a ball holds a given share of the pool in the mean, so that no
clustering is needed.

References
----------
.. [1] O. Yehuda, A. Dekel, G. Hacohen, D. Weinshall: Active learning through a covering lens, NeurIPS 2022.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.numerics.rows import Rows as Features
from closecall.core.selection.base import Arrays
from closecall.core.selection.contenders.cosines import inner_products
from closecall.core.selection.contenders.sampled import Sampled
from closecall.core.selection.reader import Rows


class ProbCover(Sampled):
    """Query strategy that selects the sampled item whose ball covers the most uncovered ones; see `Sampled`.

    Parameters
    ----------
    share : float, 0 to 1
        Share of the items that a ball covers, in the mean.
    n_sampled : int
        Number of random items of the pool that stand for all of them.
    random_state : int
    """

    name = "probcover"
    about = "The item that stands for the most items without an answer, for the first answers."

    def __init__(self, *, share: float = 0.01, n_sampled: int = 2000, random_state: int = 0) -> None:
        super().__init__(n_sampled=n_sampled, random_state=random_state)
        self.share = share

    def check(self) -> None:
        """See `QueryStrategy.check`."""
        super().check()
        if not 0 < self.share < 1:
            raise InputError(f"share must be between 0 and 1, got {self.share}")

    def described(self, X: Features) -> Arrays:
        """See `Sampled.described`."""
        cosines = inner_products(X, X)
        least = np.quantile(cosines, 1 - self.share, method="lower")
        return {"least": np.array([least]), "covers": cosines >= least}

    def marks(self, cosines: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Return which sampled items each labeled one covers, eight to a byte; see `Sampled.marks`."""
        return np.packbits(cosines >= self.sample_["least"][0], axis=1)

    def representatives(self, n: int, marks: NDArray[np.uint8], allowed: NDArray[np.bool_]) -> Rows:
        """See `Sampled.representatives`."""
        covers = self.sample_["covers"]
        is_covered = np.unpackbits(np.bitwise_or.reduce(marks, axis=0), count=len(covers))
        is_left = ~is_covered.astype(np.bool_)
        found: list[int] = []
        while len(found) < n:
            gains = np.where(allowed, np.count_nonzero(covers & is_left, axis=1), 0)
            best = int(gains.argmax())
            if not gains[best]:
                break
            found.append(best)
            is_left &= ~covers[best]
        return np.array(found, dtype=np.int64)
