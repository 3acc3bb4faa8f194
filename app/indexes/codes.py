"""Search by hashing: the codes of one hash family, and a structure that finds likely neighbours by codes.

A `Recipe` (`app.indexes.recipe`) names the family and the structure. Each row has one code (`core.hashing`),
and the structure (`core.search`) searches the codes. The Hamming scan compares the query's code with all
codes; other structures compare it only with the codes of likely neighbours. The rows with the nearest codes
are the candidates, which are then ranked exactly.

Candidates are ranked by the quantity that the family estimates: the angle, a kernel, or the overlap of sets
(`core.similar.nearness_of`). Under a learned metric, the codes come from random hyperplanes in the metric's
space; other families don't support metrics (`Recipe.under_metric`).

**Searches by earlier versions** of the program can be repeated exactly (`Former`). In these versions, every
family's candidates were ranked by the angle, buckets of a table were read in the order of the bits, families
learned from at most 1,000 answers, and the slack γ of a learned kernel was 0.1. `Former.of` recognizes such a
search by the settings that are missing from its parameters in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from closecall.app.indexes.recipe import Recipe
from closecall.core.errors import InputError
from closecall.core.hashing import (
    FAMILIES,
    Codes,
    LearnedKernelHash,
    MetricLSH,
    QueryCode,
    RandomHyperplaneLSH,
    SimilarityHasher,
)
from closecall.core.hashing.pool import fit_rows, hash_on
from closecall.core.metric import Metric
from closecall.core.numerics.rows import Rows, cut, joined
from closecall.core.pool.pool import Pool
from closecall.core.search import HashTable, built_for_points
from closecall.core.search.base import Rows as RowNumbers
from closecall.core.search.base import SearchStructure
from closecall.core.search.ranking import Measure
from closecall.core.similar import ByAngle, HashedSimilarity, Nearness, nearness_of
from closecall.core.similar.answers import LEAST, validated_kernel
from closecall.core.similar.index import LEAST_COMPARED

if TYPE_CHECKING:
    from closecall.app.indexes.metric import LearnedMetric
    from closecall.storage import Labels

MOST_TAUGHT = 20_000
"""Maximum number of answers that a family learns from. If there are more, answers are drawn at random.

Learning from this many answers takes a minute and 120 MB.
"""

FORMERLY_TAUGHT = 1_000
"""Maximum number of answers that a family learned from in earlier versions."""

FORMER_GAMMA = 0.1
"""The slack parameter γ of a learned kernel in earlier versions."""

SEED = 0

DEFAULT = Recipe("scan")
"""The codes of the default family."""


@dataclass(frozen=True)
class Former:
    """How a search by an earlier version of the program differs from a search by this version.

    Parameters
    ----------
    by_angle : bool
        Whether candidates were ranked by the angle although their family estimates another quantity. If so,
        the buckets of a table were also read in the order of the bits.
    most_taught : int
        Maximum number of answers that families learned from.
    gamma : float or None
        The slack parameter γ of a learned kernel. None to choose it by cross-validation; the log has the
        chosen value.
    """

    by_angle: bool = False
    most_taught: int = MOST_TAUGHT
    gamma: float | None = None

    @classmethod
    def of(cls, params: Mapping[str, Any], family: str) -> Former:
        """Return how a search in the log, with parameters `params`, differs from a search by this version."""
        return cls(
            by_angle=not ranks_by_angle(family) and "ranked" not in params,
            most_taught=MOST_TAUGHT if "most_taught" in params else FORMERLY_TAUGHT,
            gamma=params.get("gamma", FORMER_GAMMA) if family == LearnedKernelHash.name else None,
        )


TODAY = Former()


def n_compared(n_items: int, share: float) -> int:
    """Return how many of `n_items` codes to compare: this share of them, but at least `LEAST_COMPARED`."""
    return min(max(round(share * n_items), LEAST_COMPARED), n_items)


def parameters(
    recipe: Recipe,
    measure: Measure,
    labels: Labels | None,
    former: Former = TODAY,
    gamma: float | None = None,
) -> dict[str, Any]:
    """Return the parameters of searches by a recipe, for the log.

    Parameters
    ----------
    recipe : Recipe
        The settings. Settings that earlier versions did not log are left out if they have default values.
    measure : "weights" or "disagreements"
        The distance between codes. The value "weights" is left out, because it was the only distance in
        earlier versions.
    labels : Labels or None
        The labels that the family learned from, if it learns from labels.
    former : Former
        How the search differs from a search by this version.
    gamma : float or None
        The slack parameter γ of a learned kernel; see `gamma_of`. Earlier versions did not log it.
    """
    family = recipe.family
    ranked = former.by_angle or ranks_by_angle(family)
    capped = labels is not None and former.most_taught == MOST_TAUGHT and FAMILIES[family].needs_labels
    return {
        "family": family,
        "functions": recipe.value("functions"),
        "share": recipe.value("share"),
        "least_compared": LEAST_COMPARED,
        "candidates": recipe.value("candidates"),
        "landmarks": recipe.value("landmarks"),
        "seed": SEED,
        **recipe.told(),
        **({} if measure == "weights" else {"measure": measure}),
        **({} if ranked else {"ranked": FAMILIES[family].estimates}),
        **({"most_taught": MOST_TAUGHT} if capped else {}),
        **({} if gamma is None else {"gamma": gamma}),
        **({} if labels is None else {"through": labels.through, "labels": len(labels)}),
    }


def taught_by(params: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return how many answers the codes of a search learned from, or None if they don't learn from answers.

    `params` is a result of `parameters`. `app.indexes.similar.Method.taught` lists the entries of the result.
    """
    if "labels" not in params:
        return None
    family = FAMILIES[params["family"]]
    most = params.get("most_taught", FORMERLY_TAUGHT) if family.needs_labels else params["labels"]
    used = min(params["labels"], most)
    how = family(n_functions=1).params()
    said = {"used": used, "of": params["labels"], "paired": None, "pairs": None}
    if "n_constrained" in how:
        said |= {"paired": min(how["n_constrained"], used), "pairs": how["n_pairs"]}
    return said


