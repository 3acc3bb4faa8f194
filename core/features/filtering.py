"""Inner loops of GIST: contrast normalization, and a filter bank in the Fourier domain.

The innermost loop always runs over the 32 columns of an image, which vectorizes well. The Fourier transform
of an image is a transform of its columns, a transposition, and another transform of the columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.jit import kernel

SIDE = 32
RIM = 5
"""Pixels of reflected padding on each side of the image during contrast normalization."""
PADDED = 48
"""Side of a padded image in memory: 42 pixels and 6 zeros, because `multiply` needs a multiple of 8."""
GRID = 4

Matrix = NDArray[np.float32]
BIT_REVERSED = np.array([int(f"{i:05b}"[::-1], 2) for i in range(SIDE)])


@kernel
def multiply(A: Matrix, B: Matrix, out: Matrix) -> None:
    """Write the product AB to `out`.

    The order of summation is fixed. The number of columns of A must be a multiple of 8.
    """
    rows, inner, columns = A.shape[0], A.shape[1], B.shape[1]
    for i in range(rows):
        for j in range(columns):
            out[i, j] = np.float32(0)
        for k in range(0, inner, 8):
            a, b, c, d = A[i, k], A[i, k + 1], A[i, k + 2], A[i, k + 3]
            e, f, g, h = A[i, k + 4], A[i, k + 5], A[i, k + 6], A[i, k + 7]
            for j in range(columns):
                out[i, j] += ((a * B[k, j] + b * B[k + 1, j]) + (c * B[k + 2, j] + d * B[k + 3, j])) + (
                    (e * B[k + 4, j] + f * B[k + 5, j]) + (g * B[k + 6, j] + h * B[k + 7, j])
                )


@kernel
def normalise_contrast(image: Matrix, spread: Matrix, gather: Matrix, out: Matrix) -> None:
    """Normalize the contrast of an image: write h / (0.2 + √(h²∗g)) to `out`.

    Here x is the padded image, g is the low-pass filter of `core.features.gist`, ∗ is convolution, and
    h = x − x∗g.

    Parameters
    ----------
    image : array of shape (32, 32)
        Log intensities.
    spread : array of shape (48, 32)
        Pads a column and convolves it with g.
    gather : array of shape (32, 48)
        Convolves a padded column with g and removes the padding.
    out : array of shape (32, 32)
        The image with normalized contrast.
    """
    half = np.empty((PADDED, SIDE), dtype=np.float32)
    low = np.empty((PADDED, PADDED), dtype=np.float32)
    high = np.empty((PADDED, PADDED), dtype=np.float32)
    other_half = np.empty((SIDE, PADDED), dtype=np.float32)
    power = np.empty((SIDE, SIDE), dtype=np.float32)
    # g preserves constants. Subtracting one pixel's value from the image therefore changes h only by
    # rounding, and makes a constant image exactly zero.
    flat = np.empty((SIDE, SIDE), dtype=np.float32)
    for i in range(SIDE):
        for j in range(SIDE):
            flat[i, j] = image[i, j] - image[0, 0]
    multiply(spread, flat, half)
    multiply(half, np.ascontiguousarray(spread.T), low)
    for i in range(PADDED):
        y = min(max(i - RIM, RIM - 1 - i), 2 * SIDE + RIM - 1 - i)
        for j in range(PADDED):
            x = min(max(j - RIM, RIM - 1 - j), 2 * SIDE + RIM - 1 - j)
            high[i, j] = flat[y, x] - low[i, j]
            low[i, j] = high[i, j] * high[i, j]
    multiply(gather, low, other_half)
    multiply(other_half, np.ascontiguousarray(gather.T), power)
    for i in range(SIDE):
        for j in range(SIDE):
            out[i, j] = high[i + RIM, j + RIM] / (np.float32(0.2) + np.sqrt(abs(power[i, j])))


@kernel
def transform_columns(re: Matrix, im: Matrix, cos: Matrix, sin: Matrix) -> None:
    """Compute the discrete Fourier transform of each column, in place.

    The algorithm is decimation in time with radices 4, 4 and 2. `re` and `im`, of shape (32, 32), hold rows
    in bit-reversed order on input and in natural order on output. `cos` and `sin`, of shape (16,), are the
    real and imaginary parts of exp(−2πi·k/32).
    """
    for k in range(0, SIDE, 4):
        for j in range(SIDE):
            ar, ai = re[k, j] + re[k + 1, j], im[k, j] + im[k + 1, j]
            br, bi = re[k, j] - re[k + 1, j], im[k, j] - im[k + 1, j]
            cr, ci = re[k + 2, j] + re[k + 3, j], im[k + 2, j] + im[k + 3, j]
            dr, di = re[k + 2, j] - re[k + 3, j], im[k + 2, j] - im[k + 3, j]
            re[k, j], im[k, j] = ar + cr, ai + ci
            re[k + 1, j], im[k + 1, j] = br + di, bi - dr
            re[k + 2, j], im[k + 2, j] = ar - cr, ai - ci
            re[k + 3, j], im[k + 3, j] = br - di, bi + dr
    for k in range(0, SIDE, 16):
        for m in range(4):
            a, b, c, d = k + m, k + m + 4, k + m + 8, k + m + 12
            ur, ui = cos[4 * m], sin[4 * m]
            vr, vi = cos[2 * m], sin[2 * m]
            wr, wi = cos[2 * m + 8], sin[2 * m + 8]
            for j in range(SIDE):
                tr, ti = ur * re[b, j] - ui * im[b, j], ur * im[b, j] + ui * re[b, j]
                ar, ai, br, bi = re[a, j] + tr, im[a, j] + ti, re[a, j] - tr, im[a, j] - ti
                tr, ti = ur * re[d, j] - ui * im[d, j], ur * im[d, j] + ui * re[d, j]
                cr, ci, dr, di = re[c, j] + tr, im[c, j] + ti, re[c, j] - tr, im[c, j] - ti
                tr, ti = vr * cr - vi * ci, vr * ci + vi * cr
                re[a, j], im[a, j], re[c, j], im[c, j] = ar + tr, ai + ti, ar - tr, ai - ti
                tr, ti = wr * dr - wi * di, wr * di + wi * dr
                re[b, j], im[b, j], re[d, j], im[d, j] = br + tr, bi + ti, br - tr, bi - ti
    for a in range(16):
        b = a + 16
        wr, wi = cos[a], sin[a]
        for j in range(SIDE):
            tr, ti = wr * re[b, j] - wi * im[b, j], wr * im[b, j] + wi * re[b, j]
            re[b, j], im[b, j] = re[a, j] - tr, im[a, j] - ti
            re[a, j], im[a, j] = re[a, j] + tr, im[a, j] + ti


@kernel
def turn(source: Matrix, out: Matrix, order: NDArray[np.int64]) -> None:
    """Write the transpose of `source` to `out`, with rows in bit-reversed order for the next transform."""
    for i in range(SIDE):
        row = order[i]
        for j in range(SIDE):
            out[row, j] = source[j, i]


@kernel
def average_magnitude(re: Matrix, im: Matrix, out: Matrix) -> None:
    """Write the mean of |z|/32² in each cell of a 4×4 grid to `out`, of shape (16,).

    z is the complex image with real part `re` and imaginary part `im`.
    """
    cell = SIDE // GRID
    column_sums = np.empty(SIDE, dtype=np.float32)
    scale = np.float32(1.0 / (cell * cell * SIDE * SIDE))
    for row in range(GRID):
        column_sums[:] = np.float32(0)
        for i in range(row * cell, (row + 1) * cell):
            for j in range(SIDE):
                column_sums[j] += np.sqrt(re[i, j] * re[i, j] + im[i, j] * im[i, j])
        for column in range(GRID):
            total = np.float32(0)
            for j in range(column * cell, (column + 1) * cell):
                total += column_sums[j]
            out[row * GRID + column] = total * scale


@kernel
def filter_energies(
    images: NDArray[np.float32],
    spread: Matrix,
    gather: Matrix,
    gains: NDArray[np.float32],
    cos: Matrix,
    sin: Matrix,
    order: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """For each image, compute the mean magnitude of each filter's response in each cell of a 4×4 grid.

    `images` has shape (n_images, 32, 32) and `out` has shape (n_images, 16·n_filters). For `spread` and
    `gather` see `normalise_contrast`, for `cos` and `sin` see `transform_columns`; `order` is `BIT_REVERSED`.
    `gains`, of shape (n_filters, 32, 32), has horizontal frequencies as rows and vertical frequencies as
    columns.
    """
    n_filters = gains.shape[0]
    cells = GRID * GRID
    flat = np.empty((SIDE, SIDE), dtype=np.float32)
    re = np.empty((SIDE, SIDE), dtype=np.float32)
    im = np.empty((SIDE, SIDE), dtype=np.float32)
    turned_re = np.empty((SIDE, SIDE), dtype=np.float32)
    turned_im = np.empty((SIDE, SIDE), dtype=np.float32)
    spectrum_re = np.empty((SIDE, SIDE), dtype=np.float32)
    spectrum_im = np.empty((SIDE, SIDE), dtype=np.float32)
    for n in range(images.shape[0]):
        normalise_contrast(images[n], spread, gather, flat)
        for i in range(SIDE):
            row = order[i]
            for j in range(SIDE):
                re[row, j] = flat[i, j]
                im[row, j] = np.float32(0)
        transform_columns(re, im, cos, sin)
        turn(re, spectrum_re, order)
        turn(im, spectrum_im, order)
        transform_columns(spectrum_re, spectrum_im, cos, sin)
        for f in range(n_filters):
            # Transform the conjugate instead of using the inverse transform. The result is the conjugate,
            # which has the same magnitude.
            for i in range(SIDE):
                row = order[i]
                for j in range(SIDE):
                    re[row, j] = spectrum_re[i, j] * gains[f, i, j]
                    im[row, j] = -spectrum_im[i, j] * gains[f, i, j]
            transform_columns(re, im, cos, sin)
            turn(re, turned_re, order)
            turn(im, turned_im, order)
            transform_columns(turned_re, turned_im, cos, sin)
            average_magnitude(turned_re, turned_im, out[n, f * cells : (f + 1) * cells])
