"""GIST: the spatial envelope of a scene in 384 numbers [1]_.

First, contrast is normalized. Let x be the log intensities, g a Gaussian low-pass filter with gain 1/2 at 4
cycles per image, ∗ convolution, and h = x − x∗g. The normalized image is h / (0.2 + √(h²∗g)). Then filters at
3 scales and 8 orientations are applied, each of which is a Gaussian in polar frequency. The magnitude of each
response is averaged over each cell of a 4×4 grid. The constants are those of the authors' program. For the
low-pass filter, the image is padded by reflection. The other filters treat the image as periodic; padding
would be expensive there and change little at 32×32 pixels.

Each image is computed independently, so its features are the same to the last bit for any batch and any
number of threads.

References
----------
.. [1] A. Oliva, A. Torralba: Modeling the Shape of the Scene, IJCV 42 (2001), sections 3 and 4.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.features.filtering import BIT_REVERSED, GRID, PADDED, RIM, SIDE, filter_energies
from closecall.core.features.grey import checked_grey

SCALES = 3
ORIENTATIONS = 8

_CUTOFF = 4.0  # cycles per image at which the gain of the low-pass filter is 1/2
_NEGLIGIBLE = 1e-7  # gains below float32's resolution, set to zero to avoid slow denormal numbers


class Gist:
    """GIST features of 32×32 grayscale images.

    Attributes
    ----------
    n_features : int
        384. The feature of a scale, an orientation and a cell of the 4×4 grid has the index
        (8·scale + orientation)·16 + 4·row + column. Scale 0 is the finest. Orientation o responds to stripes
        that are rotated counterclockwise by 22.5°·o from the vertical.
    n_entries : None
        None, because rows are dense.
    """

    n_features = SCALES * ORIENTATIONS * GRID**2
    n_entries: int | None = None

    def transform(self, grey: ArrayLike) -> NDArray[np.float32]:
        """Compute features of shape (n_images, 384), each row of unit norm.

        A constant image excites no filter; all its features are equal.

        Parameters
        ----------
        grey : array of shape (n_images, 32, 32)
            Intensities from 0 to 1.

        Raises
        ------
        InputError
            If the shape is different, or an intensity is not between 0 and 1.
        """
        grey = checked_grey(grey)
        energies = np.empty((len(grey), self.n_features), dtype=np.float32)
        filter_energies(
            np.log1p(255 * grey), *low_pass(), filters(), *_roots_of_unity(), BIT_REVERSED, energies
        )
        norms = np.linalg.norm(energies, axis=1, keepdims=True)
        constant = norms[:, 0] == 0
        energies[constant] = 1
        norms[constant] = np.sqrt(np.float32(self.n_features))
        features: NDArray[np.float32] = energies / norms
        return features


@cache
def low_pass() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the matrices `spread` and `gather` of `filtering.normalise_contrast`."""
    n = SIDE + 2 * RIM
    frequencies = np.fft.fftfreq(n, 1 / n)
    kernel = np.fft.ifft(np.exp2(-((frequencies / _CUTOFF) ** 2))).real
    convolve = np.array([np.roll(kernel, i) for i in range(n)])
    pad = np.pad(np.eye(SIDE), ((RIM, RIM), (0, 0)), mode="symmetric")
    spread = np.zeros((PADDED, SIDE), dtype=np.float32)
    spread[:n] = convolve @ pad
    gather = np.zeros((SIDE, PADDED), dtype=np.float32)
    gather[:, :n] = convolve[RIM:-RIM]
    return spread, gather


@cache
def filters() -> NDArray[np.float32]:
    """Return the gains of all filters, of shape (24, 32, 32).

    The last two axes are horizontal and vertical frequency, both in FFT order. A gain is
    exp(−3.5·(f/f_s − 1)² − 2π(θ + πo/8)²) at polar frequency (f, θ), with f_s = 0.3/1.85ˢ cycles per pixel
    for scale s = 0, 1, 2 and orientation o = 0 … 7. Each filter covers one side of the origin only, so that
    the magnitude of its response follows the contrast of the stripes, not their phase.
    """
    across, down = np.meshgrid(np.fft.fftfreq(SIDE), np.fft.fftfreq(SIDE), indexing="ij")
    radius, angle = np.hypot(across, down), np.arctan2(down, across)
    gains = np.empty((SCALES, ORIENTATIONS, SIDE, SIDE))
    for scale in range(SCALES):
        for orientation in range(ORIENTATIONS):
            off_scale = radius / (0.3 / 1.85**scale) - 1
            off_angle = (angle + np.pi * orientation / ORIENTATIONS + np.pi) % (2 * np.pi) - np.pi
            gains[scale, orientation] = np.exp(-3.5 * off_scale**2 - 2 * np.pi * off_angle**2)
    gains[gains < _NEGLIGIBLE] = 0
    return gains.reshape(-1, SIDE, SIDE).astype(np.float32)


@cache
def _roots_of_unity() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    roots = np.exp(-2j * np.pi * np.arange(SIDE // 2) / SIDE)
    return roots.real.astype(np.float32), roots.imag.astype(np.float32)
