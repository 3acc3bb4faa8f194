"""Retrieval by hashing: one family's codes, and the structures that find likely neighbours with them.

Each row has one code of 256 bits (`core.hashing`), searched by one structure (`core.search`). The Hamming
scan compares all codes; one large table, bucket tables and permuted orders compare only the likeliest share
(`share_of`). The best `CANDIDATES` are then ranked exactly.

Candidates are ranked by the quantity that the family estimates: the angle, a kernel, or the overlap of sets
(`core.similar.nearness_of`). Under a learned metric, the codes come from random hyperplanes in the metric's
space; other families don't support metrics.

**Searches of earlier versions** (`Former`) are repeated as they were: candidates were ranked by the angle
whatever the family, buckets of a table were read in the order of the bits, and families learned from at most
1,000 answers. The log says what was used; what it doesn't mention was as in the earlier versions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.hashing import (
    FAMILIES,
    Codes,
    MetricLSH,
    QueryCode,
    RandomHyperplaneLSH,
    SimilarityHasher,
)
from closecall.core.hashing.pool import fit_rows, hash_on
from closecall.core.metric import Metric
from closecall.core.numerics.rows import Rows, joined
from closecall.core.pool.pool import Pool
from closecall.core.search import HashTable, built_for_points
from closecall.core.search.base import Rows as RowNumbers
from closecall.core.search.base import SearchStructure
from closecall.core.search.ranking import Measure
from closecall.core.similar import ByAngle, HashedSimilarity, Nearness, nearness_of
from closecall.core.similar.answers import LEAST
from closecall.core.similar.index import LEAST_COMPARED, LEAST_SHARE

if TYPE_CHECKING:
    from closecall.app.indexes.metric import LearnedMetric
    from closecall.storage import Labels

USUAL = RandomHyperplaneLSH.name
"""The default family, and the only one that supports metrics."""

OFFERED = tuple(name for name, family in FAMILIES.items() if family is not MetricLSH)
"""The families to choose from; those that need labels learn from the concept's answers."""

N_FUNCTIONS = 256

N_TAUGHT = 64
"""Functions of a family that learns from answers: each takes a while, and few suffice for two classes."""

MOST_TAUGHT = 20_000
"""Maximum number of answers that a family learns from, drawn at random: as many take a minute and 120 MB."""

SHARE = LEAST_SHARE
"""Share of the codes compared by a structure that can choose which."""

SHARE_OF_TABLE = 0.1
"""The same for one large table, where compared codes are adjacent in memory."""

CANDIDATES = 4_000
"""Largest number of angles computed.

Among a million photographs' GIST, the scan of 256 bits has recall@10 of 0.90 with 1,000 candidates, 0.97 with
4,000 and 0.98 with 8,000, in 5, 8 and 11 ms.
"""

LANDMARKS = 300
"""Landmarks of kernelized families, to each of which every row of the pool is compared."""

BYTES_A_ROW = 128
"""Memory of tables and permuted orders beside the codes, in bytes per row."""

FORMERLY_TAUGHT = 1_000
"""The same in earlier versions."""

SEED = 0


@dataclass(frozen=True)
class Former:
    """The differences between searches of earlier versions and those of today.

    Parameters
    ----------
    by_angle : bool
        Whether candidates were ranked by the angle, whatever the family, and buckets of a table were read in
        the order of the bits.
    most_taught : int
        Maximum number of answers that families learned from.
    """

    by_angle: bool = False
    most_taught: int = MOST_TAUGHT

    @classmethod
    def of(cls, params: Mapping[str, Any], family: str) -> Former:
        """Return the differences for a search in the log, by its parameters."""
        return cls(
            by_angle=not ranks_by_angle(family) and "ranked" not in params,
            most_taught=MOST_TAUGHT if "most_taught" in params else FORMERLY_TAUGHT,
        )


TODAY = Former()


