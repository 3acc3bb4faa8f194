"""Kernelized LSH measured: how often the exact neighbour is among the first, at which rank and scale.

Recall@R is the share of queries whose nearest neighbour, by the kernel itself, is among the R rows of the
pool whose codes differ least from the query's [1]_. Rows that differ as much are as good as each other: where
some of them are among the first R, the neighbour is so with that probability, and nothing depends on their
order.

**Choosing rank and scale.** On queries of their own, of which none is used to measure, and on as many rows of
the pool as are worth the time, R being the same share of them:

1. the rank with the best recall of the kernel as it is: the low-rank form;
2. at this rank the scale s of exp(s(κ − 1)) with the best recall: low-rank and transformation, as published;
3. at this scale the rank with the best recall, which may be greater, since the eigenvalues decay more slowly.

References
----------
.. [1] K. Jiang, Q. Que, B. Kulis: Revisiting Kernelized Locality-Sensitive Hashing for Improved Large-Scale
   Image Retrieval, CVPR 2015, section 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.hashing.base import BLOCK_ROWS, Codes
from closecall.core.hashing.klsh import KernelHasher, KernelizedLSH, KernelPCALSH, NystromLSH, hash_together
from closecall.core.mercer.kernel import Kernel, Transformed, kernel_from
from closecall.core.numerics.blocks import even_blocks
from closecall.core.numerics.jit import kernel, ones
from closecall.core.numerics.rows import Rows
from closecall.core.pool.pool import Pool

RANKS = (16, 32, 64, 128, 256, 512)
SCALES = (1.0, 3.0, 5.0, 7.0, 9.0)
"""What the paper tries; more where asked."""

Words = NDArray[np.uint64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Form:
    """A form of kernelized LSH.

    Parameters
    ----------
    kernel : str or Kernel
        As it is, see `core.mercer.kernel.kernel_from`.
    rank : int or None
        None for all components.
    scale : float or None
        s of exp(s(κ − 1)); None for κ itself.
    centred : bool
        See `core.hashing.klsh`.
    family : type
        What draws the vectors.
    """

    kernel: str | Kernel
    rank: int | None = None
    scale: float | None = None
    centred: bool = False
    family: type[KernelHasher] = KernelizedLSH

    def hasher(self, **params: Any) -> KernelHasher:
        """The family, not fitted; `params` are its other parameters."""
        flat = kernel_from(self.kernel)
        kernel = flat if self.scale is None else Transformed(flat, self.scale)
        return self.family(kernel=kernel, rank=self.rank, centred=self.centred, **params)


@dataclass(frozen=True)
class Choice:
    """What `choose` found.

    Parameters
    ----------
    plain, low_rank, transformed, both : Form
        The original, and after each of the three steps.
    recalls : dict of Form to float
        Of all forms that were tried, on the queries by which they were chosen.
    """

    plain: Form
    low_rank: Form
    transformed: Form
    both: Form
    recalls: dict[Form, float]

    @property
    def forms(self) -> dict[str, Form]:
        """The four of them by name."""
        return {name: getattr(self, name) for name in ("plain", "low_rank", "transformed", "both")}


@dataclass(frozen=True, eq=False)
class Places:
    """Where each query's neighbour stands among the codes of n rows.

    Parameters
    ----------
    nearer : array of shape (n_queries,), int64
        How many codes differ less from the query's.
    equal : array of shape (n_queries,), int64
        How many differ as much, the neighbour's own included.
    """

    nearer: Counts
    equal: Counts

    def recall(self, R: ArrayLike) -> NDArray[np.float64]:
        """Recall@R for each of `R`; rows that differ as much stand in any order."""
        R = np.asarray(R, dtype=np.float64)
        found = (R[..., None] - self.nearer) / self.equal
        return np.asarray(np.clip(found, 0, 1).mean(axis=-1))


def nearest(
    kernel: Kernel, blocks: Iterable[tuple[int, Rows]], Q: Rows
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The row with the greatest κ to each query, the first of equal ones, and κ; by one pass over the pool.

    Parameters
    ----------
    kernel : Kernel
        κ.
    blocks : iterable of (first row, features of shape (m, n_features))
        As `Pool.blocks` gives them.
    Q : array of shape (n_queries, n_features)
        The queries.
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
        first += len(block)
    return rows, most


def codes_of(hashers: Sequence[KernelHasher], blocks: Iterable[tuple[int, Rows]], n_rows: int) -> list[Codes]:
    """The codes of all rows by each of some hashers, which have the same landmarks; by one pass."""
    whole: list[Codes] = []
    first = 0
    for block in even_blocks((X for _, X in blocks), BLOCK_ROWS):
        some = hash_together(hashers, block)
        if not whole:
            whole = [Codes(np.zeros((n_rows, c.packed.shape[1]), np.uint8), c.n_functions) for c in some]
        for codes, new in zip(whole, some, strict=True):
            codes.packed[first : first + len(new)] = new.packed
        first += len(block)
    return whole


def places(codes: Codes, queries: Codes, neighbours: NDArray[np.int64]) -> Places:
    """Where the row `neighbours[i]` stands, by Hamming distance of `codes` from query i's."""
    nearer, equal = np.empty(len(queries), np.int64), np.empty(len(queries), np.int64)
    _stand(codes.words, queries.words, neighbours, nearer, equal)
    return Places(nearer, equal)


