"""What a code says of a score: points reconstructed from their bits by least squares.

Every family embeds a point as a vector E(x), and a hyperplane as e, such that ⟨e, E(x)⟩ is the score, for
H-Hash, or its square, for the families that see x only in xxᵀ; the bits are signs of random projections of
E(x). Let β = ±1 be some of the bits. The linear estimate of E(x) with the least mean square error is

    Ê(x) = E₀ + Dᵀβ,   D = (C + λI)⁻¹ M,   E₀ = mean E − Dᵀ mean β,

with C the covariance of the bits and M that of the bits with E, over a sample of points. So ⟨e, Ê(x)⟩ is a
constant and a weight for each bit: (De)ᵀβ. Comparing a point's bits with real numbers instead of bits is
known as asymmetric distance (Dong, Charikar and Li 2008). Weighing a bit by the hyperplane's own projection
would be the same if points lay evenly about the origin. Features don't: the bits are correlated, and D
takes account of that. On GIST of digits, 600 bits of H-Hash, best of 500, this halves to quarters the rank
of weights ±1, and for a key of 14 bits it is more yet (`core.search.table`).
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
    """The map β ↦ Ê = E₀ + Dᵀβ of some bits.

    Parameters
    ----------
    parts : array of shape (n_embedded, n_bits + 1), float32
        Dᵀ, and E₀ in the last column.
    """

    parts: Floats32

    def weights(self, embedded: Floats32) -> tuple[Floats32, float]:
        """For an embedded hyperplane e: what each bit weighs, De of shape (n_bits,), and ⟨e, E₀⟩."""
        both = combined(embedded, self.parts)
        return both[:-1], float(both[-1])


@dataclass(frozen=True, eq=False)
class Moments:
    """Means and covariances of bits and embedded points over a sample.

    Parameters
    ----------
    samples : int
        How many points.
    bits : array of shape (n_bits,), float64
        The mean of β.
    embedded : array of shape (n_embedded,), float64
        The mean of E.
    covariance : array of shape (n_bits, n_bits), float32
        C.
    cross : array of shape (n_bits, n_embedded), float32
        M.
    """

    samples: int
    bits: Floats64
    embedded: Floats64
    covariance: Floats32
    cross: Floats32

    @classmethod
    def of(cls, blocks: Iterable[tuple[Bits, Floats32]]) -> Moments:
        """The moments of points that come in blocks of (bits, embedded points), one row each."""
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
        """The best reconstruction from these bits alone, from all by default.

        λ is the number of bits for each sample: little where the sample is large, and enough to tame bits
        that are equal or too many for it.
        """
        bits = np.arange(len(self.bits)) if bits is None else bits
        ridge = len(bits) / self.samples
        C = self.covariance[np.ix_(bits, bits)].astype(np.float64) + ridge * np.eye(len(bits))
        D = np.linalg.solve(C, self.cross[bits].astype(np.float64))
        rest = self.embedded - self.bits[bits] @ D
        return Reconstruction(np.vstack([D, rest]).T.astype(np.float32, order="C"))

    def arrays(self) -> Arrays:
        """All there is to it, by name."""
        return {
            "samples": np.array([self.samples]),
            "bits": self.bits,
            "embedded": self.embedded,
            "covariance": self.covariance,
            "cross": self.cross,
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Moments:
        """The moments that gave these `arrays`."""
        rest = {name: arrays[name] for name in ("bits", "embedded", "covariance", "cross")}
        return cls(samples=int(arrays["samples"][0]), **rest)
