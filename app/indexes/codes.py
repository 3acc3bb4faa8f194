"""Retrieval by hashing: codes of one family, and the structures that find likely neighbours by them.

One code a row, 256 bits (`core.hashing`), and one of the search structures (`core.search`): the Hamming scan
compares all codes, one large table, bucket tables and permuted orders only a share of them, the likeliest
(`share_of`). `CANDIDATES` of the compared are ranked exactly.

Whatever a family estimates, the candidates are ranked by the angle. Under a learned metric the codes are of
random hyperplanes in the space that it makes; other families know nothing of metrics.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.hashing import FAMILIES, Codes, MetricLSH, RandomHyperplaneLSH, SimilarityHasher
from closecall.core.hashing.pool import fit_rows, hash_on
from closecall.core.metric import Metric
from closecall.core.numerics.rows import Rows, joined
from closecall.core.pool.pool import Pool
from closecall.core.search import HashTable, built_for_points
from closecall.core.search.base import SearchStructure
from closecall.core.search.ranking import Measure
from closecall.core.similar import ByAngle, HashedSimilarity
from closecall.core.similar.answers import LEAST
from closecall.core.similar.index import LEAST_COMPARED, LEAST_SHARE

if TYPE_CHECKING:
    from closecall.app.indexes.metric import LearnedMetric
    from closecall.storage import Labels

USUAL = RandomHyperplaneLSH.name
"""The family whose codes are compared unless another is picked, and the only one that knows of metrics."""

OFFERED = tuple(name for name, family in FAMILIES.items() if family is not MetricLSH)
"""The families whose codes may be compared; those that need labels learn from the concept's answers."""

N_FUNCTIONS = 256

N_TAUGHT = 64
"""Functions of a family that learns from answers: each takes a while, and few tell two classes apart."""

SHARE = LEAST_SHARE
"""Of the rows, the codes of so many are compared by a structure that can choose which."""

SHARE_OF_TABLE = 0.1
"""The same of one large table, where those that are compared lie side by side."""

CANDIDATES = 4_000
"""Angles that are computed, at most. Of a million photographs' GIST the scan of 256 bits finds 0.90 of the
nearest ten among 1,000, 0.97 among 4,000 and 0.98 among 8,000, in 5, 8 and 11 ms."""

LANDMARKS = 300
"""Of kernelized families: each row of the pool is compared with so many."""

BYTES_A_ROW = 128
"""The memory of tables and permuted orders beside the codes, for each row."""

SEED = 0


def share_of(structure: str) -> float:
    """Of the rows, the codes of so many are compared by a structure, if it can choose which."""
    return SHARE_OF_TABLE if structure == HashTable.name else SHARE


def n_compared(n_items: int, structure: str) -> int:
    """How many codes a query compares, of structures that can choose which."""
    return min(max(round(share_of(structure) * n_items), LEAST_COMPARED), n_items)


def parameters(family: str, structure: str, measure: Measure, labels: Labels | None) -> dict[str, Any]:
    """All that hashed searches by a family's codes and a structure depend on today, for the log.

    Parameters
    ----------
    family, structure : str
        Their names.
    measure : "weights" or "disagreements"
        By which codes are compared. Logs of earlier versions don't tell it: it was always "weights".
    labels : Labels or None
        What the family learned from, if it did.
    """
    return {
        "family": family,
        "functions": n_functions(family),
        "share": share_of(structure),
        "least_compared": LEAST_COMPARED,
        "candidates": CANDIDATES,
        "landmarks": LANDMARKS,
        "seed": SEED,
        **({} if measure == "weights" else {"measure": measure}),
        **({} if labels is None else {"through": labels.through, "labels": len(labels)}),
    }


def n_functions(family: str) -> int:
    """How many functions its codes have."""
    return N_TAUGHT if FAMILIES[family].needs_labels else N_FUNCTIONS