def gamma_of(hasher: SimilarityHasher) -> float | None:
    """Return the slack parameter γ of a family with a learned kernel, or None for other families."""
    return hasher.gamma if isinstance(hasher, LearnedKernelHash) else None


def ranks_by_angle(family: str) -> bool:
    """Return whether candidates of a family are ranked by the angle."""
    kind = FAMILIES[family]
    return kind.estimates == "angle" or kind.by_angle


def unfitted(
    recipe: Recipe, metric: Metric | None, n_rows: int, most_taught: int = MOST_TAUGHT
) -> SimilarityHasher:
    """Return the unfitted hash family for codes of `n_rows` rows; for the other parameters, see `coded`."""
    how = {"n_functions": recipe.value("functions"), "random_state": SEED, **recipe.params(n_rows)}
    if metric is not None:
        return MetricLSH(metric=metric, **how)
    kind = FAMILIES[recipe.family]
    if kind.needs_labels:
        how["n_labels"] = most_taught
    return kind(**how)


def coded(
    pool: Pool,
    metric: LearnedMetric | None,
    advanced: Callable[[int, int], None],
    recipe: Recipe = DEFAULT,
    labels: Labels | None = None,
    former: Former = TODAY,
) -> tuple[SimilarityHasher, Codes]:
    """Fit a family and return it with the codes of the pool's rows.

    Parameters
    ----------
    pool : Pool
        The snapshot to search.
    metric : LearnedMetric or None
        The metric in whose space rows are coded. With a metric, the family is random hyperplanes.
    advanced : callable
        Called with the number of rows coded so far and the number of all rows.
    recipe : Recipe
        The settings of the codes. The search structure that the recipe names is not used.
    labels : Labels or None
        Training labels for codes that learn from them.
    former : Former
        How the codes differ from those of this version, if codes of an earlier version are to be repeated. If
        there are more labels than `Former.most_taught`, a supervised family learns from this number of
        labels, drawn at random.

    Raises
    ------
    InputError
        If a setting is wrong, if the family does not apply to the rows, or if there are too few labels.
    """
    recipe.check(len(pool))
    rows = pool.rows(fit_rows(len(pool)))
    hasher = unfitted(recipe, metric.metric if metric is not None else None, len(pool), former.most_taught)
    X, y = _taught(rows, pool, labels) if recipe.learns and metric is None else (rows, None)
    if isinstance(hasher, LearnedKernelHash) and y is not None:
        hasher.gamma = former.gamma or _chosen_gamma(hasher, X, y)
    hasher.fit(X, y)
    return hasher, hash_on(hasher, pool.blocks, len(pool), lambda done: advanced(done, len(pool)))


def extended(
    hasher: SimilarityHasher, codes: Codes, pool: Pool, advanced: Callable[[int, int], None]
) -> Codes | None:
    """Hash the rows that `codes` lacks, and return all codes.

    The result is the same as from `coded` with the same metric or labels. It is None if the pool has grown so
    much that `coded` would fit the hash family to other rows.
    """
    if not np.array_equal(fit_rows(len(codes)), fit_rows(len(pool))):
        return None
    return hash_on(hasher, pool.blocks, len(pool), lambda done: advanced(done, len(pool)), codes)


