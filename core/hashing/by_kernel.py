"""Base class of families that compare points by a kernel."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from closecall.core.hashing.base import Arrays
from closecall.core.hashing.similarity import Floats64, SimilarityHasher
from closecall.core.mercer.kernel import Kernel, kernel_from
from closecall.core.numerics.rows import Rows

_KERNEL = "kernel-"


class ByKernel(SimilarityHasher):
    """Base class of families with a parameter `kernel`. Subclasses set the attribute `_kernel` in `_fit`."""

    estimates = "kernel"
    takes = "dense"
    kernel: str | Kernel | None

    _kernel: Kernel

    @property
    def orders_by(self) -> str:
        """Name of the kernel, such as "chi2"; the family approximates the kernel's order of neighbours."""
        return self._kernel.flat.word

    def between(self, Q: Rows, X: Rows) -> Floats64:
        """Return the kernel values κ(q, x), of shape (n_queries, n_points)."""
        return np.asarray(self._kernel.values(self._rows(Q), self._rows(X)), dtype=np.float64)

    def params(self) -> dict[str, Any]:
        """See `SimilarityHasher.params`. A `Kernel` is replaced by its name, such as "chi2"."""
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
        """Rebuild the kernel from its saved arrays, after all other attributes were restored."""
        assert self.kernel is not None
        return kernel_from(self.kernel, arrays)

    def _rows(self, X: Rows) -> Rows:
        return self._kernel.prepared(super()._rows(X))
