"""What the contract suite is run on: every strategy, small enough to be quick, and pools to put it to."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.sparse import csr_array

from closecall.core.accelerator.device import Device
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import (
    STRATEGIES,
    ArrayPool,
    Choice,
    PoolRows,
    Query,
    QueryStrategy,
    make_strategy,
)
from closecall.core.selection.contenders import CONTENDERS
from closecall.core.selection.contenders.shortlist import Shortlisting
from closecall.core.selection.requests import LabeledItems
from tests.scale import thorough

CPU = Device("cpu", "cpu")

SMALL = {"n_functions": 60, "n_compared": 60, "n_candidates": 20, "megabytes": 1}
PAPER = {**SMALL, "n_compared": 0}
CODES = {"n_functions": 60, "n_candidates": 20, "megabytes": 1}

VARIANTS: dict[str, tuple[str, dict]] = {
    "random": ("random", {}),
    "subsample": ("subsample", {"n_scored": 30}),
    "subsample, all of a pool": ("subsample", {}),
    "exhaustive": ("exhaustive", {}),
    "margin-index": ("margin-index", {}),
    "margin-index, budget": ("margin-index", {"budget": 40, "n_clusters": 5}),
    "margin-index, near-exact": ("margin-index", {"budget": None, "confidence": 1 - 1e-9}),
    "margin-index, certain": ("margin-index", {"confidence": 1.0}),
    "margin-index, certain, on a device": ("margin-index", {"confidence": 1.0}),
    "exhaustive, on a device": ("exhaustive", {}),
    "likely-positive, on a device": ("likely-positive", {}),
    "mixture, on a device": ("mixture", {}),
    "h-hash": ("h-hash", {}),
    "h-hash, tables": ("h-hash", {**CODES, "structure": "tables"}),
    "h-hash, guaranteed": ("h-hash", {**CODES, "structure": "tables", "radius": 0.3, "epsilon": 1.0}),
    "h-hash, guaranteed, tables of their own functions": (
        "h-hash",
        {"megabytes": 1, "structure": "tables", "radius": 0.3, "epsilon": 1.0},
    ),
    "eh-hash": ("eh-hash", {}),
    "eh-hash, tables": ("eh-hash", {**CODES, "structure": "tables", "query_samples": 40}),
    "bh-hash": ("bh-hash", CODES),
    "bh-hash, tables": ("bh-hash", {**CODES, "structure": "tables"}),
    "lbh-hash": ("lbh-hash", {"n_functions": 6, "n_samples": 50}),
    "lbh-hash, tables": ("lbh-hash", {**CODES, "n_functions": 6, "n_samples": 50, "structure": "tables"}),
    "h-hash-weighted": ("h-hash-weighted", {}),
    "h-hash-weighted, table": ("h-hash-weighted", SMALL),
    "h-hash-weighted, orders": ("h-hash-weighted", {**SMALL, "structure": "orders"}),
    "h-hash-weighted, table, as in the paper": ("h-hash-weighted", {**PAPER, "measure": "disagreements"}),
    "h-hash-weighted, orders, as in the paper": ("h-hash-weighted", {**PAPER, "structure": "orders"}),
    "h-hash-weighted, scan": ("h-hash-weighted", {**SMALL, "structure": "scan"}),
    "h-hash-weighted, scan, by difference": (
        "h-hash-weighted",
        {**SMALL, "structure": "scan", "measure": "difference"},
    ),
    "h-hash-weighted, all features": ("h-hash-weighted", {**SMALL, "n_directions": None}),
    "h-hash-weighted, not centred": ("h-hash-weighted", {**SMALL, "centred": False}),
    "eh-hash-weighted": ("eh-hash-weighted", {}),
    "eh-hash-weighted, table, dense": ("eh-hash-weighted", {**SMALL, "rank": "dense"}),
    "eh-hash-weighted, orders, rank 2": ("eh-hash-weighted", {**SMALL, "rank": 2, "structure": "orders"}),
    "eh-hash-weighted, sampled query": ("eh-hash-weighted", {**PAPER, "rank": "dense", "query_samples": 40}),
    "eh-hash-weighted, few directions": ("eh-hash-weighted", {**SMALL, "n_directions": 2}),
    "eh-hash-weighted, scan": ("eh-hash-weighted", {**SMALL, "structure": "scan"}),
    "bh-hash-weighted": ("bh-hash-weighted", {}),
    "bh-hash-weighted, table": ("bh-hash-weighted", SMALL),
    "lbh-hash-weighted": ("lbh-hash-weighted", {"n_functions": 6, "n_samples": 50}),
    "lbh-hash-weighted, orders": (
        "lbh-hash-weighted",
        {**PAPER, "n_functions": 5, "n_samples": 50, "structure": "orders"},
    ),
    "lbh-hash-weighted, scan": (
        "lbh-hash-weighted",
        {**SMALL, "n_functions": 70, "n_samples": 9, "structure": "scan"},
    ),
    "bh-hash-weighted, orders": ("bh-hash-weighted", {**PAPER, "structure": "orders"}),
    "likely-positive": ("likely-positive", {}),
    "likely-positive, all scored": ("likely-positive", {"scans": True}),
    "mixture": ("mixture", {}),
    "mixture, without likely positives": ("mixture", {"margin": 0.4, "likely": 0.0, "random": 0.6}),
    "mixture, of one part": ("mixture", {"margin": 0.0, "likely": 1.0, "random": 0.0}),
    "auto": ("auto", {}),
    "auto, without exploring": ("auto", {"explores": False}),
    "density": ("density", {"shortlist": 30, "n_sampled": 100}),
    "output-change": ("output-change", {"shortlist": 30, "n_sampled": 100}),
    "variance-reduction": ("variance-reduction", {"shortlist": 30, "n_sampled": 100}),
    "disagreement": ("disagreement", {"shortlist": 30, "n_sampled": 100}),
    "typiclust": ("typiclust", {"n_sampled": 100}),
    "probcover": ("probcover", {"n_sampled": 100}),
}
assert {name for name, _ in VARIANTS.values()} == {*STRATEGIES, *CONTENDERS}


class LowestIdFirst(QueryStrategy):
    """The least that a researcher has to write."""

    name = "lowest-id"

    def choose(self, query: Query) -> Choice:
        rows = np.flatnonzero(query.allowed(self.pool_.ids))[: query.n]
        return Choice(self.pool_.ids[rows], self.reader_.margins(rows, query.plane()), scored=len(rows))


ALL = [*VARIANTS, "a researcher's own"]

OF_EACH_KIND = {
    *(name for name in ALL if "," not in name),
    "margin-index, budget",
    "margin-index, near-exact",
    "margin-index, certain, on a device",
    "exhaustive, on a device",
    "likely-positive, on a device",
    "h-hash, guaranteed",
    "bh-hash, tables",
    "h-hash-weighted, table, as in the paper",
    "h-hash-weighted, scan",
    "eh-hash-weighted, orders, rank 2",
    "eh-hash-weighted, sampled query",
    "eh-hash-weighted, few directions",
}
"""Every strategy and every structure; the other variants combine what these have, and say little new."""
assert {VARIANTS[name][0] for name in OF_EACH_KIND if name in VARIANTS} == {*STRATEGIES, *CONTENDERS}

OVER_MARGIN = {
    "margin-index",
    "likely-positive",
    "likely-positive, on a device",
    "likely-positive, all scored",
    "mixture",
    "mixture, on a device",
    "mixture, without likely positives",
    "auto",
    "auto, without exploring",
    *(name for name, kind in CONTENDERS.items() if issubclass(kind, Shortlisting)),
}
"""Those that use a margin index without a budget, with the default confidence."""

every_strategy = pytest.mark.parametrize(
    "variant", [name if name in OF_EACH_KIND else thorough(name) for name in ALL]
)

EXACT = [
    "exhaustive",
    "exhaustive, on a device",
    "subsample, all of a pool",
    "margin-index, near-exact",
    "margin-index, certain",
    "margin-index, certain, on a device",
]
"""Those that promise the nearest items there are, on pools of the sizes of this suite."""


def make(variant: str, random_state: int = 0) -> QueryStrategy:
    """A strategy of the suite, not fitted."""
    if variant not in VARIANTS:
        return LowestIdFirst(random_state=random_state)
    name, params = VARIANTS[variant]
    strategy = make_strategy(name, random_state=random_state, **params)
    if not variant.endswith("on a device"):
        return strategy
    return on_a_device(type(strategy))(random_state=random_state, **params)


@cache
def on_a_device(cls: type[QueryStrategy]) -> type[QueryStrategy]:
    """The strategy over pools that a device scans: PyTorch's own use of the CPU."""
    from closecall.core.accelerator.kept import KeptRows  # imports torch

    class OnDevice(cls):  # type: ignore[misc, valid-type]
        def _cover(self, pool: PoolRows) -> None:
            super()._cover(pool.kept_on(KeptRows(CPU)) if isinstance(pool, ArrayPool) else pool)

    return OnDevice


