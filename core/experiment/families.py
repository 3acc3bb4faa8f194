"""The similarity families as they take part in a comparison: in which forms, fitted to what.

A family of `core.hashing.FAMILIES` takes part by being there, with its own defaults and as many functions as
are asked for. One that has several forms, or needs something first, says so in `_FORMS`: kernelized LSH comes
as published, of low rank, and with a transformed kernel [1]_, where rank and scale are chosen on queries that
nothing is measured with (`core.experiment.kernelized`); metric LSH needs a metric, which the classes teach;
spectral hashing comes as published, and with a box that leaves out the `TRIM` outermost rows at either end;
supervised hashing has no more anchors than kernelized LSH has landmarks; Min-Hash comes with sets and with
weights; boosting and deep codes learn from neighbours by distance, and from the classes.

References
----------
.. [1] K. Jiang, Q. Que, B. Kulis: Revisiting Kernelized Locality-Sensitive Hashing for Improved Large-Scale
   Image Retrieval, CVPR 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.experiment.kernelized import RANKS, SCALES, Choice, Form, choose, codes_of
from closecall.core.hashing import (
    FAMILIES,
    BoostedPSH,
    Codes,
    DeepCodes,
    KernelPCALSH,
    LearnedKernelHash,
    MetricLSH,
    MinHash,
    NystromLSH,
    SimilarityHasher,
    SpectralHash,
    SupervisedKernelHash,
)
from closecall.core.hashing.by_kernel import ByKernel
from closecall.core.hashing.klsh import KernelHasher
from closecall.core.hashing.pool import hash_rows
from closecall.core.mercer.kernel import KERNELS
from closecall.core.metric import ITML, Constraints, Metric
from closecall.core.numerics.rows import Rows, is_sparse
from closecall.core.pool.pool import Pool

FITTED_TO = 20_000
"""Rows of the pool, at most, that families are fitted to and ranks and scales chosen on."""

MOST_PAIRS = 2_000
"""What a metric is learned from at most; as many classes as there may be, it takes no longer."""

MOST_LABELS = 400
"""So many sparse rows are paired: an implicit metric takes the square of their number for each pair."""

MAX_PASSES = 200

TRIM = 0.01
"""A share of the rows."""

N_ANCHORS = 300
"""Of supervised hashing, as published."""

SHARED = frozenset({"angle", "overlap", "weighted overlap", *KERNELS})
"""Yardsticks that are the same for all who are held to them, whatever is drawn."""

Make = Callable[[int], SimilarityHasher]
"""Gives a family of so many functions, not fitted."""


@dataclass(frozen=True, eq=False)
class Draw:
    """What the families of one draw are made with, and fitted to.

    Parameters
    ----------
    seed : int
        Of whatever a family draws.
    sample : array or csr_array of shape (n_rows, n_features)
        Rows of the pool.
    truth : array of shape (n_rows,), int16
        Their classes, −1 where unknown.
    choosing : array or csr_array of shape (n_choosing, n_features)
        Queries by which ranks and scales are chosen.
    kernel : str
        See `core.mercer.kernel.kernel_from`.
    n_landmarks : int
        m of kernelized LSH.
    share : float
        R of the recall by which is chosen, as a share of the rows.
    """

    seed: int
    sample: Rows
    truth: NDArray[np.int16]
    choosing: Rows
    kernel: str
    n_landmarks: int
    share: float

    @classmethod
    def of(
        cls, pool: Pool, choosing: Rows, *, kernel: str, n_landmarks: int, share: float, seed: int
    ) -> Self:
        """With up to `FITTED_TO` rows of the pool, drawn at random, and all that is known of classes."""
        rng = np.random.default_rng([seed, 1])
        rows = np.sort(rng.choice(len(pool), min(FITTED_TO, len(pool)), replace=False))
        return cls(
            seed=seed,
            sample=pool.rows(rows),
            truth=pool.truth(pool.ids[rows]),
            choosing=choosing,
            kernel=kernel,
            n_landmarks=n_landmarks,
            share=share,
        )

    def fitted(self, make: Make, n_functions: int) -> SimilarityHasher:
        """A family of so many functions, fitted to the sample; to its classes, if any are known."""
        labels = self.truth if (self.truth >= 0).any() else None
        return make(n_functions).fit(self.sample, labels)

    @cached_property
    def published(self) -> Choice:
        """The forms of kernelized LSH seen from the origin."""
        return self._chosen(centred=False)

    @cached_property
    def centred(self) -> Choice:
        """The forms seen from the mean."""
        return self._chosen(centred=True)

    @cached_property
    def metric(self) -> Metric:
        """Learned from pairs of the sample's classes.

        Raises
        ------
        InputError
            If fewer than two classes are known.
        """
        truth = self.truth.copy()
        if is_sparse(self.sample):
            known = np.random.default_rng([self.seed, 3]).permutation(np.flatnonzero(truth >= 0))
            truth[known[MOST_LABELS:]] = -1
        n_classes = len(np.unique(truth[truth >= 0]))
        n_pairs = min(max(20 * n_classes**2, 200), MOST_PAIRS)
        pairs = Constraints.from_labels(self.sample, truth, n_pairs=n_pairs, random_state=self.seed)
        return ITML(max_passes=MAX_PASSES, random_state=self.seed).fit(self.sample, pairs).metric_

    @property
    def landmarks(self) -> dict[str, Any]:
        """Parameters that all kernelized forms share."""
        return {"n_landmarks": self.n_landmarks, "random_state": self.seed}

    def _chosen(self, *, centred: bool) -> Choice:
        return choose(
            self.kernel,
            self.sample,
            self.choosing,
            share=self.share,
            ranks=[rank for rank in RANKS if rank < self.n_landmarks],
            scales=SCALES,
            centred=centred,
            **self.landmarks,
        )


def families_named(names: Sequence[str]) -> tuple[str, ...]:
    """The families of these names, each once; all families where there is no name.

    Raises
    ------
    InputError
        If there is no such family.
    """
    for name in names:
        if name not in FAMILIES:
            raise InputError(f"a family is one of {', '.join(FAMILIES)}, got {name!r}")
    return tuple(dict.fromkeys(names or FAMILIES))


def forms_of(name: str, draw: Draw) -> dict[str, Make]:
    """The forms in which the family `name` takes part; "" is the name of an only one.

    Raises
    ------
    InputError
        If there is no such family, or it does not apply to the rows.
    """
    families_named([name])
    if name in _FORMS:
        return _FORMS[name](draw)
    family = FAMILIES[name]
    return {"": lambda n: family(n_functions=n, random_state=draw.seed)}


def codes_of_pool(families: Sequence[SimilarityHasher], pool: Pool) -> list[Codes]:
    """The codes of all rows by each of some fitted families of one form, which differ in their length."""
    kernelized = [family for family in families if isinstance(family, KernelHasher)]
    if kernelized and len(kernelized) == len(families):
        return codes_of(kernelized, pool.blocks(), len(pool))
    return [hash_rows(family, pool.blocks(), len(pool), lambda _: None) for family in families]


def yardstick(family: SimilarityHasher) -> str:
    """What the neighbours that a family looks for are nearest by, in a word."""
    if family.estimates == "angle" or family.by_angle:
        return "angle" if getattr(family, "metric", None) is None else "learned metric"
    if isinstance(family, MinHash):
        return "weighted overlap" if family.weighted else "overlap"
    return family.orders_by if isinstance(family, ByKernel) else family.name


def _kernelized(draw: Draw) -> dict[str, Make]:
    published = draw.published
    return {
        "original": _make(draw, published.plain),
        "low rank": _make(draw, published.low_rank),
        "low rank, transformed": _make(draw, published.transformed),
        "low rank, from the mean": _make(draw, draw.centred.low_rank),
    }


def _principal(draw: Draw) -> dict[str, Make]:
    return {"low rank": _make(draw, replace(draw.published.low_rank, family=KernelPCALSH))}


def _nystrom(draw: Draw) -> dict[str, Make]:
    return {
        "full rank": _make(draw, replace(draw.published.plain, family=NystromLSH)),
        "low rank": _make(draw, replace(draw.published.low_rank, family=NystromLSH)),
    }


def _learned(draw: Draw) -> dict[str, Make]:
    metric = draw.metric
    return {"": lambda n: MetricLSH(metric=metric, n_functions=n, random_state=draw.seed)}


def _spectral(draw: Draw) -> dict[str, Make]:
    return {
        "original": lambda n: SpectralHash(n_functions=n, random_state=draw.seed),
        "trimmed": lambda n: SpectralHash(trim=TRIM, n_functions=n, random_state=draw.seed),
    }


def _supervised(family: type[SupervisedKernelHash]) -> Callable[[Draw], dict[str, Make]]:
    def forms(draw: Draw) -> dict[str, Make]:
        n_classes = len(np.unique(draw.truth[draw.truth >= 0]))
        if n_classes < 2:
            raise InputError(f"{family.name} learns from labels of at least two classes, got {n_classes}")
        n_anchors = min(N_ANCHORS, draw.n_landmarks)
        return {"": lambda n: family(n_anchors=n_anchors, n_functions=n, random_state=draw.seed)}

    return forms


def _taught(family: type[BoostedPSH | DeepCodes]) -> Callable[[Draw], dict[str, Make]]:
    """Forms by what makes rows neighbours."""

    def forms(draw: Draw) -> dict[str, Make]:
        return {
            "by distance": lambda n: family(n_functions=n, random_state=draw.seed),
            "by class": lambda n: family(neighbours="class", n_functions=n, random_state=draw.seed),
        }

    return forms


def _sets(draw: Draw) -> dict[str, Make]:
    MinHash(n_functions=1, random_state=draw.seed).fit(draw.sample)  # says why, where rows are no sets
    return {
        "sets": lambda n: MinHash(n_functions=n, random_state=draw.seed),
        "weighted": lambda n: MinHash(weighted=True, n_functions=n, random_state=draw.seed),
    }


def _make(draw: Draw, form: Form) -> Make:
    return lambda n: form.hasher(n_functions=n, **draw.landmarks)


_FORMS: dict[str, Callable[[Draw], dict[str, Make]]] = {
    MetricLSH.name: _learned,
    "klsh": _kernelized,
    KernelPCALSH.name: _principal,
    NystromLSH.name: _nystrom,
    SpectralHash.name: _spectral,
    SupervisedKernelHash.name: _supervised(SupervisedKernelHash),
    LearnedKernelHash.name: _supervised(LearnedKernelHash),
    MinHash.name: _sets,
    BoostedPSH.name: _taught(BoostedPSH),
    DeepCodes.name: _taught(DeepCodes),
}
