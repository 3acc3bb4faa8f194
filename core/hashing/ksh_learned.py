"""Supervised hashing with a kernel that is learned from the same labels.

Before the bits are learned (`core.hashing.ksh`), a kernel κ is learned from pairs among c labeled rows. A
pair is similar if its rows have the same class and dissimilar otherwise. Under κ, similar pairs are near and
dissimilar pairs are far. Among all kernels with this property, κ is the closest to a given kernel κ₀
(`core.metric.kernel_learning`, algorithm 1 of [1]_, corrected). For any two points x and y,

    κ(x, y) = κ₀(x, y) + k_c(x)ᵀ M k_c(y)                                    (eqs. 30 and 36 of [1]_),

where k_c(x) contains the values of κ₀ for x and the c rows, and M is a learned c × c matrix. Let k₀(x)
contain the values of κ₀ for x and the m anchors, followed by k_c(x). The values of κ for x and the anchors
are then k(x) = Tᵀk₀(x). The first m rows of T are the identity. The other rows are the product of M and the
matrix of κ₀ between the c labeled rows and the anchors. A bit is sign((Ta)ᵀ(k₀(x) − k̄₀)), where a is a
learned vector and k̄₀ is the mean of k₀ over the rows that the family is fitted to. Hashing a point therefore
takes m + c values of κ₀ and one product.

**Why the anchors are not enough.** If all c rows were anchors, k(x) would be a linear function of the m
values of κ₀ for x and the anchors. The same bits could then be found without learning a kernel.

**Results.** There was no gain on GIST of the images of CIFAR-10 with 1,000 labels. At 8 to 48 bits, the
precision of the first 500 items differs by at most half a percentage point from the precision with the
unlearned kernel (see the table in `core.hashing.ksh`). The precision hardly changes if the cost γ of slack is
varied from 0.01 to 1, or if the kernel is learned from 10,000 pairs of 1,000 rows.

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
    """Supervised hashing with a kernel that is learned from the same labels before the bits are learned.

    Parameters
    ----------
    gamma : float
        Cost γ > 0 of slack in learning the kernel; see `core.metric.KernelLearning`.
    n_constrained : int
        Maximum number c of rows from which pairs are formed. The rows are drawn at random from the labeled
        rows that the bits are learned from. Each pass over the pairs takes about c² operations per pair, and
        hashing a point takes c more values of the kernel.
    n_pairs : int
        Maximum number of pairs, half similar and half dissimilar if there are enough of both.

    Other parameters are those of `SupervisedKernelHash`; `kernel` is the kernel κ₀ to start from.

    Attributes
    ----------
    points_ : array of shape (n_anchors + c, n_features), float32
        The anchors, followed by the c rows from which pairs are formed.
    metric_ : array of shape (c, c), float64
        The matrix M of the learned kernel κ₀(x, y) + k_c(x)ᵀ M k_c(y), where k_c(x) contains the values of κ₀
        for x and the c rows.
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
        n_labels: int | None = None,
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
        """Name of the family, because a learned kernel has no name of its own."""
        return self.name

    def between(self, Q: Rows, X: Rows) -> Floats64:
        """Return κ(x, y)/√(κ(x, x)·κ(y, y)), the cosine in the feature space of the learned kernel."""
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
        """Return the values of κ₀ for each prepared row and the c rows that form pairs, of shape (n, c)."""
        return self._kernel.values(prepared, self.points_[self.n_anchors :]).astype(np.float64)

    def _check(self) -> None:
        super()._check()
        if not self.gamma > 0:
            raise InputError(f"gamma must be positive, got {self.gamma:g}")


def kernel_alone(n_rows: int, *, gamma: float, n_anchors: int, seed: int, **params: Any) -> LearnedKernelHash:
    """Return an unfitted family that learns a kernel from `n_rows` labeled rows, but hardly any bits.

    It serves to choose `gamma` by cross-validation. A fold has at most `n_rows` anchors and half the usual
    number of pairs. `params` are further parameters of the family.
    """
    return LearnedKernelHash(
        gamma=gamma,
        n_anchors=min(n_anchors, n_rows),
        n_pairs=LearnedKernelHash().n_pairs // 2,
        n_steps=0,
        n_functions=1,
        random_state=seed,
        **params,
    )


_LEAST = 1e-12
