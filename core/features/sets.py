"""Sets of local features: an image as the edges that it has where, embedded by the pyramid match.

144 windows of 6×6 pixels lie on a grid of 12×12, two pixels from one to the next. Each is a point of five
dimensions: its row and column; which way its edges run, as the cosine and the sine of twice the angle, so
that an edge and the same from dark to bright are one; and how strong they are. The latter three come of the
gradient g of the intensities, in units of their deviation σ over the whole image, averaged over the window
[1]_:

    E = ⟨g_x² + g_y²⟩,   c = ⟨g_x² − g_y²⟩ / (E + 0.15²),   s = ⟨2 g_x g_y⟩ / (E + 0.15²),   e = √E / (1 + √E)

Where there is next to no edge, c and s are near zero. They are spread by f(c) = 1.4 c / (0.4 + |c|), which
keeps −1, 0 and 1.

The box of these points is cut into 6 × 6 bins of position, 4 × 4 of direction and 4 of strength, and at
level 1 into half as many each way (`core.mercer.box`). A bin of level 0 takes in four windows at most, one of
level 1 16: so the vocabulary is known without any image, and the same for all pools. Coarser levels would
tell little more, since most points are matched there in any case.

**Chosen** on CIFAR-10, 8,000 images, 1,000 queries to choose by, 1,000 others to report. Of 100 queries the
ten nearest class so many rightly; and of 100 of these ten, so many are among the 80 whose LSH codes of 128
bits are likest:

    what                                                       to choose by   to report   by codes
    GIST                                                             53           50          26
    this                                                             46           45          19
    6 × 6 bins of direction, 8 of strength                           49           47          11
    … and windows of 4×4 pixels                                      50           49           8
    a grid of 8×8 windows of 8×8 pixels, three levels                42           44          10
    … mean and gradients for direction and strength, 8 bins each     34           34

Finer bins tell classes better, but then all images are nearly at right angles, which codes tell apart badly.

Sums are taken in one order, and nothing but additions, products, quotients and square roots is computed: a
row is the same to the last bit whatever the batch and the machine.

References
----------
.. [1] J. Bigün, G. H. Granlund, "Optimal orientation detection of linear symmetry", ICCV 1987.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from closecall.core.features.grey import checked_grey
from closecall.core.mercer.box import PyramidBox
from closecall.core.sources.base import GREY_SIZE

GRID = 12
N_POINTS = GRID**2

_FIRST, _END = 2, 30
"""The windows' first pixel, and the one after their last, either way."""

_FAINT = np.float32(1 / 64)
"""Added to the deviation: what varies less is next to nothing."""
_NO_EDGE = np.float32(0.15**2)
_SPREAD = np.float32(0.4)

_BINS = (6, 6, 4, 4, 4)
_MOST = (4, 16)


class EdgeSets:
    """Sets of local edges of 32×32 grey images, as sparse rows.

    Attributes
    ----------
    n_features : int
        10,368, see `core.mercer.box.PyramidBox`.
    n_entries : int
        288: how many of them are not zero, in every row.
    """

    def __init__(self) -> None:
        self._box = PyramidBox(n_bins=_BINS, most=_MOST)
        self.n_features = self._box.n_features
        self.n_entries: int | None = N_POINTS * len(_MOST)

    def transform(self, grey: ArrayLike) -> csr_array:
        """Features of shape (n_images, 10368), each row of unit norm; the inner product of two is K̃.

        Parameters
        ----------
        grey : array of shape (n_images, 32, 32)
            Intensities from 0 to 1.

        Raises
        ------
        InputError
            If the shape is another, or an intensity is outside 0 … 1 or not a number.
        """
        return self._box.transform(points(grey))


def points(grey: ArrayLike) -> NDArray[np.float32]:
    """The set of each image, of shape (n_images, 144, 5), in the unit of the finest bins; errors as above."""
    grey = checked_grey(grey)
    inner = slice(_FIRST, _END)
    scale = (_deviation(grey) + _FAINT)[:, None, None]
    across = (grey[:, inner, _FIRST + 1 : _END + 1] - grey[:, inner, _FIRST - 1 : _END - 1]) / scale
    down = (grey[:, _FIRST + 1 : _END + 1, inner] - grey[:, _FIRST - 1 : _END - 1, inner]) / scale
    xx, yy, xy = (_averaged(product) for product in (across * across, down * down, across * down))
    energy = xx + yy
    strength = np.sqrt(energy)
    out = np.empty((len(grey), GRID, GRID, len(_BINS)), dtype=np.float32)
    along = (np.arange(GRID, dtype=np.float32) + np.float32(0.5)) * np.float32(_BINS[0] / GRID)
    out[..., 0], out[..., 1] = along[:, None], along
    out[..., 2] = _spread((xx - yy) / (energy + _NO_EDGE)) * np.float32(_BINS[2] / 2)
    out[..., 3] = _spread((xy + xy) / (energy + _NO_EDGE)) * np.float32(_BINS[3] / 2)
    out[..., 4] = strength / (strength + np.float32(1)) * np.float32(_BINS[4])
    return out.reshape(len(grey), N_POINTS, len(_BINS))


def _deviation(grey: NDArray[np.float32]) -> NDArray[np.float32]:
    """The standard deviation of each image's intensities."""
    flat = grey.reshape(len(grey), GREY_SIZE**2)
    n = np.float32(flat.shape[1])
    apart = flat - (_total(flat) / n)[:, None]
    return np.asarray(np.sqrt(_total(apart * apart) / n))


def _total(flat: NDArray[np.float32]) -> NDArray[np.float32]:
    """The sum of each row of 2ⁿ numbers, half by half."""
    while flat.shape[1] > 1:
        half = flat.shape[1] // 2
        flat = flat[:, :half] + flat[:, half:]
    return flat[:, 0]


def _averaged(products: NDArray[np.float32]) -> NDArray[np.float32]:
    """Means over the windows, of shape (n_images, 12, 12), of what each pixel has."""
    pairs = products[:, ::2] + products[:, 1::2]
    pairs = pairs[:, :, ::2] + pairs[:, :, 1::2]
    rows = pairs[:, :-2] + pairs[:, 1:-1] + pairs[:, 2:]
    return np.asarray((rows[:, :, :-2] + rows[:, :, 1:-1] + rows[:, :, 2:]) / np.float32(36))


def _spread(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """1 + f(x), from 0 to 2."""
    return np.asarray(np.float32(1) + (np.float32(1) + _SPREAD) * x / (_SPREAD + np.abs(x)))
