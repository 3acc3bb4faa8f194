"""Estimates of scores from codes: points reconstructed from their bits by least squares.

Each hyperplane family embeds a point x as a vector E(x), and a hyperplane as a vector e. For H-Hash,
⟨e, E(x)⟩ is the score of the point. For the other families, which use x only in xxᵀ, ⟨e, E(x)⟩ is the square
of the score. The bits of a point are signs of random projections of E(x). Let β be a vector of some of these
bits, with entries ±1. The linear estimate of E(x) with the smallest mean squared error is

    Ê(x) = E₀ + Dᵀβ,   D = (C + λI)⁻¹ M,   E₀ = mean E − Dᵀ mean β.

Over a sample of points, C is the covariance of the bits and M the covariance of the bits with E. λ is a small
regulariser. The estimate of the score or its square is ⟨e, Ê(x)⟩ = ⟨e, E₀⟩ + (De)ᵀβ: a constant plus a
weighted sum of the bits. Such comparisons of bits with real numbers are known as asymmetric distances (Dong,
Charikar and Li 2008).

If points were spread evenly about the origin, simpler weights would be just as good: the same random
projections, computed for the hyperplane's normal as if it were a point. But features are not spread evenly,
so their bits are correlated. D takes the correlations into account. For example, let a search find the 500
points with the best estimates and return the best of them by exact score. On GIST of digits with 600 bits of
H-Hash, the rank of the returned point among all points is a quarter to a half of the rank with weights of ±1.
For keys of 14 bits in a hash table (`core.search.table`), the gain is even larger.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from closecall.core.hashing.base import Arrays
from closecall.core.hashing.projection import combined

Floats32 = NDArray[np.float32]
Floats64 = NDArray[np.float64]
Bits = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The linear map E₀ + Dᵀβ, which estimates an embedded point from some or all bits β of the point's code.

    Parameters
    ----------
    parts : array of shape (n_embedded, n_bits + 1), float32
        The matrix Dᵀ, followed by the vector E₀ as the last column.
    """

    parts: Floats32

    def weights(self, embedded: Floats32) -> tuple[Floats32, float]:
        """Return the weights De of the bits and the constant ⟨e, E₀⟩ for an embedded hyperplane e.

        The weights have shape (n_bits,). The constant plus the weighted sum of the bits estimates the score
        of a point or the square of the score.
        """
        both = combined(embedded, self.parts)
        return both[:-1], float(both[-1])


@dataclass(frozen=True, eq=False)
class Moments:
    """Means and covariances of bits and embedded points over a sample.

    Parameters
    ----------
    samples : int
        Number of points.
    bits : array of shape (n_bits,), float64
        Mean of the bits, as numbers ±1.
    embedded : array of shape (n_embedded,), float64
        Mean of the embedded points.
    covariance : array of shape (n_bits, n_bits), float32
        Covariance C of the bits.
    cross : array of shape (n_bits, n_embedded), float32
        Covariance M of the bits with the embedded points.
    """

    samples: int
    bits: Floats64
    embedded: Floats64
    covariance: Floats32
    cross: Floats32

    @classmethod
    def of(cls, blocks: Iterable[tuple[Bits, Floats32]]) -> Moments:
        """Return the moments of points given in blocks of (bits, embedded points), with one row per point."""
        n = 0
        sums: list[Floats64] = []
        for bits, embedded in blocks:
            signs = np.where(bits, np.float32(1), np.float32(-1))
            found = (signs.sum(axis=0), embedded.sum(axis=0), signs.T @ signs, signs.T @ embedded)
            wide = [np.asarray(part, dtype=np.float64) for part in found]
            sums = [a + b for a, b in zip(sums, wide, strict=True)] if sums else wide
            n += len(bits)
        bits_mean, embedded_mean, squares, products = (total / n for total in sums)
        return cls(
            samples=n,
            bits=bits_mean,
            embedded=embedded_mean,
            covariance=(squares - np.outer(bits_mean, bits_mean)).astype(np.float32),
            cross=(products - np.outer(bits_mean, embedded_mean)).astype(np.float32),
        )

    def reconstruction(self, bits: NDArray[np.int64] | None = None) -> Reconstruction:
        """Return the least-squares reconstruction from the bits with these indices, by default from all bits.

        The regulariser λ is the number of bits divided by the number of samples. It is small for a large
        sample, but keeps C + λI well conditioned if some bits are equal or bits outnumber samples.
        """
        bits = np.arange(len(self.bits)) if bits is None else bits
        ridge = len(bits) / self.samples
        C = self.covariance[np.ix_(bits, bits)].astype(np.float64) + ridge * np.eye(len(bits))
        D = np.linalg.solve(C, self.cross[bits].astype(np.float64))
        rest = self.embedded - self.bits[bits] @ D
        return Reconstruction(np.vstack([D, rest]).T.astype(np.float32, order="C"))

    def arrays(self) -> Arrays:
        """Return the fields as arrays, by name."""
        return {
            "samples": np.array([self.samples]),
            "bits": self.bits,
            "embedded": self.embedded,
            "covariance": self.covariance,
            "cross": self.cross,
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Moments:
        """Rebuild the moments from the result of `arrays`."""
        rest = {name: arrays[name] for name in ("bits", "embedded", "covariance", "cross")}
        return cls(samples=int(arrays["samples"][0]), **rest)
