"""Estimate the time to build codes and the structures that search them.

The work of each family is counted in operations of a few kinds, such as products of matrices or values of the
χ² kernel. The machine's speed at each kind is measured once per process, on a small sample (`Speeds`); the
measurements take about 0.1 s together. Estimates are therefore cheap, and apply to this machine. They allow
for the load of other programs (`crowding`). They are rough, because rows may be read from a slow disk, and
training may converge early. If building codes took `MEASURABLE` seconds or more, the measured time corrects
later estimates for the same family (`Paces`).

For the families in the table of `docs/benchmarks-similar.md` (a million rows of GIST, 128 bits, one thread),
uncorrected estimates were 0.8 to 2.6 times the measured building time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import log2
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, random_array

from closecall.app.indexes.recipe import Recipe
from closecall.app.indexes.settings import LANDMARKS
from closecall.core.hashing import (
    FAMILIES,
    BoostedPSH,
    DeepCodes,
    LearnedKernelHash,
    MinHash,
    ShiftInvariantHash,
    SpectralHash,
    SupervisedKernelHash,
)
from closecall.core.hashing import nca as tuning
from closecall.core.hashing import rbm as pretraining
from closecall.core.hashing.base import BLOCK_ROWS
from closecall.core.hashing.pool import fit_rows
from closecall.core.mercer import ChiSquared, Intersection, Kernel
from closecall.core.metric.validation import FOLDS, GAMMAS
from closecall.core.numerics.blas import operations_per_second
from closecall.core.numerics.rows import as_sparse, products
from closecall.core.pool.pool import Pool
from closecall.core.search import BucketTables, HammingBall, HashTable, PermutedOrders

MEASURABLE = 1.0
"""Building times of at least this many seconds correct later estimates. Shorter times are mostly overhead."""

_CODING = 2.0
"""For families without a kernel: time to code a row, divided by the time of the operations that are counted.

The rest of the time is spent on reading the row and packing its bits.
"""

_EIGEN = 25
"""Cost of the eigendecomposition of an n × n matrix: number of operations in "products", divided by n³."""

_PASSES = 30
"""Usual number of passes over the pairs when a kernel is learned; the maximum is 200."""

_VALIDATION = 3.5
"""Cost of learning the kernels that cross-validation compares, divided by the cost of the final kernel.

With equally many pairs, it would be about 7 (see `core.metric.validation`), and a fold has half as many.
"""

_SINGULAR = 160
"""Operations of a truncated singular value decomposition of n sparse rows in k directions, divided by n k².