def _taught(rows: Rows, pool: Pool, labels: Labels | None) -> tuple[Rows, NDArray[np.int64]]:
    """Return the labeled items' rows followed by `rows`, and the class of each: 1 yes, 0 no, −1 unlabeled.

    Raises
    ------
    InputError
        If there are fewer than `LEAST` yes labels, or fewer than `LEAST` no labels.
    """
    n_yes = 0 if labels is None else int(np.count_nonzero(labels.yes))
    n_no = 0 if labels is None else len(labels) - n_yes
    if labels is None or min(n_yes, n_no) < LEAST:
        raise InputError(
            f"these codes need at least {LEAST} yes and {LEAST} no answers, got {n_yes} and {n_no}"
        )
    y = np.concatenate([labels.yes.astype(np.int64), np.full(rows.shape[0], -1)])
    return joined([pool.rows_of(labels.items), rows]), y


def _chosen_gamma(hasher: LearnedKernelHash, X: Rows, y: NDArray[np.int64]) -> float:
    """Choose γ of a learned kernel by cross-validation over the labeled rows, the first rows of X."""
    n_labels = int(np.count_nonzero(y >= 0))
    how = {name: getattr(hasher, name) for name in ("kernel", "n_anchors", "n_labels", "n_constrained")}
    return validated_kernel(cut(X, 0, n_labels), y[:n_labels] == 1, **how).gamma


def building(recipe: Recipe, n_rows: int, hasher: SimilarityHasher) -> dict[str, float]:
    """Return the parameters for building the structure over a fitted family's codes of `n_rows` rows."""
    # The number of compared codes changes only how one large table is built.
    share = recipe.value("share") if recipe.structure == HashTable.name else recipe.default("share")
    how = {"n_compared": n_compared(n_rows, share), "n_bytes": recipe.value("memory") * n_rows, "seed": SEED}
    if recipe.reaches is None:
        epsilon = recipe.value("epsilon")
        return how if epsilon is None else {**how, "epsilon": epsilon}
    if isinstance(hasher, RandomHyperplaneLSH | MetricLSH):
        return {**how, "radius": recipe.reaches[0], "epsilon": recipe.value("epsilon")}
    near, far = map(hasher.agreement_within, recipe.reaches)
    return {**how, "near": near, "far": far}


def structured(recipe: Recipe, hasher: SimilarityHasher, codes: Codes) -> SearchStructure:
    """Build the structure over these codes of a fitted family."""
    how = building(recipe, len(codes), hasher)
    return built_for_points(recipe.structure, codes, **how)  # type: ignore[arg-type]


def built(recipe: Recipe, pool: Pool, hasher: SimilarityHasher, codes: Codes, **how: Any) -> HashedSimilarity:
    """Build the structure over these codes, and return the search; `how` is passed to `searching`."""
    return searching(recipe, pool, hasher, structured(recipe, hasher, codes), **how)


class _FormerTable(HashTable):
    """A table that reads its buckets in the order of the bits, even if functions have several bits each."""

    def probed(
        self,
        query: QueryCode,
        n_rows: int,
        *,
        measure: Measure = "weights",  # noqa: ARG002
    ) -> tuple[RowNumbers, RowNumbers]:
        return super().probed(query, n_rows)


def searching(
    recipe: Recipe,
    pool: Pool,
    hasher: SimilarityHasher,
    structure: SearchStructure,
    *,
    metric: LearnedMetric | None = None,
    measure: Measure | None = None,
    former: Former = TODAY,
) -> HashedSimilarity:
    """Return a search by codes that ranks its candidates by the quantity that the family estimates.

    Parameters
    ----------
    recipe : Recipe
        The settings, with the number of codes to compare and the number of candidates to rank.
    pool : Pool
        The snapshot with the coded rows.
    hasher : SimilarityHasher
        The fitted family.
    structure : SearchStructure
        The structure over the codes.
    metric : LearnedMetric or None
        The metric under which angles are measured, if a metric was learned.
    measure : "weights", "disagreements" or None
        See `HashedSimilarity`.
    former : Former
        How the search differs from a search by this version.
    """
    if former.by_angle and isinstance(structure, HashTable):
        structure = _FormerTable.from_arrays(structure.arrays())
    search = HashedSimilarity(
        hasher,
        structure,
        _nearness(pool, hasher, former) if metric is None else metric.nearness,
        n_compared=n_compared(len(pool), recipe.value("share")),
        n_candidates=recipe.value("candidates"),
        measure=measure,
    )
    search.neighbours(
        pool.rows(np.zeros(1, dtype=np.int64)), 1
    )  # the first query takes longer, because it maps files
    return search


def _nearness(pool: Pool, hasher: SimilarityHasher, former: Former) -> Nearness:
    """Return the nearness by which candidates are ranked; angles are measured as in the exact scan."""
    if former.by_angle or ranks_by_angle(hasher.name):
        return ByAngle(pool)
    return nearness_of(pool, hasher)
