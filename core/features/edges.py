"""Edge histograms: 150 numbers that describe the kinds of edges in each part of an image [1]_ [2]_.

The image is divided into 4×4 parts, and each part into blocks. In each block, let a and b be the mean
intensities of the upper two quarters, and c and d those of the lower two. Five filters detect five kinds of
edge. A block has the kind of edge whose filter responds most strongly, or no edge if that response is below
11/255. The responses are

    vertical |a − b + c − d|, horizontal |a + b − c − d|, diagonal √2·|a − d| and √2·|b − c|,
    non-directional 2·|a − b − c + d|.

For each of the 16 parts, the shares of the 5 kinds among its blocks are computed. These are the 80 numbers of
the MPEG-7 descriptor. The averages of the shares over 14 larger areas follow, 5 numbers each: the whole
image, its 4 columns, its 4 rows, and 5 squares of 2×2 parts in the corners and the center [2]_. These 150
numbers are the descriptor of the MIRFLICKR images [3]_, on which kernelized LSH was evaluated. MPEG-7's rule
for the block size gives 2×2 pixels here, 16 blocks per part. MPEG-7 also quantizes the numbers to three bits;
this module does not.

The numbers are never negative, as the χ² kernel and the intersection kernel require (`core.mercer`).

References
----------
.. [1] C. S. Won, D. K. Park, S.-J. Park: Efficient Use of MPEG-7 Edge Histogram Descriptor, ETRI Journal 24
   (2002).
.. [2] D. K. Park, Y. S. Jeon, C. S. Won: Efficient Use of Local Edge Histogram Descriptor, ACM Multimedia
   Workshops 2000.
.. [3] M. Huiskes, B. Thomee, M. Lew: New Trends and Ideas in Visual Concept Detection, MIR 2010.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.features.grey import checked_grey

KINDS = 5
PARTS = 4
SQUARES = ((0, 0), (0, 2), (2, 0), (2, 2), (1, 1))
"""For each square of 2×2 parts, the row and the column of its upper left part."""

_WEAKEST = 11 / 255
_BLOCKS = 4  # blocks along each side of a part, 2×2 pixels each


class EdgeHistogram:
    """Edge histograms of 32×32 grayscale images.

    Attributes
    ----------
    n_features : int
        150. Feature 5·(4·row + column) + kind is the share of this kind of edge in the part at this row and
        column. Kinds are numbered in the order of this module's docstring. The last 70 features are 5 shares
        for each larger area.
    n_entries : None
        None, because rows are dense.
    """

    n_features = KINDS * (PARTS**2 + 1 + 2 * PARTS + len(SQUARES))
    n_entries: int | None = None

    def transform(self, grey: ArrayLike) -> NDArray[np.float32]:
        """Compute features of shape (n_images, 150), each row of unit norm.

        All features of an image without edges are equal.

        Parameters
        ----------
        grey : array of shape (n_images, 32, 32)
            Intensities from 0 to 1.

        Raises
        ------
        InputError
            If the shape is different, or an intensity is not between 0 and 1.
        """
        local = _local_histograms(checked_grey(grey))
        squares = [local[:, r : r + 2, c : c + 2].mean(axis=(1, 2)) for r, c in SQUARES]
        parts = local.reshape(len(local), PARTS**2, KINDS)
        larger = [parts.mean(axis=1, keepdims=True), local.mean(axis=1), local.mean(axis=2)]
        whole = np.concatenate([parts, *larger, np.stack(squares, axis=1)], axis=1)
        shares = whole.reshape(len(local), self.n_features)
        shares[~shares.any(axis=1)] = 1
        features: NDArray[np.float32] = shares / np.linalg.norm(shares, axis=1, keepdims=True)
        return features


def _local_histograms(grey: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the share of each kind of edge in each part, of shape (n_images, 4, 4, 5)."""
    a, b, c, d = grey[:, ::2, ::2], grey[:, ::2, 1::2], grey[:, 1::2, ::2], grey[:, 1::2, 1::2]
    root = np.float32(np.sqrt(2))
    strengths = np.stack(
        [a - b + c - d, a + b - c - d, root * (a - d), root * (b - c), 2 * (a - b - c + d)], axis=-1
    )
    np.abs(strengths, out=strengths)
    is_kind = strengths.argmax(axis=-1)[..., None] == np.arange(KINDS)
    is_kind &= strengths.max(axis=-1, keepdims=True) >= _WEAKEST
    parts = is_kind.reshape(len(grey), PARTS, _BLOCKS, PARTS, _BLOCKS, KINDS)
    return np.asarray(parts.mean(axis=(2, 4), dtype=np.float32))