On sets of local edges (2,048 rows), 64 directions took 1.4 s and 256 directions took 22 s.
"""


@dataclass(frozen=True)
class Shape:
    """The size of a pool and of its training set, on which the building time depends.

    Parameters
    ----------
    n_rows, n_features : int
        Numbers of rows and features of the pool.
    n_nonzero : float or None
        Mean number of non-zero features per row; None if rows are dense.
    n_labels : int
        Number of answers that a family may learn from.
    """

    n_rows: int
    n_features: int
    n_nonzero: float | None = None
    n_labels: int = 0

    @classmethod
    def of(cls, pool: Pool, n_labels: int = 0) -> Shape:
        """Return the shape of a pool; non-zero features are counted in a sample of its rows."""
        nonzero = None
        if pool.is_sparse:
            sample = np.linspace(0, len(pool) - 1, min(len(pool), 256)).astype(np.int64)
            nonzero = as_sparse(pool.rows(sample)).nnz / max(1, len(sample))
        return cls(len(pool), pool.n_features, nonzero, n_labels)


class Speeds:
    """Operations per second on one thread, by kind; each speed is measured when it is first needed."""

    def __init__(self) -> None:
        self._known: dict[str, float] = {}

    def of(self, kind: str) -> float:
        """Return the speed at one kind of operation, in operations per second.

        The kinds, with the operation that is counted for each:

        - "products": an addition or a multiplication in a product of dense matrices;
        - "sparse": an addition or a multiplication in a product of sparse rows with a dense matrix;
        - "waves": a cosine or an exponential;
        - "chi2" and "intersection": a feature's term in a value of this kernel;
        - "minima" and "weighted minima": a Min-Hash function of one feature of a row;
        - "new minima" and "new weighted minima": the extra work when a feature first occurs in a block;
        - "sorting": an entry times log₂ of the number of entries;
        - "counting": an entry counted in a bin.
        """
        if kind not in self._known:
            self._known[kind] = _MEASURED[kind]()
        return self._known[kind]


def _timed(n_operations: float, work: Callable[[], object]) -> float:
    """Return the operations per second in the faster of two runs.

    An earlier run, which is not timed, loads compiled code.
    """
    work()
    seconds = []
    for _ in range(2):
        start = perf_counter()
        work()
        seconds.append(perf_counter() - start)
    return n_operations / max(min(seconds), 1e-9)


def _drawn(n: int, d: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).random((n, d), dtype=np.float32)


def _some_sparse(n: int, d: int, density: float) -> csr_array:
    made = random_array((n, d), density=density, rng=np.random.default_rng(0), dtype=np.float32)
    return as_sparse(made.tocsr())


def _of_sparse() -> float:
    X, vectors = _some_sparse(256, 1_000, 0.06), _drawn(1_000, 64)
    return _timed(2 * 64 * X.nnz, lambda: products(X, vectors))


def _of_waves() -> float:
    turns = _drawn(2**17, 1)
    return _timed(turns.size, lambda: np.cos(turns))


def _of_terms(kernel: Kernel) -> float:
    A, B = _drawn(256, 128), _drawn(64, 128)
    return _timed(A.size * len(B), lambda: kernel.values(A, B))


def _of_minima(*, weighted: bool, are_new: bool = False) -> float:
    """Measure the speed of Min-Hash on rows that share many features or, with `are_new`, few features.

    A feature's hash values are computed once per block of rows, so rows without common features take longer.
    """
    X = _some_sparse(64, 50_000, 0.001) if are_new else _some_sparse(512, 64, 0.5)
    family = MinHash(weighted=weighted, n_functions=64).fit(X)
    return _timed(64 * X.nnz, lambda: family.hash_points(X))


def _of_sorting() -> float:
    keys = np.random.default_rng(0).integers(0, 2**63, 2**16, dtype=np.uint64)
    return _timed(len(keys) * 16, lambda: np.sort(keys))


def _of_counting() -> float:
    bins, weights = np.arange(2**16) % 100, np.ones(2**16)
    return _timed(len(bins), lambda: np.bincount(bins, weights, 100))


_MEASURED: dict[str, Callable[[], float]] = {
    "products": operations_per_second,
    "sparse": _of_sparse,
    "waves": _of_waves,
    "chi2": lambda: _of_terms(ChiSquared()),
    "intersection": lambda: _of_terms(Intersection()),
    "minima": lambda: _of_minima(weighted=False),
    "weighted minima": lambda: _of_minima(weighted=True),
    "new minima": lambda: _of_minima(weighted=False, are_new=True),
    "new weighted minima": lambda: _of_minima(weighted=True, are_new=True),
    "sorting": _of_sorting,
    "counting": _of_counting,
}

SPEEDS = Speeds()
"""The speeds of this machine."""


@dataclass(frozen=True)
class BuildTime:
    """An estimate of building times on this machine, in seconds.

    Parameters
    ----------
    codes : float
        Time to fit the family and code all rows.
    structure : float
        Time to build the structure over the codes.
    """

    codes: float
    structure: float


def crowding() -> float:
    """Return the factor by which other work slows this machine down: 1 plus last minute's load per core."""
    if not hasattr(os, "getloadavg"):  # Windows
        return 1.0
    return 1 + float(os.getloadavg()[0]) / (os.cpu_count() or 1)


def build_time(
    recipe: Recipe,
    shape: Shape,
    n_tables: int = 1,
    *,
    crowded: float | None = None,
    speeds: Speeds = SPEEDS,
) -> BuildTime:
    """Estimate the time to build the codes and the structure of a recipe.

    Rows are coded on all cores; everything else takes one core.

    Parameters
    ----------
    recipe : Recipe
        The settings.
    shape : Shape
        The size of the pool, and the number of labels.
    n_tables : int
        Number of bucket tables or permuted orders.
    crowded : float or None
        Factor from an earlier call of `crowding`; None for the current factor.
    speeds : Speeds
        The speeds of the machine.
    """
    work = _Work(recipe, shape, speeds)
    more = 1.0 if recipe.applies("landmarks") else _CODING
    coding = more * work.of_a_row() * shape.n_rows / (os.cpu_count() or 1)
    slower = crowding() if crowded is None else crowded
    return BuildTime(slower * (work.of_fitting() + coding), slower * work.of_structure(n_tables))