def unfitted(family: str, metric: Metric | None, n_rows: int) -> SimilarityHasher:
    """The family, not fitted yet, that makes the codes of so many rows; `family` as of `coded`."""
    how: dict[str, Any] = {"n_functions": n_functions(family), "random_state": SEED}
    if metric is not None:
        return MetricLSH(metric=metric, **how)
    kind = FAMILIES[family]
    for word in ("n_landmarks", "n_anchors"):
        if word in inspect.signature(kind).parameters:
            how[word] = min(LANDMARKS, len(fit_rows(n_rows)))
    return kind(**how)


def coded(
    pool: Pool,
    metric: LearnedMetric | None,
    advanced: Callable[[int, int], None],
    family: str = USUAL,
    labels: Labels | None = None,
) -> tuple[SimilarityHasher, Codes]:
    """A fitted family, and the codes of the pool's rows.

    Parameters
    ----------
    pool : Pool
        The snapshot that is searched.
    metric : LearnedMetric or None
        Whose space the codes are of; then the family is random hyperplanes.
    advanced : callable
        Told how many rows of how many have a code.
    family : str
        One of `OFFERED`.
    labels : Labels or None
        What a family that needs labels learns from.

    Raises
    ------
    InputError
        If the family does not apply to the rows, or the labels are too few.
    """
    rows = pool.rows(fit_rows(len(pool)))
    hasher = unfitted(family, metric.metric if metric is not None else None, len(pool))
    hasher.fit(*(_taught(rows, pool, labels) if hasher.needs_labels else (rows, None)))
    return hasher, hash_on(hasher, pool.blocks, len(pool), lambda done: advanced(done, len(pool)))


def extended(
    hasher: SimilarityHasher, codes: Codes, pool: Pool, advanced: Callable[[int, int], None]
) -> Codes | None:
    """The codes of a pool whose first rows have these; None where `coded` would fit the family anew.

    The same as `coded` gives, by the same metric or labels.
    """
    if not np.array_equal(fit_rows(len(codes)), fit_rows(len(pool))):
        return None
    return hash_on(hasher, pool.blocks, len(pool), lambda done: advanced(done, len(pool)), codes)


def _taught(rows: Rows, pool: Pool, labels: Labels | None) -> tuple[Rows, NDArray[np.int64]]:
    """The labelled items' rows with their classes, 1 for yes, and others of which nothing is known."""
    n_yes = 0 if labels is None else int(np.count_nonzero(labels.yes))
    n_no = 0 if labels is None else len(labels) - n_yes
    if labels is None or min(n_yes, n_no) < LEAST:
        raise InputError(
            f"these codes are learned from {LEAST} yes and {LEAST} no answers on, got {n_yes} and {n_no}"
        )
    y = np.concatenate([labels.yes.astype(np.int64), np.full(rows.shape[0], -1)])
    return joined([pool.rows_of(labels.items), rows]), y


def building(structure: str, n_rows: int) -> dict[str, int]:
    """What a structure over the codes of so many rows is built with."""
    return {"n_compared": n_compared(n_rows, structure), "n_bytes": BYTES_A_ROW * n_rows, "seed": SEED}


def built(name: str, pool: Pool, hasher: SimilarityHasher, codes: Codes, **how: Any) -> HashedSimilarity:
    """The structure `name` over these codes; `how` as of `searching`."""
    structure = built_for_points(name, codes, **building(name, len(codes)))
    return searching(pool, hasher, structure, **how)


def searching(
    pool: Pool,
    hasher: SimilarityHasher,
    structure: SearchStructure,
    *,
    metric: LearnedMetric | None = None,
    measure: Measure | None = None,
) -> HashedSimilarity:
    """A search by codes that ranks by the angle.

    Parameters
    ----------
    pool : Pool
        The snapshot whose rows have the codes.
    hasher : SimilarityHasher
        Fitted.
    structure : SearchStructure
        Over the codes.
    metric : LearnedMetric or None
        Under which the angles are.
    measure : "weights", "disagreements" or None
        See `HashedSimilarity`.
    """
    search = HashedSimilarity(
        hasher,
        structure,
        ByAngle(pool) if metric is None else metric.nearness,
        n_compared=n_compared(len(pool), structure.name),
        n_candidates=CANDIDATES,
        measure=measure,
    )
    search.neighbours(pool.rows(np.zeros(1, dtype=np.int64)), 1)  # the first takes longer: files are mapped
    return search
