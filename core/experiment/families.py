"""Hash families for similarity, in the forms that experiments compare, and the rows to fit them to.

A form is a named set of parameters. Every family of `core.hashing.FAMILIES` is compared in each of its forms
(`core.hashing.forms`), with the requested number of functions. The families in `_FORMS` need some
preparation:

- Kernelized LSH is compared in the forms of `_KERNELIZED`. Rank and scale are chosen on separate validation
  queries (`core.experiment.kernelized`).
- Metric LSH uses a metric learned from the classes. The slack parameter γ is chosen by cross-validation over
  the labeled rows.
- Supervised hashing has at most as many anchors as kernelized LSH has landmarks. The slack parameter γ of a
  learned kernel is also chosen by cross-validation.
- Min-Hash is compared only if rows are sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.experiment.kernelized import RANKS, SCALES, Choice, Form, Trials, choose, codes_of
from closecall.core.experiment.slack import MAX_PASSES, validated_kernel, validated_metric
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
    RandomHyperplaneLSH,
    SimilarityHasher,
    SupervisedKernelHash,
)
from closecall.core.hashing.by_kernel import ByKernel
from closecall.core.hashing.forms import form_named, forms_named
from closecall.core.hashing.klsh import KernelHasher, KernelizedLSH
from closecall.core.hashing.pool import hash_rows
from closecall.core.mercer.kernel import KERNELS, Kernel, Transformed
from closecall.core.metric import ITML, Constraints, Metric
from closecall.core.numerics.rows import Rows, is_sparse
from closecall.core.pool.pool import Pool

FITTED_TO = 20_000
"""Maximum number of rows to fit families to, and to choose ranks and scales on."""

MOST_PAIRS = 2_000
"""Maximum number of pairs that a metric is learned from, for any number of classes."""

MOST_LABELS = 400
"""Maximum number n of sparse rows to form pairs from. An implicit metric takes n² operations per pair."""

N_ANCHORS = 300
"""Number of anchors of supervised hashing, as published."""

SHARED = frozenset({"angle", "overlap", "weighted overlap", *KERNELS})
"""Measures of similarity that are the same for all hash families and draws."""


class Lesson(NamedTuple):
    """Numbers of labels and pairs that a supervised family learns from; the same in each `Draw`.

    Parameters
    ----------
    labels : int
        Number of labels that the family is given.
    pairs : int or None
        Maximum number of pairs that the family forms from labels; None if it learns without pairs.
    paired : int or None
        Number of labels from which these pairs are drawn.
    """

    labels: int
    pairs: int | None = None
    paired: int | None = None


class LearnedFromClasses(NamedTuple):
    """A metric learned from classes, and its slack parameter γ, which was chosen by cross-validation."""

    metric: Metric
    gamma: float


Make = Callable[[int], SimilarityHasher]
"""A function that returns an unfitted family with a given number of functions."""


@dataclass(frozen=True, eq=False)
class Draw:
    """Seed, sample and parameters for one repetition of a comparison of hash families.

    A comparison is repeated in several draws, each with its own random choices.

    Parameters
    ----------
    seed : int
        Seed of all random choices of a family.
    sample : array or csr_array of shape (n_rows, n_features)
        Rows of the pool that families are fitted to.
    truth : array of shape (n_rows,), int16
        Classes of these rows, −1 where unknown.
    choosing : array or csr_array of shape (n_choosing, n_features)
        Queries used to choose ranks and scales.
    kernel : str or Kernel
        Kernel of kernelized families; see `core.mercer.kernel.kernel_from`.
    n_landmarks : int
        Number of landmarks of kernelized families.
    share : float
        Ranks and scales are chosen by recall@R, where R is this share of the number of rows.
    """

    seed: int
    sample: Rows
    truth: NDArray[np.int16]
    choosing: Rows
    kernel: str | Kernel
    n_landmarks: int
    share: float

    @classmethod
    def of(
        cls,
        pool: Pool,
        choosing: Rows,
        *,
        kernel: str | Kernel,
        n_landmarks: int,
        share: float = 1e-4,
        seed: int,
        n_sample: int = FITTED_TO,
        n_labels: int | None = None,
    ) -> Self:
        """Draw the sample at random.

        Parameters
        ----------
        pool : Pool
            The pool to draw from.
        choosing, kernel, n_landmarks, share, seed
            See `Draw`.
        n_sample : int
            Number of rows to draw; all rows, if the pool has fewer.
        n_labels : int, optional
            Number of rows of known class in the sample. These rows are drawn at random; the class of all
            other rows is set to unknown. By default, no class is removed.

        Raises
        ------
        InputError
            If fewer than `n_labels` rows of the sample are of known class.
        """
        rng = np.random.default_rng([seed, 1 if n_labels is None else 5])
        rows = np.sort(rng.choice(len(pool), min(n_sample, len(pool)), replace=False))
        truth = pool.truth(pool.ids[rows])
        if n_labels is not None:
            known = rng.permutation(np.flatnonzero(truth >= 0))
            if len(known) < n_labels:
                raise InputError(
                    f"{n_labels:,} labels are to be learned from, and the classes of {len(known):,} are "
                    f"known among the {len(rows):,} rows that families are fitted to"
                )
            truth = truth.copy()
            truth[known[n_labels:]] = -1
        return cls(
            seed=seed,
            sample=pool.rows(rows),
            truth=truth,
            choosing=choosing,
            kernel=kernel,
            n_landmarks=n_landmarks,
            share=share,
        )

    def taught(self, n_labels: int) -> Self:
        """Return a copy of this draw with at most `n_labels` rows of known class, drawn at random."""
        known = np.random.default_rng([self.seed, 6]).permutation(np.flatnonzero(self.truth >= 0))
        truth = self.truth.copy()
        truth[known[n_labels:]] = -1
        return replace(self, truth=truth)

    def fitted(self, make: Make, n_functions: int) -> SimilarityHasher:
        """Make a family and fit it to the sample, and to the classes of the sample if any are known."""
        labels = self.truth if (self.truth >= 0).any() else None
        return make(n_functions).fit(self.sample, labels)

    @cached_property
    def published(self) -> Choice:
        """Forms of kernelized LSH that measure angles from the origin, as published."""
        return self.chosen(centred=False)

    @cached_property
    def centred(self) -> Choice:
        """Forms of kernelized LSH that measure angles from the mean of the landmarks."""
        return self.chosen(centred=True)

    @cached_property
    def learned(self) -> LearnedFromClasses:
        """The metric learned from pairs of labeled rows of the sample, and its slack parameter γ.

        Raises
        ------
        InputError
            If fewer than two classes are known.
        """
        truth = self.truth.copy()
        if is_sparse(self.sample):
            known = np.random.default_rng([self.seed, 3]).permutation(np.flatnonzero(truth >= 0))
            truth[known[MOST_LABELS:]] = -1
        n_pairs = metric_pairs(len(np.unique(truth[truth >= 0])))
        pairs = Constraints.from_labels(self.sample, truth, n_pairs=n_pairs, random_state=self.seed)
        known = np.flatnonzero(truth >= 0)
        gamma = validated_metric(self.sample[known], truth[known], n_pairs=n_pairs // 2, seed=self.seed).gamma
        itml = ITML(gamma=gamma, max_passes=MAX_PASSES, random_state=self.seed)
        return LearnedFromClasses(itml.fit(self.sample, pairs).metric_, gamma)

    @property
    def n_anchors(self) -> int:
        """Number of anchors of supervised hashing."""
        return min(N_ANCHORS, self.n_landmarks)

    @cached_property
    def kernel_gamma(self) -> float:
        """Slack parameter γ of a learned kernel, chosen by cross-validation over the rows of known class."""
        known = np.flatnonzero(self.truth >= 0)
        return validated_kernel(
            self.sample[known], self.truth[known], n_anchors=self.n_anchors, seed=self.seed
        ).gamma

    def lesson(self, name: str) -> Lesson | None:
        """Return the numbers of labels and pairs that a family learns from in this draw; see `lesson_of`."""
        known = self.truth[self.truth >= 0]
        return lesson_of(name, len(known), len(np.unique(known)), sparse=is_sparse(self.sample))

    @property
    def landmarks(self) -> dict[str, Any]:
        """Parameters that all kernelized families share in this draw."""
        return {"n_landmarks": self.n_landmarks, "random_state": self.seed}

    def chosen(self, *, centred: bool, **params: Any) -> Choice:
        """Choose rank and scale of kernelized LSH; `params` are further parameters of the family."""
        return choose(
            self.kernel,
            self.sample,
            self.choosing,
            share=self.share,
            ranks=[rank for rank in RANKS if rank < self.n_landmarks],
            scales=SCALES,
            centred=centred,
            **self.landmarks,
            **params,
        )

    def trials(self, **params: Any) -> Trials:
        """Return trials of forms of kernelized LSH; `params` are further parameters of the family."""
        return Trials(self.kernel, self.sample, self.choosing, self.share, {**self.landmarks, **params})


def families_named(names: Sequence[str]) -> tuple[str, ...]:
    """Check names of families, and return them without repetitions. If `names` is empty, return all names.

    Raises
    ------
    InputError
        If a name is not the name of a family.
    """
    for name in names:
        if name not in FAMILIES:
            raise InputError(f"a family is one of {', '.join(FAMILIES)}, got {name!r}")
    return tuple(dict.fromkeys(names or FAMILIES))


def forms_of(name: str, draw: Draw) -> dict[str, Make]:
    """Return a dict of the forms of a family to compare.

    Keys are the names of the forms, and values are functions that make the family in this form. If a family
    has only one form, the name of this form is "".

    Raises
    ------
    InputError
        If there is no such family, or it does not apply to the rows.
    """
    families_named([name])
    if name in _FORMS:
        return _FORMS[name](draw)
    family = FAMILIES[name]
    if family is RandomHyperplaneLSH:
        return {"": lambda n: family(n_functions=n, random_state=draw.seed)}
    return _plain(family, draw)


def metric_pairs(n_classes: int) -> int:
    """Return the maximum number of pairs for a metric: 20 c² for c classes, clipped to 200 … `MOST_PAIRS`."""
    return min(max(20 * n_classes**2, 200), MOST_PAIRS)


def lesson_of(name: str, n_labels: int, n_classes: int, *, sparse: bool) -> Lesson | None:
    """Return the numbers of labels and pairs that a family learns from; None if it uses no labels.

    Parameters
    ----------
    name : str
        Name of the family.
    n_labels, n_classes : int
        Number of rows of known class, and number of different classes among them.
    sparse : bool
        Whether rows are sparse.
    """
    if name == MetricLSH.name:
        return Lesson(n_labels, metric_pairs(n_classes), min(n_labels, MOST_LABELS) if sparse else n_labels)
    if name == LearnedKernelHash.name:
        kernel = LearnedKernelHash()
        return Lesson(n_labels, kernel.n_pairs, min(n_labels, kernel.n_constrained))
    if name == BoostedPSH.name:
        return Lesson(n_labels, BoostedPSH().n_pairs, n_labels)
    return Lesson(n_labels) if name in (SupervisedKernelHash.name, DeepCodes.name) else None


def codes_of_pool(families: Sequence[SimilarityHasher], pool: Pool) -> list[Codes]:
    """Hash all rows of a pool by fitted families that differ only in the number of functions."""
    kernelized = [family for family in families if isinstance(family, KernelHasher)]
    if kernelized and len(kernelized) == len(families):
        return codes_of(kernelized, pool.blocks(), len(pool))
    return [hash_rows(family, pool.blocks(), len(pool), lambda _: None) for family in families]


def yardstick(family: SimilarityHasher) -> str:
    """Return the name of the measure of similarity that a family approximates."""
    if family.estimates == "angle" or family.by_angle:
        return "angle" if getattr(family, "metric", None) is None else "learned metric"
    if isinstance(family, MinHash):
        return "weighted overlap" if family.weighted else "overlap"
    return family.orders_by if isinstance(family, ByKernel) else family.name


def chosen_for(family: SimilarityHasher, draw: Draw) -> dict[str, float]:
    """Return the parameters of a family that were chosen on data: "rank", "scale" or "gamma"."""
    rank, kernel = getattr(family, "rank", None), getattr(family, "kernel", None)
    chosen = {} if rank is None else {"rank": float(rank)}
    if isinstance(kernel, Transformed):
        chosen["scale"] = kernel.scale
    if isinstance(family, MetricLSH):
        chosen["gamma"] = draw.learned.gamma
    if isinstance(family, LearnedKernelHash):
        chosen["gamma"] = draw.kernel_gamma
    return chosen


def _kernelized(family: type[KernelHasher]) -> Callable[[Draw], dict[str, Make]]:
    def chosen(draw: Draw, name: str) -> Form:
        form = form_named(family.name, name)
        choice = draw.published if form.params else draw.centred
        if form.has_scale:
            return choice.transformed
        return choice.low_rank if form.has_rank else choice.plain

    def forms(draw: Draw) -> dict[str, Make]:
        names = _KERNELIZED[family]
        return {name: _make(draw, replace(chosen(draw, name), family=family)) for name in names}

    return forms


def _learned(draw: Draw) -> dict[str, Make]:
    metric = draw.learned.metric
    return {"": lambda n: MetricLSH(metric=metric, n_functions=n, random_state=draw.seed)}


def _supervised(family: type[SupervisedKernelHash]) -> Callable[[Draw], dict[str, Make]]:
    def forms(draw: Draw) -> dict[str, Make]:
        known = draw.truth[draw.truth >= 0]
        n_classes = len(np.unique(known))
        if n_classes < 2:
            raise InputError(f"{family.name} learns from labels of at least two classes, got {n_classes}")
        params: dict[str, Any] = {
            "n_anchors": draw.n_anchors,
            "n_labels": len(known),
            "random_state": draw.seed,
        }
        if issubclass(family, LearnedKernelHash):
            params["gamma"] = draw.kernel_gamma
        return {"": lambda n: family(**params, n_functions=n)}

    return forms


def _plain(family: type[SimilarityHasher], draw: Draw) -> dict[str, Make]:
    """Return all forms of a family that needs no preparation."""

    def made(params: Mapping[str, Any]) -> Make:
        return lambda n: family(**params, n_functions=n, random_state=draw.seed)

    return {name: made(form.params) for name, form in forms_named(family.name).items()}


def _sets(draw: Draw) -> dict[str, Make]:
    MinHash(n_functions=1, random_state=draw.seed).fit(draw.sample)  # raises if rows are not sets
    return _plain(MinHash, draw)


def _make(draw: Draw, form: Form) -> Make:
    return lambda n: form.hasher(n_functions=n, **draw.landmarks)


_KERNELIZED: dict[type[KernelHasher], tuple[str, ...]] = {
    KernelizedLSH: ("original", "low rank", "low rank, transformed", "low rank, from the mean"),
    KernelPCALSH: ("low rank",),
    NystromLSH: ("full rank", "low rank"),
}
"""Names of the forms that are compared, for each family of kernelized LSH."""

_FORMS: dict[str, Callable[[Draw], dict[str, Make]]] = {
    MetricLSH.name: _learned,
    SupervisedKernelHash.name: _supervised(SupervisedKernelHash),
    LearnedKernelHash.name: _supervised(LearnedKernelHash),
    MinHash.name: _sets,
    **{family.name: _kernelized(family) for family in _KERNELIZED},
}