def trial_time(
    recipe: Recipe, shape: Shape, n_trials: int, *, crowded: float | None = None, speeds: Speeds = SPEEDS
) -> float:
    """Estimate the seconds that `n_trials` trials of kernelized codes take on a small pool.

    Each trial fits the family to the pool and hashes all rows. The kernel is computed once for all trials
    (`core.hashing.klsh.hash_together`). See `build_time` for the other parameters.
    """
    slower = crowding() if crowded is None else crowded
    return slower * _Work(recipe, shape, speeds).of_trials(n_trials)


class Paces:
    """Ratios of measured to estimated time for building codes, by the family's name."""

    def __init__(self) -> None:
        self._paces: dict[str, float] = {}

    def learn(self, recipe: Recipe, estimated: float, seconds: float) -> None:
        """Store the ratio of measured to estimated time, if the build took `MEASURABLE` seconds or more."""
        if seconds >= MEASURABLE and estimated > 0:
            self._paces[recipe.family] = seconds / estimated

    def corrected(self, recipe: Recipe, estimate: BuildTime) -> BuildTime:
        """Return the estimate, with the time for codes multiplied by the family's last stored ratio."""
        return BuildTime(estimate.codes * self._paces.get(recipe.family, 1.0), estimate.structure)


class _Work:
    """The seconds that each part of a build takes on one thread."""

    def __init__(self, recipe: Recipe, shape: Shape, speeds: Speeds) -> None:
        self._recipe, self._shape, self._speeds = recipe, shape, speeds
        self._k = int(recipe.value("functions"))
        self._sample = len(fit_rows(shape.n_rows))
        self._landmarks = recipe.landmarks or min(LANDMARKS, self._sample)

    def of_a_row(self) -> float:
        """Return the seconds to code one row."""
        shape, k = self._shape, self._k
        match self._recipe.family:
            case SpectralHash.name:
                return self._projected(min(k, shape.n_features)) + self._taking("waves", k)
            case ShiftInvariantHash.name:
                return self._projected(k) + self._taking("waves", k)
            case MinHash.name:
                nonzero = shape.n_nonzero or 1
                new = min(nonzero, shape.n_features / BLOCK_ROWS)
                return self._taking(self._minima, nonzero * k) + self._taking(f"new {self._minima}", new * k)
            case BoostedPSH.name:
                return self._taking("waves", k)
            case DeepCodes.name:
                return self._taking("products", 2 * self._n_weights) + self._taking("waves", self._n_units)
        if not self._recipe.applies("landmarks"):
            return self._projected(k)
        m = self._n_points
        return self._kernel(m) + self._taking("products", 2 * m * k)

    def of_fitting(self) -> float:
        """Return the seconds to fit the family to its sample of rows, and to the labels."""
        n, d, k, labels = self._sample, self._shape.n_features, self._k, self._shape.n_labels
        match self._recipe.family:
            case SpectralHash.name:
                if self._shape.n_nonzero is not None:
                    return self._taking("counting", _SINGULAR * min(n, d) * min(k, n, d) ** 2)
                edges = self._taking("sorting", d * n * log2(max(n, 2)))
                return self._taking("products", 4 * n * d * d + _EIGEN * d**3 + 2 * n * d * d) + edges
            case ShiftInvariantHash.name:
                asked = min(n, 1_000)
                return asked * self._projected(n) * 2 + self._taking("counting", asked * n * 4)
            case BoostedPSH.name:
                pairs = BoostedPSH().n_pairs
                near = 0.0 if self._recipe.learns else self._taking("products", 2 * d * n * min(n, pairs / 2))
                return near + self._taking("counting", 3 * pairs * d * k)
            case DeepCodes.name:
                return self._of_network(labels if self._recipe.learns else n)
            case SupervisedKernelHash.name | LearnedKernelHash.name:
                return self._of_supervised(labels)
        if not self._recipe.applies("landmarks"):
            return n * self._projected(1)
        m = self._landmarks
        return m * self._kernel(m) + self._taking("products", _EIGEN * m**3)

    def of_trials(self, n_trials: int) -> float:
        """Return the seconds to fit and code all rows `n_trials` times, with the same kernel values."""
        n, m, k = self._shape.n_rows, self._landmarks, self._k
        a_trial = self._taking("products", _EIGEN * m**3 + 2 * n * m * k) + m * self._kernel(m)
        return n * self._kernel(m) + n_trials * a_trial

    def of_structure(self, n_tables: int) -> float:
        """Return the seconds to build the structure."""
        n, structure = self._shape.n_rows, self._recipe.structure
        n_sorts = {BucketTables.name: n_tables, PermutedOrders.name: n_tables}.get(structure, 0)
        if structure in (HashTable.name, HammingBall.name):
            n_sorts = 2
        return n_sorts * self._taking("sorting", n * log2(max(n, 2)))

    def _taking(self, kind: str, n_operations: float) -> float:
        return n_operations / self._speeds.of(kind)

    def _projected(self, k: float) -> float:
        """Return the seconds to compute `k` inner products with a row."""
        if self._shape.n_nonzero is None:
            return self._taking("products", 2 * self._shape.n_features * k)
        return self._taking("sparse", 2 * self._shape.n_nonzero * k)

    def _kernel(self, m: float) -> float:
        """Return the seconds to compute `m` kernel values of a row."""
        word = self._recipe.value("kernel") or "rbf"
        flat = next((kind for kind in ("chi2", "intersection") if word.startswith(kind)), None)
        terms = m * self._shape.n_features
        values = self._taking(flat, terms) if flat else self._taking("products", 2 * terms)
        is_transformed = self._recipe.own_form.has_scale or word.startswith("rbf")
        return values + (self._taking("waves", m) if is_transformed else 0.0)

    def _of_supervised(self, labels: int) -> float:
        k, m = self._k, self._n_points
        family = FAMILIES[self._recipe.family]()
        assert isinstance(family, SupervisedKernelHash)
        seconds = self._of_spectral_start(self._sample + labels, labels)
        # A product of a matrix with a vector reads each entry once, so memory bandwidth limits its speed.
        seconds += self._taking("counting", k * family.n_steps * labels * (m + k) / 2)
        if isinstance(family, LearnedKernelHash):
            c = min(family.n_constrained, labels)
            kernel = self._taking("counting", _PASSES * min(family.n_pairs, labels**2) * c * c / 4)
            n_fold = labels * (FOLDS - 1) // FOLDS
            a_fold = self._of_spectral_start(n_fold, n_fold)
            seconds += (1 + _VALIDATION) * kernel + FOLDS * len(GAMMAS) * a_fold
        return seconds

    def _of_spectral_start(self, n_rows: int, labels: int) -> float:
        m = self._n_points
        return n_rows * self._kernel(m) + self._taking("products", 4 * labels * m * m + _EIGEN * m**3)

    def _of_network(self, n_taught: int) -> float:
        family = DeepCodes()
        batch, many = pretraining.BATCH, tuning.BATCH
        steps = min(family.n_steps, family.most_passes * pretraining.n_batches(self._sample, batch))
        tunings = min(family.n_tuning, family.most_passes * pretraining.n_batches(n_taught, many))
        many = min(many, n_taught)
        learned = self._taking("products", 2 * (4 * steps * batch + 3 * tunings * many) * self._n_weights)
        pairs = tunings * many * many
        d = self._shape.n_features + 3 * self._k
        units = (3 * steps * batch + 2 * tunings * many) * self._n_units
        return (
            learned + self._taking("products", 2 * pairs * d) + self._taking("waves", 4 * pairs + 2 * units)
        )

    @property
    def _n_points(self) -> int:
        """Number of points with which the kernel compares a row."""
        learned = LearnedKernelHash().n_constrained if self._recipe.family == LearnedKernelHash.name else 0
        return int(self._landmarks) + min(learned, max(self._shape.n_labels, 1) if learned else 0)

    @property
    def _minima(self) -> str:
        return "weighted minima" if self._recipe.own_form.params.get("weighted") else "minima"

    @property
    def _n_units(self) -> int:
        return sum(DeepCodes().layers) + self._k

    @property
    def _n_weights(self) -> int:
        """Number of weights of a deep network."""
        sizes = (self._shape.n_features, *DeepCodes().layers, self._k)
        return sum(below * above for below, above in pairwise(sizes))
