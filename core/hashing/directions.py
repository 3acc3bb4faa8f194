"""Principal directions of sparse rows, computed without making the rows dense.

Centred rows X − 1μᵀ, where 1 is a vector of ones, have no zeros. But their product with a vector v can be
computed from the sparse X as Xv − 1(μᵀv). Lanczos' method (ARPACK) finds the first singular vectors from such
products alone. If there are few rows, the singular vectors are computed from the Gram matrix of the centred
rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, svds

from closecall.core.numerics.interruption import go_on

_FEW_ROWS = 1_000

Floats64 = NDArray[np.float64]


def principal_directions(X: csr_array, centre: Floats64, n_directions: int) -> tuple[Floats64, Floats64]:
    """Return the principal directions of rows, and the energy of the rows along each direction.

    The energy along a direction u is the mean square of uᵀ(x − μ) over the rows x.

    Parameters
    ----------
    X : csr_array
        Rows, of shape (n, n_features).
    centre : array of shape (n_features,)
        Mean μ of the rows, or zeros.
    n_directions : int
        Number of directions, less than n_features.

    Returns
    -------
    energies : array of shape (n_directions,), ascending
        The largest energies.
    directions : array of shape (n_features, n_directions), float64
        Orthonormal columns. If the rows span fewer directions, the remaining directions have an energy of 0.
    """
    n, n_features = X.shape
    wide = X.astype(np.float64)
    if n <= max(_FEW_ROWS, 2 * n_directions):
        return _of_few(wide, centre, n_directions)

    def times(v: Floats64) -> Floats64:
        go_on()  # the decomposition may take minutes
        return np.asarray(wide @ v.ravel() - centre @ v.ravel())

    centred = LinearOperator(
        (n, n_features),
        matvec=times,
        rmatvec=lambda v: wide.T @ v.ravel() - centre * v.sum(),
        dtype=np.float64,
    )
    start = np.random.default_rng(0).standard_normal(min(n, n_features))
    _, values, vectors = svds(centred, k=n_directions, v0=start, return_singular_vectors="vh")
    order = np.argsort(values, kind="stable")
    return values[order] ** 2 / n, np.ascontiguousarray(vectors[order].T)


def _of_few(X: csr_array, centre: Floats64, n_directions: int) -> tuple[Floats64, Floats64]:
    n = X.shape[0]
    products = X @ centre
    gram = (X @ X.T).toarray() - products[:, None] - products[None, :] + centre @ centre
    values, vectors = np.linalg.eigh(gram / n)
    values, vectors = values[-n_directions:], vectors[:, -n_directions:]
    kept = values > 1e-12 * max(float(values[-1]), 0.0) if len(values) else np.zeros(0, dtype=np.bool_)
    values, vectors = values[kept], vectors[:, kept]
    found = (X.T @ vectors - np.outer(centre, vectors.sum(axis=0))) / np.sqrt(n * values)
    missing = n_directions - len(values)
    if missing:
        found = np.hstack([_others(found, missing), found])
        values = np.concatenate([np.zeros(missing), values])
    return values, found


def _others(found: Floats64, n: int) -> Floats64:
    """Return n orthonormal directions that are orthogonal to the directions in `found`."""
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((len(found), n))
    for _ in range(2):
        drawn -= found @ (found.T @ drawn)
        drawn = np.linalg.qr(drawn)[0]
    return drawn