def choose(
    kernel: str | Kernel,
    X: Rows,
    Q: Rows,
    *,
    share: float = 1e-4,
    ranks: Sequence[int] = RANKS,
    scales: Sequence[float] = SCALES,
    centred: bool = False,
    family: type[KernelHasher] = KernelizedLSH,
    **params: Any,
) -> Choice:
    """Rank and scale for a kernel, by the rule above.

    Parameters
    ----------
    kernel : str or Kernel
        See `Form`.
    X : array of shape (n_rows, n_features)
        Rows of the pool, at least as many as landmarks.
    Q : array of shape (n_queries, n_features)
        Queries that nothing else is measured with.
    share : float
        R as a share of the rows.
    ranks, scales : sequence
        What is tried.
    centred, family
        See `Form`.
    **params
        Other parameters of the family.

    Raises
    ------
    InputError
        If the share is not between 0 and 1, there is nothing to try, or the family refuses the rows.
    """
    if not 0 < share <= 1:
        raise InputError(f"share must be above 0 and at most 1, got {share}")
    if not len(ranks) or not len(scales) or not Q.shape[0]:
        raise InputError("to choose rank and scale, some ranks, scales and queries are needed, got none")
    R = share * X.shape[0]
    neighbours, _ = nearest(kernel_from(kernel), [(0, X)], Q)
    recalls: dict[Form, float] = {}

    def best(forms: Sequence[Form]) -> Form:
        new = [form for form in forms if form not in recalls]
        hashers = [form.hasher(**params).fit(X) for form in new]
        if new:
            points, queries = hash_together(hashers, X), hash_together(hashers, Q)
            for form, of_points, of_queries in zip(new, points, queries, strict=True):
                recalls[form] = float(places(of_points, of_queries, neighbours).recall(R))
        return max(forms, key=lambda form: recalls[form])

    plain = Form(kernel, None, None, centred, family)
    best([plain])
    low_rank = best([replace(plain, rank=rank) for rank in ranks])
    transformed = best([replace(low_rank, scale=scale) for scale in scales])
    both = best([replace(transformed, rank=rank) for rank in ranks])
    return Choice(plain, low_rank, transformed, both, recalls)


def recalls(
    forms: Sequence[Form],
    pool: Pool,
    Q: Rows,
    neighbours: NDArray[np.int64],
    R: ArrayLike,
    *,
    sample: Rows,
    **params: Any,
) -> list[NDArray[np.float64]]:
    """Recall@R over a whole pool of each form, which share their kernel, for each of `R`; by one pass.

    Parameters
    ----------
    forms : sequence of Form
        Of one kernel.
    pool : Pool
        Its rows are searched.
    Q : array of shape (n_queries, n_features)
        The queries.
    neighbours : array of shape (n_queries,), int64
        The row `nearest` to each of them.
    R : array of int
        How many of the first rows count.
    sample : array of shape (n_rows, n_features)
        Rows of the pool that the families are fitted to.
    **params
        Parameters of the families that the forms leave open.
    """
    hashers = [form.hasher(**params).fit(sample) for form in forms]
    points = codes_of(hashers, pool.blocks(), len(pool))
    queries = hash_together(hashers, Q)
    return [places(p, q, neighbours).recall(R) for p, q in zip(points, queries, strict=True)]


def queries_of(pool: Pool, n_queries: int, n_choosing: int, *, seed: int = 0) -> tuple[Rows, Rows]:
    """The features of `held_out_queries`."""
    queries, choosing = held_out_queries(pool, n_queries, n_choosing, seed=seed)
    return pool.held_out.X[queries], pool.held_out.X[choosing]


