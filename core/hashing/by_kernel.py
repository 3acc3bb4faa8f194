"""What families have in common that see points by a kernel: its word and arrays, and what they estimate."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from closecall.core.hashing.base import Arrays
from closecall.core.hashing.similarity import Floats64, SimilarityHasher
from closecall.core.mercer.kernel import Kernel, kernel_from
from closecall.core.numerics.rows import Rows

_KERNEL = "kernel-"


class ByKernel(SimilarityHasher):
    """A family with the parameter `kernel`; `_fit` begins by setting `_kernel`."""

    estimates = "kernel"
    takes = "dense"
    kernel: str | Kernel | None

    _kernel: Kernel

    @property
    def orders_by(self) -> str:
        """The word of the kernel in whose order the neighbours are that a fitted family looks for."""
        return self._kernel.flat.word

    def between(self, Q: Rows, X: Rows) -> Floats64:
        """κ."""
        return np.asarray(self._kernel.values(self._rows(Q), self._rows(X)), dtype=np.float64)

    def params(self) -> dict[str, Any]:
        """See `SimilarityHasher.params`; the kernel by its word."""
        word = self.kernel.word if isinstance(self.kernel, Kernel) else self.kernel
        return {**super().params(), "kernel": word}

    def arrays(self) -> Arrays:
        """See `SimilarityHasher.arrays`."""
        return {**super().arrays(), **{_KERNEL + name: a for name, a in self._kernel.arrays().items()}}

    def restored(self, arrays: Arrays) -> Self:
        """See `SimilarityHasher.restored`."""
        super().restored(arrays)
        own = {name.removeprefix(_KERNEL): a for name, a in arrays.items() if name.startswith(_KERNEL)}
        self._kernel = self._kernel_again(own)
        return self

    def _kernel_again(self, arrays: Arrays) -> Kernel:
        """The kernel whose own arrays these are, once all else is restored."""
        assert self.kernel is not None
        return kernel_from(self.kernel, arrays)

    def _rows(self, X: Rows) -> Rows:
        return self._kernel.prepared(super()._rows(X))