def nearest(variant: str) -> bool:
    """Whether the strategy looks for the nearest items, and its answer is ordered by distance."""
    others = ("random", "likely-positive", "mixture", "a researcher's own", *CONTENDERS)
    return variant.split(",")[0] not in others


def gaussian_pool(n: int, d: int = 8, *, seed: int = 0, lean: float = 1.0) -> ArrayPool:
    """Unit rows about a common direction, as GIST rows are; ids with gaps, as where items are held out."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[:, 0] += lean * np.sqrt(d)
    return ArrayPool(X, ids=5 + 3 * np.arange(n))


def sparse(pool: ArrayPool) -> ArrayPool:
    """The very same numbers as a sparse pool."""
    twin = ArrayPool(csr_array(pool.rows(np.arange(len(pool)))), ids=pool.ids)
    twin._X = csr_array(pool.rows(np.arange(len(pool))))
    return twin


def bags(n: int, d: int = 8, *, seed: int = 0) -> ArrayPool:
    """Unit rows of few positive numbers, as texts have them, in a sparse pool; ids with gaps."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.4)
    X[np.arange(n), rng.integers(0, d, n)] += 0.5
    return ArrayPool(csr_array(X), ids=5 + 3 * np.arange(n))


POOLS = [
    "dense",
    "sparse",
    thorough("byte, with workers"),
    pytest.param("float32, with workers", marks=pytest.mark.long),
]
"""Kinds of pools that the suite is run on; see `made`. Those with workers are on disk."""