def share_of(structure: str) -> float:
    """Return the share of the codes compared by a structure that can choose which."""
    return SHARE_OF_TABLE if structure == HashTable.name else SHARE


def n_compared(n_items: int, structure: str) -> int:
    """Return the number of codes compared per query by a structure that can choose which."""
    return min(max(round(share_of(structure) * n_items), LEAST_COMPARED), n_items)


def parameters(
    family: str, structure: str, measure: Measure, labels: Labels | None, former: Former = TODAY
) -> dict[str, Any]:
    """Return the parameters of searches with a family's codes and a structure, for the log.

    Parameters
    ----------
    family, structure : str
        Their names.
    measure : "weights" or "disagreements"
        The distance between codes. Logs of earlier versions don't have it: it was always "weights".
    labels : Labels or None
        The labels that the family learned from, if it learns.
    former : Former
        How the search differs from those of today.
    """
    ranked = former.by_angle or ranks_by_angle(family)
    capped = labels is not None and former.most_taught == MOST_TAUGHT
    return {
        "family": family,
        "functions": n_functions(family),
        "share": share_of(structure),
        "least_compared": LEAST_COMPARED,
        "candidates": CANDIDATES,
        "landmarks": LANDMARKS,
        "seed": SEED,
        **({} if measure == "weights" else {"measure": measure}),
        **({} if ranked else {"ranked": FAMILIES[family].estimates}),
        **({"most_taught": MOST_TAUGHT} if capped else {}),
        **({} if labels is None else {"through": labels.through, "labels": len(labels)}),
    }


