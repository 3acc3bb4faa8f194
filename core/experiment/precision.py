"""How many of the rows that codes retrieve are of the query's class, where few labels are learned from.

The comparison of the papers on supervised codes [1]_: families that learn from classes are given those of a
few rows of the pool, the others the same rows without them, and all rows are taken in the order of their
Hamming distance from held-out items (`core.experiment.retrieval`). Precision is of the first k rows; average
precision of all of them, where each row of the class counts what precision is down to it.

References
----------
.. [1] W. Liu, J. Wang, R. Ji, Y.-G. Jiang, S.-F. Chang, "Supervised hashing with kernels", CVPR 2012.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from closecall.core.errors import InputError
from closecall.core.experiment.families import Draw, codes_of_pool, forms_of
from closecall.core.experiment.neighbours import Labeled
from closecall.core.experiment.retrieval import retrieve
from closecall.core.numerics.rows import Rows
from closecall.core.pool.pool import Pool

Row = dict[str, Any]


class Precisions(NamedTuple):
    """What was measured.

    Parameters
    ----------
    rows : list of dict
        For each form and length of code: ``family``, ``form``, ``bits``, ``retrieved`` (the k), ``precision``
        (of each k, the mean over queries), ``average_precision`` (likewise) and ``seed``.
    refused : dict
        Why a family does not apply, by its name.
    """

    rows: list[Row]
    refused: dict[str, str]


def draw_labeled(
    pool: Pool, choosing: Rows, *, n_labels: int, n_sample: int, kernel: str, n_landmarks: int, seed: int
) -> Draw:
    """A draw in which so few classes are known.

    Parameters
    ----------
    pool : Pool
        Of which classes are known.
    choosing : array or csr_array of shape (n_choosing, n_features)
        Queries to choose ranks and scales by; nothing else is measured with them.
    n_labels : int
        Of so many rows the classes are known, drawn at random.
    n_sample : int
        So many rows of the pool, with these among them, families are fitted to; all, if there are fewer.
    kernel, n_landmarks, seed
        See `core.experiment.families.Draw`.

    Raises
    ------
    InputError
        If the sample is smaller than `n_labels`, or the classes of fewer of its rows are known.
    """
    rng = np.random.default_rng([seed, 5])
    rows = np.sort(rng.choice(len(pool), min(n_sample, len(pool)), replace=False))
    truth = pool.truth(pool.ids[rows])
    known = rng.permutation(np.flatnonzero(truth >= 0))
    if len(known) < n_labels:
        raise InputError(
            f"{n_labels:,} labels are to be learned from, and the classes of {len(known):,} are known among "
            f"the {len(rows):,} rows that families are fitted to"
        )
    truth = truth.copy()
    truth[known[n_labels:]] = -1
    return Draw(
        seed=seed,
        sample=pool.rows(rows),
        truth=truth,
        choosing=choosing,
        kernel=kernel,
        n_landmarks=n_landmarks,
        share=1e-4,
    )


def compare_precision(
    pool: Pool,
    queries: Labeled,
    draw: Draw,
    families: Sequence[str],
    *,
    bits: Sequence[int] = (8, 12, 16, 24, 32, 48),
    retrieved: Sequence[int] = (10, 500),
    done: Callable[[Row], None] = lambda _: None,
) -> Precisions:
    """Measure all forms of some families for one draw.

    Parameters
    ----------
    pool : Pool
        Its rows are searched, those that families learned from included.
    queries : Labeled
        See `core.experiment.neighbours.labeled_queries`.
    draw : Draw
        See `draw_labeled`.
    families : sequence of str
        Names in `core.hashing.FAMILIES`.
    bits, retrieved : sequence of int
        Functions a code, and the k.
    done : callable
        Given each row as soon as there is one; what it raises ends the measurement.

    Raises
    ------
    InputError
        If no family applies, there is no such family, or fewer rows than are to be retrieved.
    """
    if not all(1 <= k <= len(pool) for k in retrieved):
        raise InputError(
            f"of each query from 1 to {len(pool):,} rows can be retrieved, got "
            f"{', '.join(f'{k:,}' for k in retrieved)}"
        )
    classes, own = pool.truth(pool.ids), queries.y.astype(np.int16)
    nothing = np.empty((len(own), 0), np.int64)
    rows: list[Row] = []
    refused: dict[str, str] = {}
    for name in families:
        try:
            forms = forms_of(name, draw)
            fitted = {form: [draw.fitted(make, n) for n in bits] for form, make in forms.items()}
        except InputError as error:
            refused[name] = str(error)
            continue
        for form, hashers in fitted.items():
            for hasher, codes in zip(hashers, codes_of_pool(hashers, pool), strict=True):
                found = retrieve(codes, hasher.hash_queries(queries.X), nothing, classes, own)
                rows.append(
                    {
                        "family": name,
                        "form": form,
                        "bits": hasher.n_functions,
                        "retrieved": list(retrieved),
                        "precision": found.precision(retrieved).mean(axis=0).tolist(),
                        "average_precision": float(found.average_precision().mean()),
                        "seed": draw.seed,
                    }
                )
                done(rows[-1])
    if not rows:
        raise InputError(f"no family applies to the pool {pool.path}: {'; '.join(refused.values())}")
    return Precisions(rows, refused)
