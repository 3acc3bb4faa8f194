"""Recall of kernelized LSH, and the choice of its rank and scale.

Recall@R is the share of queries whose nearest neighbour by the kernel is among the R rows of the pool with
the smallest Hamming distance [1]_; `core.experiment.retrieval` explains how rows at equal distances count.

**Choosing rank and scale.** Rank and scale are chosen by recall@R on validation queries, which are used for
nothing else, and on a sample of the rows of the pool. R is the same share of rows in the sample as in the
pool. There are three steps:

1. Choose the rank with the best recall for the kernel κ itself. The result is the low-rank form.
2. Keep this rank. Choose the scale s with the best recall for the transformed kernel exp(s(κ − 1)). The
   result is the transformed form, as published.
3. Keep this scale. Choose the rank with the best recall again. The new rank may be greater than the rank of
   step 1, because the eigenvalues of the transformed kernel decay more slowly.

References
----------
.. [1] K. Jiang, Q. Que, B. Kulis: Revisiting Kernelized Locality-Sensitive Hashing for Improved Large-Scale
   Image Retrieval, CVPR 2015, section 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.experiment.retrieval import Retrieval, retrieve
from closecall.core.hashing.base import BLOCK_ROWS, Codes
from closecall.core.hashing.klsh import KernelHasher, KernelizedLSH, hash_together
from closecall.core.mercer.kernel import Kernel, Transformed, kernel_from
from closecall.core.numerics.blocks import even_blocks
from closecall.core.numerics.rows import Rows

RANKS = (16, 32, 64, 128, 256, 512)
SCALES = (1.0, 3.0, 5.0, 7.0, 9.0)
"""Ranks and scales that the paper tries (figures 1 and 3)."""


@dataclass(frozen=True)
class Form:
    """A form of kernelized LSH: a kernel, a rank and other parameters.

    Parameters
    ----------
    kernel : str or Kernel
        The kernel κ; see `core.mercer.kernel.kernel_from`.
    rank : int or None
        Number of principal components; None for all.
    scale : float or None
        Scale s of the transformed kernel exp(s(κ − 1)); None for κ itself.
    centred : bool
        Whether angles in feature space are measured from the mean instead of the origin; see
        `core.hashing.klsh`.
    family : type
        The hash family.
    n_sampled : int or None
        Parameter of `KernelizedLSH`. None for the value passed to `hasher`; if no value is passed, the
        default.
    """

    kernel: str | Kernel
    rank: int | None = None
    scale: float | None = None
    centred: bool = False
    family: type[KernelHasher] = KernelizedLSH
    n_sampled: int | None = None

    def hasher(self, **params: Any) -> KernelHasher:
        """Return the unfitted hash family; `params` are further parameters of the family."""
        flat = kernel_from(self.kernel)
        kernel = flat if self.scale is None else Transformed(flat, self.scale)
        if self.n_sampled is not None:
            params["n_sampled"] = self.n_sampled
        return self.family(kernel=kernel, rank=self.rank, centred=self.centred, **params)


@dataclass(frozen=True)
class Choice:
    """Result of `choose`: forms of kernelized LSH, and their recall.

    Parameters
    ----------
    plain, low_rank, transformed, both : Form
        The original form, and the best form after each of the three steps in the docstring of this module.
    recalls : dict of Form to float
        Recall of all forms that were tried, on the validation queries.
    """

    plain: Form
    low_rank: Form
    transformed: Form
    both: Form
    recalls: dict[Form, float]


@dataclass(frozen=True, eq=False)
class Trials:
    """Recall of several forms of kernelized LSH, measured on the same sample with the same landmarks.

    Parameters
    ----------
    kernel : str or Kernel
        The kernel that defines the true neighbours, for all forms.
    X : array of shape (n_rows, n_features)
        Rows of the pool, at least as many as landmarks.
    Q : array of shape (n_queries, n_features)
        Validation queries, which are used only for this choice.
    share : float
        R of recall@R, divided by the number of rows.
    params : dict
        Further parameters of the hash family, for all forms.
    recalls : dict of Form to float
        Recall of each form tried so far.
    fitted : dict of Form to KernelHasher
        Hash family of each form tried so far, fitted to X.

    Raises
    ------
    InputError
        If the share is not between 0 and 1.
    """

    kernel: str | Kernel
    X: Rows
    Q: Rows
    share: float
    params: dict[str, Any]
    recalls: dict[Form, float] = field(default_factory=dict, init=False)
    fitted: dict[Form, KernelHasher] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"share must be above 0 and at most 1, got {self.share}")

    @cached_property
    def neighbours(self) -> NDArray[np.int64]:
        """For each query, the row number of the nearest row; shape (n_queries,)."""
        return nearest(kernel_from(self.kernel), [(0, self.X)], self.Q)[0]

    def best(self, forms: Sequence[Form]) -> Form:
        """Try the forms that have not been tried yet, and return the form with the best recall.

        In a tie, the first form is returned.

        Raises
        ------
        InputError
            If a family does not apply to the rows.
        """
        neighbours, R = self.neighbours, self.share * self.X.shape[0]
        new = [form for form in dict.fromkeys(forms) if form not in self.recalls]
        hashers = [form.hasher(**self.params).fit(self.X) for form in new]
        if new:
            points, queries = hash_together(hashers, self.X), hash_together(hashers, self.Q)
            for form, hasher, of_points, of_queries in zip(new, hashers, points, queries, strict=True):
                self.fitted[form] = hasher
                self.recalls[form] = recall_of_nearest(of_points, of_queries, neighbours, R)
        return max(forms, key=self.recalls.__getitem__)


def nearest(
    kernel: Kernel, blocks: Iterable[tuple[int, Rows]], Q: Rows
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """For each query, find the row with the greatest kernel value, in one pass over the pool.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    blocks : iterable of (first row, features of shape (m, n_features))
        See `Pool.blocks`.
    Q : array of shape (n_queries, n_features)
        The queries.

    Returns
    -------
    rows : array of shape (n_queries,), int64
        Row number of the row found. If several rows have the greatest value, the first is found.
    values : array of shape (n_queries,), float32
        Kernel value of each query and the row found.
    """
    queries = kernel.prepared(Q)
    rows = np.full(len(queries), -1, dtype=np.int64)
    most = np.full(len(queries), -np.inf, dtype=np.float32)
    first = 0
    for block in even_blocks((X for _, X in blocks), BLOCK_ROWS):
        values = kernel.values(queries, kernel.prepared(block))
        best = values.argmax(axis=1)
        found = values[np.arange(len(queries)), best]
        better = found > most
        rows[better], most[better] = first + best[better], found[better]
        first += block.shape[0]
    return rows, most


def codes_of(hashers: Sequence[KernelHasher], blocks: Iterable[tuple[int, Rows]], n_rows: int) -> list[Codes]:
    """Hash all rows by several hashers with the same landmarks, in one pass over the pool."""
    whole: list[Codes] = []
    first = 0
    for block in even_blocks((X for _, X in blocks), BLOCK_ROWS):
        some = hash_together(hashers, block)
        if not whole:
            whole = [Codes(np.zeros((n_rows, c.packed.shape[1]), np.uint8), c.n_functions) for c in some]
        for codes, new in zip(whole, some, strict=True):
            codes.packed[first : first + len(new)] = new.packed
        first += block.shape[0]
    return whole


def recall_of_nearest(codes: Codes, queries: Codes, neighbours: NDArray[np.int64], R: float) -> float:
    """Return the share of queries whose nearest row is among the first R rows by Hamming distance.

    Parameters
    ----------
    codes, queries : Codes
        Codes of all rows and of the queries, by the same functions.
    neighbours : array of shape (n_queries,), int64
        The row that `nearest` returns for each query.
    R : float
        Number of rows. Rows at equal Hamming distance are in random order. R need not be an
        integer: the result is linear between integers.
    """
    return float(retrieve(codes, queries, neighbours[:, None]).nearest_found([R])[:, 0].mean())


def retrieve_together(
    hashers: Sequence[KernelHasher],
    blocks: Iterable[tuple[int, Rows]],
    Q: Rows,
    neighbours: NDArray[np.int64],
) -> list[Retrieval]:
    """Count rows by Hamming distance from each query, for several hashers with the same landmarks.

    The pool is read once. Codes are dropped block by block, so memory does not grow with the pool.

    Parameters
    ----------
    hashers : sequence of KernelHasher
        See `core.hashing.klsh.hash_together`.
    blocks : iterable of (first row, features of shape (m, n_features))
        See `Pool.blocks`.
    Q : array of shape (n_queries, n_features)
        The queries.
    neighbours : array of shape (n_queries,), int64
        The row that `nearest` returns for each query.

    Returns
    -------
    list of Retrieval
        The counts for each hasher. Each query has one neighbour.
    """
    asked = hash_together(hashers, Q)
    counts = [np.zeros((len(neighbours), codes.n_functions + 1), np.int64) for codes in asked]
    distances = [np.zeros((len(neighbours), 1), np.int64) for _ in asked]
    first = 0
    for block in even_blocks((X for _, X in blocks), BLOCK_ROWS):
        n = block.shape[0]
        here = (first <= neighbours) & (neighbours < first + n)
        places = np.where(here, neighbours - first, 0)[:, None]
        for i, codes in enumerate(hash_together(hashers, block)):
            found = retrieve(codes, asked[i], places)
            counts[i] += found.rows
            distances[i][here] = found.neighbours[here]
        first += n
    return [Retrieval(rows, np.zeros_like(rows), near) for rows, near in zip(counts, distances, strict=True)]


def choose(
    kernel: str | Kernel,
    X: Rows,
    Q: Rows,
    *,
    share: float = 1e-4,
    ranks: Sequence[int] = RANKS,
    scales: Sequence[float] = SCALES,
    centred: bool = False,
    **params: Any,
) -> Choice:
    """Choose rank and scale for a kernel, in the three steps that the docstring of this module lists.

    Parameters
    ----------
    kernel : str or Kernel
        See `Form`.
    X : array of shape (n_rows, n_features)
        Rows of the pool, at least as many as landmarks.
    Q : array of shape (n_queries, n_features)
        Validation queries, which are used only for this choice.
    share : float
        R of recall@R, divided by the number of rows.
    ranks, scales : sequence
        Values to try.
    centred : bool
        See `Form`.
    **params
        Further parameters of `KernelizedLSH`.

    Raises
    ------
    InputError
        If the share is not between 0 and 1, if there are no ranks, scales or queries, or if kernelized LSH
        does not apply to the rows.
    """
    if not len(ranks) or not len(scales) or not Q.shape[0]:
        raise InputError("to choose rank and scale, some ranks, scales and queries are needed, got none")
    trials = Trials(kernel, X, Q, share, params)
    plain = Form(kernel, centred=centred)
    trials.best([plain])
    low_rank = trials.best([replace(plain, rank=rank) for rank in ranks])
    transformed = trials.best([replace(low_rank, scale=scale) for scale in scales])
    both = trials.best([replace(transformed, rank=rank) for rank in ranks])
    return Choice(plain, low_rank, transformed, both, trials.recalls)