def taught_by(params: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the answers that codes learned from, by the `parameters` of a search; see `Method.taught`."""
    if "labels" not in params:
        return None
    used = min(params["labels"], params.get("most_taught", FORMERLY_TAUGHT))
    how = FAMILIES[params["family"]](n_functions=1).params()
    said = {"used": used, "of": params["labels"], "paired": None, "pairs": None}
    if "n_constrained" in how:
        said |= {"paired": min(how["n_constrained"], used), "pairs": how["n_pairs"]}
    return said


def n_functions(family: str) -> int:
    """Return the number of functions in the family's codes."""
    return N_TAUGHT if FAMILIES[family].needs_labels else N_FUNCTIONS


def ranks_by_angle(family: str) -> bool:
    """Return whether candidates of a family are ranked by the angle."""
    kind = FAMILIES[family]
    return kind.estimates == "angle" or kind.by_angle


def unfitted(
    family: str, metric: Metric | None, n_rows: int, most_taught: int = MOST_TAUGHT
) -> SimilarityHasher:
    """Return the unfitted family for codes of `n_rows` rows; `family` and `most_taught` as in `coded`."""
    how: dict[str, Any] = {"n_functions": n_functions(family), "random_state": SEED}
    if metric is not None:
        return MetricLSH(metric=metric, **how)
    kind = FAMILIES[family]
    for word in ("n_landmarks", "n_anchors"):
        if word in inspect.signature(kind).parameters:
            how[word] = min(LANDMARKS, len(fit_rows(n_rows)))
    if kind.needs_labels:
        how["n_labels"] = most_taught
    return kind(**how)


def coded(
    pool: Pool,
    metric: LearnedMetric | None,
    advanced: Callable[[int, int], None],
    family: str = USUAL,
    labels: Labels | None = None,
    most_taught: int = MOST_TAUGHT,
) -> tuple[SimilarityHasher, Codes]:
    """Fit a family and return it with the codes of the pool's rows.

    Parameters
    ----------
    pool : Pool
        The snapshot to search.
    metric : LearnedMetric or None
        The metric in whose space the codes are; the family is then random hyperplanes.
    advanced : callable
        Called with the number of rows that have a code and the number of all rows.
    family : str
        One of `OFFERED`.
    labels : Labels or None
        Training labels for a family that needs them.
    most_taught : int
        Maximum number of them that it learns from, drawn at random.

    Raises
    ------
    InputError
        If the family does not apply to the rows, or there are too few labels.
    """
    rows = pool.rows(fit_rows(len(pool)))
    hasher = unfitted(family, metric.metric if metric is not None else None, len(pool), most_taught)
    hasher.fit(*(_taught(rows, pool, labels) if hasher.needs_labels else (rows, None)))
    return hasher, hash_on(hasher, pool.blocks, len(pool), lambda done: advanced(done, len(pool)))


def extended(
    hasher: SimilarityHasher, codes: Codes, pool: Pool, advanced: Callable[[int, int], None]
) -> Codes | None:
    """Extend codes of the pool's first rows to all rows; return None if `coded` would fit the family again.

    The result is the same as from `coded` with the same metric or labels.
    """
    if not np.array_equal(fit_rows(len(codes)), fit_rows(len(pool))):
        return None
    return hash_on(hasher, pool.blocks, len(pool), lambda done: advanced(done, len(pool)), codes)


def _taught(rows: Rows, pool: Pool, labels: Labels | None) -> tuple[Rows, NDArray[np.int64]]:
    """Return rows of labeled items and unlabeled rows, with the labeled ones' classes, 1 for yes."""
    n_yes = 0 if labels is None else int(np.count_nonzero(labels.yes))
    n_no = 0 if labels is None else len(labels) - n_yes
    if labels is None or min(n_yes, n_no) < LEAST:
        raise InputError(
            f"these codes need at least {LEAST} yes and {LEAST} no answers, got {n_yes} and {n_no}"
        )
    y = np.concatenate([labels.yes.astype(np.int64), np.full(rows.shape[0], -1)])
    return joined([pool.rows_of(labels.items), rows]), y


def building(structure: str, n_rows: int) -> dict[str, int]:
    """Return the parameters to build a structure over the codes of `n_rows` rows."""
    return {"n_compared": n_compared(n_rows, structure), "n_bytes": BYTES_A_ROW * n_rows, "seed": SEED}


def built(name: str, pool: Pool, hasher: SimilarityHasher, codes: Codes, **how: Any) -> HashedSimilarity:
    """Build the structure `name` over these codes; `how` as in `searching`."""
    structure = built_for_points(name, codes, **building(name, len(codes)))
    return searching(pool, hasher, structure, **how)


class _FormerTable(HashTable):
    """A table whose buckets are read in the order of their bits, also for values with several bits."""

    def probed(
        self,
        query: QueryCode,
        n_rows: int,
        *,
        measure: Measure = "weights",  # noqa: ARG002
    ) -> tuple[RowNumbers, RowNumbers]:
        return super().probed(query, n_rows)


def searching(
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
    pool : Pool
        The snapshot with the coded rows.
    hasher : SimilarityHasher
        The fitted family.
    structure : SearchStructure
        The structure over the codes.
    metric : LearnedMetric or None
        The metric of the angles.
    measure : "weights", "disagreements" or None
        See `HashedSimilarity`.
    former : Former
        How the search differs from those of today.
    """
    if former.by_angle and isinstance(structure, HashTable):
        structure = _FormerTable.from_arrays(structure.arrays())
    search = HashedSimilarity(
        hasher,
        structure,
        _nearness(pool, hasher, former) if metric is None else metric.nearness,
        n_compared=n_compared(len(pool), structure.name),
        n_candidates=CANDIDATES,
        measure=measure,
    )
    search.neighbours(
        pool.rows(np.zeros(1, dtype=np.int64)), 1
    )  # the first query takes longer, as it maps files
    return search


def _nearness(pool: Pool, hasher: SimilarityHasher, former: Former) -> Nearness:
    """Return the nearness that candidates are ranked by; angles are those of the exact scan."""
    if former.by_angle or ranks_by_angle(hasher.name):
        return ByAngle(pool)
    return nearness_of(pool, hasher)
