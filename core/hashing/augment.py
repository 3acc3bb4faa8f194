"""Points and hyperplanes made comparable by their angle, without changing any score.

The hash families look at the angle between x and w alone, for a hyperplane through the origin. The usual
appended 1 gives that, since wᵀx + b = [w, b]ᵀ[x, 1]. But features such as GIST all point about the same
way, so then the angles hardly differ. Taking the mean μ away, and appending another constant c, keeps every
score:

    [w, (b + wᵀμ)/c]ᵀ [x − μ, c] = wᵀx + b.

What it changes is the cosine, score / (‖[x − μ, c]‖ · ‖[w, (b + wᵀμ)/c]‖). A small c lets the bias swamp w,
and a large c lets the constant swamp x; for a hyperplane at the distance δ from μ and points at the distance
s from it, the product of the two norms is least at c = √(sδ). The hyperplane isn't known when points are
hashed, so c is a parameter, `scale` times the root mean square of s over the fitted points.

On GIST of CIFAR-10 and of digits, with SVMs as in the paper (δ about twice s) and with more labels or
balanced classes (δ of 0.1 to 1 times s), scales of 0.7, 1 and 1.4 were tried: the paper's setting does a
little better at 1.4, the others at 0.7, and 1 well in both. Projecting to 32 directions helped as often as
it hurt, so all features are kept by default.

Points are not made unit-norm again. A sign only knows directions, so multiplying [x − μ, c] by anything
changes no code; and making x − μ unit-norm before c is appended would change the score. The price is that,
norms being unequal, the order by angle is not quite the order by |wᵀx + b|. The candidates are scored
exactly anyway.

Sparse rows are never centred as they are: with directions, Pᵀ(x − μ) = Pᵀx − Pᵀμ is dense and short, and
without, `SparsePoints` are multiplied in the same way by whatever they are projected on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from closecall.core.hashing.base import Arrays
from closecall.core.hashing.directions import principal_directions
from closecall.core.hashing.projection import Vectors, combined
from closecall.core.linear.hyperplane import Hyperplane, settled_signs
from closecall.core.numerics.gram_rotation import combination
from closecall.core.numerics.jit import kernel
from closecall.core.numerics.rows import Rows, is_sparse, products, squared_norms

Floats32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Augmentation:
    """The map x ↦ [x − μ, c], or [Pᵀ(x − μ), c] with few principal directions P, and the same for (w, b).

    Parameters
    ----------
    centre : array of shape (n_features,), float32
        μ.
    constant : float
        c.
    directions : array of shape (n_features, n_directions), float32, or None
        P, orthonormal columns. With them the score of x + (its component outside P) is what is kept.
    """

    centre: Floats32
    constant: float
    directions: Floats32 | None = None

    @classmethod
    def fitted(cls, X: Rows, *, centred: bool, scale: float, n_directions: int | None) -> Augmentation:
        """μ, c and P of some rows.

        Parameters
        ----------
        X : array
            Of shape (n_samples, n_features), float32, or csr_array.
        centred : bool
            Whether to take the mean away.
        scale : float
            c, in units of the root mean square of ‖x − μ‖ (of ‖Pᵀ(x − μ)‖ where there are directions).
        n_directions : int or None
            How many principal directions; None keeps all features as they are.
        """
        if is_sparse(X):
            return cls._of_sparse(X, centred, scale, n_directions)
        wide = X.astype(np.float64)
        centre = wide.mean(axis=0) if centred else np.zeros(X.shape[1])
        wide -= centre
        second_moment = wide.T @ wide / len(wide)
        values, vectors = np.linalg.eigh(second_moment)
        directions = None
        if n_directions is not None and n_directions < X.shape[1]:
            values, vectors = values[-n_directions:], vectors[:, -n_directions:]
            directions = settled_signs(vectors).astype(np.float32)
        spread = float(np.sqrt(max(values.sum(), 0.0)))
        return cls(centre.astype(np.float32), scale * spread or 1.0, directions)

    @classmethod
    def _of_sparse(cls, X: csr_array, centred: bool, scale: float, n_directions: int | None) -> Augmentation:
        n = X.shape[0]
        centre = combination(np.full(n, 1 / n if centred else 0.0), X)
        directions = None
        if n_directions is not None and n_directions < X.shape[1]:
            energies, vectors = principal_directions(X, centre, n_directions)
            directions = settled_signs(vectors).astype(np.float32)
            energy = float(energies.sum())
        else:
            energy = float(squared_norms(X).sum()) / n - float(centre @ centre)
        spread = float(np.sqrt(max(energy, 0.0)))
        return cls(centre.astype(np.float32), scale * spread or 1.0, directions)

    def arrays(self) -> Arrays:
        """All there is to it, by name."""
        named = {"centre": self.centre, "constant": np.array([self.constant])}
        return named if self.directions is None else {**named, "directions": self.directions}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Augmentation:
        """The augmentation that gave these `arrays`."""
        return cls(arrays["centre"], float(arrays["constant"][0]), arrays.get("directions"))

    @property
    def n_dimensions(self) -> int:
        """The length of an augmented point."""
        return (len(self.centre) if self.directions is None else self.directions.shape[1]) + 1

    def points(self, X: Rows) -> Floats32 | SparsePoints:
        """The augmented rows of X, of shape (n_samples, n_dimensions)."""
        if is_sparse(X):
            if self.directions is None:
                return SparsePoints(X, self.centre, self.constant)
            kept = products(X, self.directions) - combined(self.centre, self.directions)
        else:
            moved = X - self.centre
            kept = moved if self.directions is None else moved @ self.directions
        augmented = np.empty((X.shape[0], self.n_dimensions), dtype=np.float32)
        augmented[:, :-1] = kept
        augmented[:, -1] = self.constant
        return augmented

    def hyperplane(self, hyperplane: Hyperplane) -> Floats32:
        """[w, (b + wᵀμ)/c], of shape (n_dimensions,), scaled to unit norm."""
        normal, centre = hyperplane.normal, self.centre
        kept = normal if self.directions is None else combined(normal, self.directions)
        return _augmented(kept, normal, hyperplane.bias, centre, self.constant)


@dataclass(frozen=True, eq=False)
class SparsePoints:
    """The rows [x − μ, c] of sparse x, which only exist as factors: `points @ vectors` is dense.

    Parameters
    ----------
    X : csr_array
    centre, constant
        μ and c, as of `Augmentation`.
    """

    X: csr_array
    centre: Floats32
    constant: float

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """(n_samples, n_dimensions)."""
        return len(self), int(self.X.shape[1]) + 1

    def dense(self) -> Floats32:
        """The rows as they are; for few dimensions."""
        augmented = np.empty(self.shape, dtype=np.float32)
        augmented[:, :-1] = self.X.toarray() - self.centre
        augmented[:, -1] = self.constant
        return augmented

    def __matmul__(self, vectors: Vectors) -> Floats32:
        shift = np.float32(self.constant) * vectors[-1] - combined(self.centre, vectors[:-1])
        projected: Floats32 = products(self.X, vectors[:-1]) + shift
        return projected


@kernel
def _augmented(
    kept: NDArray[np.float64], normal: NDArray[np.float64], bias: float, centre: Floats32, constant: float
) -> Floats32:
    """[kept, (b + wᵀμ)/c] of unit norm; zero where all of it is."""
    n = kept.shape[0]
    for i in range(normal.shape[0]):
        bias += normal[i] * centre[i]
    bias /= constant
    greatest = abs(bias)
    for i in range(n):
        greatest = max(greatest, abs(kept[i]))
    augmented = np.zeros(n + 1, dtype=np.float32)
    if greatest == 0:
        return augmented
    squares = (bias / greatest) ** 2
    for i in range(n):
        squares += (kept[i] / greatest) ** 2
    norm = np.sqrt(squares)
    for i in range(n):
        augmented[i] = kept[i] / greatest / norm
    augmented[n] = bias / greatest / norm
    return augmented