def held_out_queries(
    pool: Pool, n_queries: int, n_choosing: int, *, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Held-out items to measure with, and others to choose rank and scale by; no row of the pool is one.

    Returns
    -------
    two arrays of shape (n_queries,) and (n_choosing,), int64
        Their places in `Pool.held_out`, ascending.

    Raises
    ------
    InputError
        If the pool holds out fewer.
    """
    there, needed = len(pool.held_out), n_queries + n_choosing
    if there < needed:
        raise InputError(
            f"{needed:,} held-out items are needed as queries, {n_queries:,} to measure and {n_choosing:,} "
            f"to choose by, and the pool {pool.path} holds out {there:,}"
        )
    drawn = np.random.default_rng([seed, 2]).permutation(there)[:needed]
    return np.sort(drawn[:n_queries]), np.sort(drawn[n_queries:])


def compare_forms(
    pool: Pool,
    kernel: str | Kernel,
    Q: Rows,
    choosing: Rows,
    neighbours: NDArray[np.int64],
    *,
    share: float = 1e-4,
    n_sample: int = 50_000,
    n_landmarks: int = 1000,
    n_functions: int = 256,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Table 1 of the paper for one kernel and one draw of landmarks and vectors: as published, and centred.

    Beside the forms of `Choice`, ``kpca`` is the low-rank form with Gaussian vectors, ``nystrom_low_rank``
    the same on components about the origin, and ``nystrom`` that with all components.

    Parameters
    ----------
    pool : Pool
        Its rows are searched.
    kernel : str or Kernel
        See `Form`.
    Q, choosing : arrays of shape (n_queries, n_features) and (n_choosing, n_features)
        See `queries_of`.
    neighbours : array of shape (n_queries,), int64
        The row `nearest` to each of Q.
    share : float
        R as a share of the rows.
    n_sample : int
        So many rows of the pool the families are fitted to, and rank and scale chosen on; all, if there are
        fewer.
    n_landmarks : int
        m; of `RANKS`, those below it are tried.
    n_functions : int
        Bits a code.
    seed : int
        Draws the sample, the landmarks and the vectors.

    Returns
    -------
    list of dict
        One row for each form, seen from the origin and from the mean: ``kernel``, ``centred``, ``form``,
        ``rank``, ``scale``, ``seed``, ``R``, ``recall``, and ``recall_when_chosen`` on the other queries,
        None where nothing was chosen.
    """
    n = min(n_sample, len(pool))
    drawn = np.random.default_rng([seed, 1]).choice(len(pool), n, replace=False)
    sample = pool.rows(np.sort(drawn))
    ranks = [rank for rank in RANKS if rank < n_landmarks]
    params: dict[str, Any] = {"n_landmarks": n_landmarks, "n_functions": n_functions, "random_state": seed}
    forms: dict[tuple[str, bool], Form] = {}
    when_chosen: dict[Form, float] = {}
    for centred in (False, True):
        choice = choose(kernel, sample, choosing, share=share, ranks=ranks, centred=centred, **params)
        when_chosen |= choice.recalls
        beside = {
            "kpca": replace(choice.low_rank, family=KernelPCALSH),
            "nystrom_low_rank": replace(choice.low_rank, family=NystromLSH),
            "nystrom": replace(choice.plain, family=NystromLSH),
        }
        forms |= {(name, centred): form for name, form in {**choice.forms, **beside}.items()}
    different = list(dict.fromkeys(forms.values()))
    R = share * len(pool)
    found = recalls(different, pool, Q, neighbours, R, sample=sample, **params)
    recall_of = dict(zip(different, map(float, found), strict=True))
    return [
        {
            "kernel": kernel_from(kernel).word,
            "centred": centred,
            "form": name,
            "rank": form.rank,
            "scale": form.scale,
            "seed": seed,
            "R": R,
            "recall": recall_of[form],
            "recall_when_chosen": when_chosen.get(form),
        }
        for (name, centred), form in forms.items()
    ]


@kernel
def _distance(a: Words, b: Words) -> np.uint64:
    total = np.uint64(0)
    for i in range(a.shape[0]):
        total += ones(a[i] ^ b[i])
    return total


@kernel
def _stand(words: Words, queries: Words, neighbours: Counts, nearer: Counts, equal: Counts) -> None:
    """Fills `nearer` and `equal`, see `Places`."""
    for q in range(queries.shape[0]):
        own = _distance(words[neighbours[q]], queries[q])
        nearer[q], equal[q] = 0, 0
        for row in range(words.shape[0]):
            distance = _distance(words[row], queries[q])
            nearer[q] += distance < own
            equal[q] += distance == own
