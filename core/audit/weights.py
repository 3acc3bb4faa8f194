"""What chance each audited item had to be drawn, over all frames of an audit.

Frame by frame, a stratum's draws are a simple random sample, without replacement, of the items that it had
left: where m of N were drawn, each had the chance m/N, whatever classifier the stratum came from and whatever
was drawn before. An item was passed over by all frames with probability Π(1 − m/N), and audited otherwise.
Weighting by the inverse of that [1]_ makes every item of the pool count the same in expectation, however many
models the audit has seen; as in multiple importance sampling [2]_, an item that many frames could have
drawn cannot have an outlandish weight because it came from an early one.

Items that the annotator skipped, or was unsure about, are left out of the draws: the others of their stratum
stand for them.

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
    """The probability, of shape (n,), with which each of these audited items was drawn.

    Parameters
    ----------
    strata : sequence of Strata
        Of the frames in the order in which they served.
    frame : array of shape (n,), int
        Which of them each item was drawn from.
    ids : array of shape (n,), int
        All items drawn and answered yes or no, those that a selection came to later among them
        (`core.audit.pass_over`).
    X : array of shape (n, n_features), float32, or csr_array
        Their features.

    Raises
    ------
    InputError
        If shapes disagree, a frame is not among the `strata`, or an item cannot be of its frame.
    """
    frame, ids = np.asarray(frame, dtype=np.int64), np.asarray(ids, dtype=np.int64)
    lengths = len(frame), len(ids), X.shape[0]
    if len(set(lengths)) > 1:
        raise InputError("frame, ids and X must be equally long, got {}, {} and {}".format(*lengths))
    unknown = np.flatnonzero((frame < 0) | (frame >= len(strata)))
    if unknown.size:
        raise InputError(f"item {ids[unknown[0]]} is of frame {frame[unknown[0]]}, there are {len(strata)}")
    passed_over = np.ones(len(ids))
    for number, one in enumerate(strata):
        stratum = one.of(ids, X)
        own = frame == number
        if (stratum[own] < 0).any():
            late = ids[own][stratum[own] < 0][0]
            raise InputError(f"item {late} cannot be of frame {number}, which ends with item {one.last}")
        drawn = np.bincount(stratum[own], minlength=len(one.sizes))
        # Of the last place, which is that of stratum −1, nothing can be drawn.
        rate = np.append(np.minimum(drawn / np.maximum(one.sizes, 1), 1), 0.0)
        passed_over *= 1 - rate[stratum]
    return 1 - passed_over
