"""Supervised hashing with a kernel that has been learned from the same classes.

Before bits are learned (`core.hashing.ksh`), the kernel is: pairs of c labelled rows, similar in one class
and dissimilar in two, lead from κ₀ to the kernel nearest to it that brings them together or apart
(`core.metric.kernel_learning`, algorithm 1 of [1]_, corrected). Of any two points that kernel is

    κ(x, y) = κ₀(x, y) + k_c(x)ᵀ M k_c(y)                                                (30 and 36),

k_c(x) being κ₀ of x and the c rows. So the anchors' k(x) = Tᵀ(κ₀ of x and the anchors and the c rows), with
T the identity above and M times κ₀ of the c rows and the anchors below it, and a bit is sign((Ta)ᵀ…): a new
point takes m + c values of κ₀ and one product.

**Why rows beside the anchors.** If the c rows were anchors, too, all k(x) would be spanned by the m values as
before, and the same a could be had without learning: the spectral start, for one, doesn't change when k(x) is
multiplied by a matrix. What a learned kernel adds to this method are functions of points that are no anchors,
and a scale in which the descent goes about them.

**It gains nothing** on GIST of CIFAR-10's photographs by 1,000 labels: at 8 to 48 bits, precision of the
first 500 is within half a point of that by the kernel as it is (`core.hashing.ksh`), now better, now worse.
Neither γ from 0.01 to 1 nor 1,000 rows in 10,000 pairs change much there.

References
----------
.. [1] Y. Li, H. Cheng, "Supervised hashing with learned metric".
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.hashing.ksh import SupervisedKernelHash
from closecall.core.hashing.similarity import Floats32, Floats64
from closecall.core.mercer.kernel import Kernel
from closecall.core.metric import Constraints
from closecall.core.metric.kernel_learning import KernelLearning, root_of
from closecall.core.numerics.rows import Rows

_MAX_PASSES = 200


class LearnedKernelHash(SupervisedKernelHash):
    """KSH by a kernel that is learned first.

    Parameters
    ----------
    gamma : float
        γ, the price of slack, see `core.metric.KernelLearning`.
    n_constrained : int
        c: of so many labelled rows at most are the pairs.
    n_pairs : int
        Of them, half similar and half dissimilar, as far as there are so many.

    Others are those of `SupervisedKernelHash`; `kernel` is κ₀.

    Attributes
    ----------
    points_ : array of shape (n_anchors + c, n_features), float32
        The anchors, and the constrained rows.
    metric_ : array of shape (c, c), float64
        M.
    """

    name = "ksh-learned"

    metric_: Floats64
    _fitted: ClassVar[tuple[str, ...]] = (*SupervisedKernelHash._fitted, "metric_")
    _least: ClassVar[dict[str, int]] = {**SupervisedKernelHash._least, "n_constrained": 2, "n_pairs": 2}

    def __init__(
        self,
        *,
        kernel: str | Kernel | None = None,
        n_anchors: int = 300,
        n_labels: int = 1000,
        n_steps: int = 200,
        gamma: float = 0.1,
        n_constrained: int = 400,
        n_pairs: int = 2000,
        n_functions: int = 48,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            kernel=kernel,
            n_anchors=n_anchors,
            n_labels=n_labels,
            n_steps=n_steps,
            n_functions=n_functions,
            random_state=random_state,
        )
        self.gamma = gamma
        self.n_constrained = n_constrained
        self.n_pairs = n_pairs

    @property
    def orders_by(self) -> str:
        """Its own kernel, which no word names."""
        return self.name

    def between(self, Q: Rows, X: Rows) -> Floats64:
        """κ(x, y)/√(κ(x, x)·κ(y, y)), the cosine in the space of the learned kernel."""
        Q, X = self._rows(Q), self._rows(X)
        to_q, to_x = self._constrained(Q), self._constrained(X)
        inner = self._kernel.values(Q, X).astype(np.float64) + to_q @ self.metric_ @ to_x.T
        squares = (1 + np.einsum("ij,ij->i", to @ self.metric_, to) for to in (to_q, to_x))
        q, x = (np.sqrt(np.maximum(own, _LEAST)) for own in squares)
        return np.asarray(inner / np.outer(q, x))

    def _settle(
        self, anchors: Floats32, P: Floats32, y: NDArray[np.int64], rng: np.random.Generator
    ) -> Floats64:
        some = np.sort(rng.permutation(len(y))[: self.n_constrained])
        points = P[some]
        K0 = self._kernel.values(points, points).astype(np.float64)
        K0 = (K0 + K0.T) / 2
        seed = int(rng.integers(2**31))
        pairs = Constraints.from_labels(root_of(K0), y[some], n_pairs=self.n_pairs, random_state=seed)
        learning = KernelLearning(gamma=self.gamma, max_passes=_MAX_PASSES, random_state=seed)
        self.metric_ = learning.fit(K0, pairs).weights_
        self.points_ = np.concatenate([anchors, points])
        to_anchors = self._kernel.values(points, anchors).astype(np.float64)
        return np.concatenate([np.eye(len(anchors)), self.metric_ @ to_anchors])

    def _constrained(self, prepared: Any) -> Floats64:
        """k_c of prepared rows, of shape (n, c)."""
        return self._kernel.values(prepared, self.points_[self.n_anchors :]).astype(np.float64)

    def _check(self) -> None:
        super()._check()
        if not self.gamma > 0:
            raise InputError(f"gamma must be positive, got {self.gamma:g}")


_LEAST = 1e-12
