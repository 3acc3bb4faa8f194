"""The probability that an audit draws an item, if items are drawn from several frames.

A frame is a pool divided into strata by the scores of a classifier (`core.audit.strata`). An audit uses one
frame after another, because the classifier changes. In each frame, the draws from a stratum are a simple
random sample, without replacement, of the remaining items of the stratum. If m of N items were drawn, each
was drawn with probability m/N, regardless of the classifier that defined the stratum and of earlier draws.
The probability that no frame draws an item is Π(1 − m/N), a product over all frames, where m and N belong to
the stratum of the item in each frame. The inclusion probability of the item is 1 minus this product. With
weights of 1 / inclusion probability [1]_, every item of the pool has the same expected weight, for any number
of frames. As in multiple importance sampling [2]_, an item that many frames could have drawn does not get an
extreme weight even if an early frame happened to draw it.

If the annotator skipped an item or was unsure, the item does not count as drawn. The other items of its
stratum represent it.

References
----------
.. [1] D. G. Horvitz, D. J. Thompson: A Generalization of Sampling Without Replacement From a Finite Universe,
   Journal of the American Statistical Association 47, 1952.
.. [2] E. Veach, L. J. Guibas: Optimally Combining Sampling Techniques for Monte Carlo Rendering, SIGGRAPH
   1995 (the balance heuristic).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.audit.strata import Strata
from closecall.core.errors import InputError
from closecall.core.numerics.rows import Rows


def inclusion(strata: Sequence[Strata], frame: ArrayLike, ids: ArrayLike, X: Rows) -> NDArray[np.float64]:
    """Return, for each item, the probability that at least one frame of the audit draws it; shape (n,).

    Parameters
    ----------
    strata : sequence of Strata
        Strata of each `Frame` of the audit, in the order in which the frames were used.
    frame : array of shape (n,), int
        Index of the frame from which each item was drawn.
    ids : array of shape (n,), int
        Ids of all items that were drawn and answered yes or no, including items that were passed over later
        (`core.audit.pass_over`).
    X : array of shape (n, n_features), float32, or csr_array
        Features of the items.

    Raises
    ------
    InputError
        If shapes disagree, if a frame is not in `strata`, or if an item was added to the pool after its
        frame.
    """
    frame, ids = np.asarray(frame, dtype=np.int64), np.asarray(ids, dtype=np.int64)
    lengths = len(frame), len(ids), X.shape[0]
    if len(set(lengths)) > 1:
        raise InputError("frame, ids and X must be equally long, got {}, {} and {}".format(*lengths))
    return inclusion_by_stratum(strata, frame, ids, [one.of(ids, X) for one in strata])


def inclusion_by_stratum(
    strata: Sequence[Strata], frame: ArrayLike, ids: ArrayLike, stratum: Sequence[NDArray[np.int64]]
) -> NDArray[np.float64]:
    """Return the result of `inclusion`, given the stratum of each item in each frame.

    This is needed if the frames were made from different features of the items.

    Parameters
    ----------
    strata, frame, ids
        See `inclusion`.
    stratum : sequence of arrays of shape (n,), int64
        For each frame, the stratum of each item; −1 for items that the frame does not cover.

    Raises
    ------
    InputError
        If a frame is not in `strata`, or does not cover an item that was drawn from it.
    """
    frame, ids = np.asarray(frame, dtype=np.int64), np.asarray(ids, dtype=np.int64)
    unknown = np.flatnonzero((frame < 0) | (frame >= len(strata)))
    if unknown.size:
        raise InputError(
            f"item {ids[unknown[0]]} is of frame {frame[unknown[0]]}, but only {len(strata)} exist"
        )
    passed_over = np.ones(len(ids))
    for number, (one, of_item) in enumerate(zip(strata, stratum, strict=True)):
        own = frame == number
        if (of_item[own] < 0).any():
            late = ids[own][of_item[own] < 0][0]
            raise InputError(f"item {late} cannot be of frame {number}, which ends with item {one.last}")
        drawn = np.bincount(of_item[own], minlength=len(one.sizes))
        # The appended rate is for stratum −1, which has the items that this frame does not cover.
        rate = np.append(np.minimum(drawn / np.maximum(one.sizes, 1), 1), 0.0)
        passed_over *= 1 - rate[of_item]
    return 1 - passed_over