def made(request: pytest.FixtureRequest, n: int, d: int = 8) -> PoolRows:
    """The pool of n items for a fixture whose parameters are `POOLS`."""
    dtype = request.param.partition(",")[0]
    if dtype in ("float32", "byte"):
        return request.getfixturevalue("helped")(n, d, dtype=dtype)
    return {"dense": gaussian_pool, "sparse": bags}[request.param](n, d)


def hyperplanes(n: int, d: int = 8, *, seed: int = 100) -> list[Hyperplane]:
    """Some that cut through such a pool and some that pass beside it."""
    rng = np.random.default_rng(seed)
    return [Hyperplane(rng.standard_normal(d), 0.7 * rng.standard_normal()) for _ in range(n)]


def labeled(n_positives: int, n_negatives: int) -> LabeledItems:
    """Labels of items, the positives first."""
    y = np.repeat([True, False], [n_positives, n_negatives])
    return LabeledItems(5 + 3 * np.arange(len(y)), y)


def dense_rows(pool: ArrayPool) -> np.ndarray:
    """All rows as an array."""
    X = pool.rows(np.arange(len(pool)))
    return X.toarray() if pool.is_sparse else X


def brute_force(pool: ArrayPool, hyperplane: Hyperplane, exclude: set[int]) -> list[tuple[float, int]]:
    """(|wᵀx + b|, id) of every item that is not excluded, the nearest first; the definition, in float64."""
    margins = [abs(hyperplane.scores(x[None])[0]) for x in dense_rows(pool)]
    pairs = zip(margins, pool.ids.tolist(), strict=True)
    return sorted((margin, item) for margin, item in pairs if item not in exclude)
