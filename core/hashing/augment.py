"""Augmentation of points and hyperplanes: their angles differ more, but the scores wᵀx + b stay the same.

The hyperplane families of hash functions use only the angle between a point x and the normal w of a
hyperplane through the origin. Appending a 1 to x turns a hyperplane with a bias b into a hyperplane through
the origin, because wᵀx + b = [w, b]ᵀ[x, 1]. But features such as GIST all point in about the same direction,
so the angles hardly differ. Here, the mean μ is subtracted from x, and a constant c is appended instead of 1.
With a matching change of the hyperplane, every score stays the same:

    [w, (b + wᵀμ)/c]ᵀ [x − μ, c] = wᵀx + b.

The cosine becomes score / (‖[x − μ, c]‖ · ‖[w, (b + wᵀμ)/c]‖). If c is small, the bias dominates w. If c is
large, the constant dominates x. For a hyperplane at the distance δ from μ and points at the distance s from
μ, the product of the two norms is smallest at c = √(sδ). The hyperplane is not known when points are hashed,
so c is set to the parameter `scale` times the root mean square of s over the fitted points.

Scales of 0.7, 1 and 1.4 were compared on GIST of CIFAR-10 and of digits. SVMs as in Jain et al. 2010 have a δ
of about 2s and did slightly better at 1.4. SVMs with more labels or balanced classes have a δ of 0.1s to s
and did slightly better at 0.7. A scale of 1 works well for both kinds of SVM. Projecting to 32 principal
directions helped as often as it hurt, so all features are kept by default.

Augmented points are not scaled to unit norm. Scaling [x − μ, c] would change no code, because the sign of a
projection only depends on direction. Scaling x − μ before c is appended would change the score. Because the
norms of augmented points differ, their order by angle is not exactly the order by |wᵀx + b|. The points that
a search finds are therefore ordered by their exact scores.

Sparse rows are never centred explicitly, because centred rows would be dense. With principal directions as
columns of a matrix P, the short vector Pᵀ(x − μ) is computed as Pᵀx − Pᵀμ. Without directions, `SparsePoints`
computes products with the vectors of the hash functions in the same way.
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
    """The map x ↦ [x − μ, c] of points, and the map of hyperplanes that keeps all scores wᵀx + b.

    With principal directions P, a point is mapped to [Pᵀ(x − μ), c]. In this case, the score of the
    projection μ + PPᵀ(x − μ) is kept.

    Parameters
    ----------
    centre : array of shape (n_features,), float32
        Mean μ of the points, or zeros.
    constant : float
        Appended constant c.
    directions : array of shape (n_features, n_directions), float32, or None
        Principal directions P, as orthonormal columns.
    """

    centre: Floats32
    constant: float
    directions: Floats32 | None = None

    @classmethod
    def fitted(cls, X: Rows, *, centred: bool, scale: float, n_directions: int | None) -> Augmentation:
        """Return the augmentation with μ, c and P estimated from X.

        Parameters
        ----------
        X : array
            Rows of shape (n_samples, n_features), float32 or csr_array.
        centred : bool
            Whether to subtract the mean.
        scale : float
            c divided by the root mean square of ‖x − μ‖, or of ‖Pᵀ(x − μ)‖ if there are directions. If the
            root mean square is zero, c is 1.
        n_directions : int or None
            Number of principal directions; None keeps all features.
        """
        if is_sparse(X):
            return cls._of_sparse(X, centred, scale, n_directions)
        wide = X.astype(np.float64)
        centre = wide.mean(axis=0) if centred else np.zeros(X.shape[1])
        wide -= centre
        directions = None
        if n_directions is not None and n_directions < X.shape[1]:
            values, vectors = np.linalg.eigh(wide.T @ wide / len(wide))
            values, vectors = values[-n_directions:], vectors[:, -n_directions:]
            directions = settled_signs(vectors).astype(np.float32)
            energy = float(values.sum())
        else:
            energy = float(np.einsum("ij,ij->", wide, wide)) / len(wide)
        spread = float(np.sqrt(max(energy, 0.0)))
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
        """Return the fields as arrays, by name."""
        named = {"centre": self.centre, "constant": np.array([self.constant])}
        return named if self.directions is None else {**named, "directions": self.directions}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Augmentation:
        """Rebuild the augmentation from the result of `arrays`."""
        return cls(arrays["centre"], float(arrays["constant"][0]), arrays.get("directions"))

    @property
    def n_dimensions(self) -> int:
        """Length of an augmented point."""
        return (len(self.centre) if self.directions is None else self.directions.shape[1]) + 1

    def points(self, X: Rows) -> Floats32 | SparsePoints:
        """Return the augmented rows of X, of shape (n_samples, n_dimensions).

        The result is `SparsePoints` if X is sparse and there are no directions.
        """
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
        """Return the augmented hyperplane [w, (b + wᵀμ)/c] scaled to unit norm, of shape (n_dimensions,).

        With principal directions P, the first part is Pᵀw instead of w.
        """
        normal, centre = hyperplane.normal, self.centre
        kept = normal if self.directions is None else combined(normal, self.directions)
        return _augmented(kept, normal, hyperplane.bias, centre, self.constant)


@dataclass(frozen=True, eq=False)
class SparsePoints:
    """Augmented sparse rows [x − μ, c], stored as x, μ and c. The product `points @ vectors` is dense.

    Parameters
    ----------
    X : csr_array of shape (n_samples, n_features)
        The rows x.
    centre, constant
        μ and c, as in `Augmentation`.
    """

    X: csr_array
    centre: Floats32
    constant: float

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the augmented points, (n_samples, n_dimensions)."""
        return len(self), int(self.X.shape[1]) + 1

    def dense(self) -> Floats32:
        """Return the rows as a dense array; this is practical only with few dimensions."""
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
    """Return [kept, (b + wᵀμ)/c] scaled to unit norm, or zeros if all entries are zero.

    `kept` is w or Pᵀw. w is `normal`, b is `bias`, μ is `centre` and c is `constant`.
    """
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
