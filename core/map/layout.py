"""Layout of a map: UMAP places a sample of the items, and other items are placed among the sample.

UMAP [1]_ places items in the plane such that items with similar features are near each other. This takes half
an hour for a million items, so only a sample is placed in this way. Every other item is then placed at the
weighted mean of the positions of its k nearest sample items. The weights are d⁻ᵖ for the distances d, as in
Shepard's interpolation [2]_.

Distances are measured between the first `COMPONENTS` principal components of the features. UMAP starts from
the first two components, because a random start loses the arrangement of distant groups [3]_.

References
----------
.. [1] L. McInnes, J. Healy, J. Melville: UMAP: Uniform Manifold Approximation and Projection for Dimension
       Reduction, 2018, arXiv:1802.03426.
.. [2] D. Shepard: A Two-Dimensional Interpolation Function for Irregularly-Spaced Data, ACM National
       Conference 1968.
.. [3] D. Kobak, G. C. Linderman: Initialization Is Critical for Preserving Global Data Structure in Both
       t-SNE and UMAP, Nature Biotechnology 2021.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.numerics.blas import one_thread
from closecall.core.numerics.rows import Rows, is_sparse

COMPONENTS = 50
"""Number of principal components. Fifty of them keep 91 % of the variance of the digits."""

NEIGHBOURS = 15
"""Number of neighbours that UMAP tries to keep near each item of the sample."""

EPOCHS = 200
"""Number of passes of UMAP's optimization over the pairs of neighbours."""

PLACED_BY = 3
"""Number k of nearest sample items that determine the position of another item.

For 10,000 digits that are not in the sample of 10,000 digits, the map's trustworthiness with 15 neighbours is
0.944 with k = 3, 0.937 with k = 5, and 0.929 with k = 10.
"""

POWER = 2
"""Exponent p of the weights d⁻ᵖ, where d is a distance."""

_WIDTH, _NOISE = 10.0, 1e-4
"""Largest initial coordinate, and standard deviation of the noise that separates equal items. UMAP itself
uses the same values.
"""

_LEAST_DISTANCE = 1e-6
"""Lower bound of distances, which avoids infinite weights. All distances that matter are much larger."""

Floats32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Layout:
    """Positions of a sample, with the arrays needed to place other items.

    Parameters
    ----------
    axes : array of shape (n_features, n_components), float32
        The principal axes.
    centre : array of shape (n_components,), float32
        The mean of the sample along the axes.
    sample : array of shape (n_sample, n_components), float32
        The principal components of the sample.
    positions : array of shape (n_sample, 2), float32
        The positions of the sample on the map.
    """

    axes: Floats32
    centre: Floats32
    sample: Floats32
    positions: Floats32

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by parameter name."""
        return dict(vars(self))

    def place(self, blocks: Iterable[Rows]) -> Floats32:
        """Return the positions of the rows of all blocks, of shape (n, 2).

        The last bits of a position may depend on the sizes of the blocks.
        """
        with one_thread():
            components = [_components(X, self.axes, self.centre) for X in blocks]
        k = min(PLACED_BY, len(self.sample))
        distances, nearest = _nearest(self.sample, np.concatenate(components), k)
        weights = np.maximum(distances.astype(np.float64), _LEAST_DISTANCE) ** -POWER
        weights /= weights.sum(axis=1, keepdims=True)
        placed = np.einsum("nk,nkc->nc", weights, self.positions[nearest].astype(np.float64))
        return np.asarray(placed, dtype=np.float32)


def lay_out(X: Rows, *, seed: int = 0) -> Layout:
    """Lay out a sample of rows, of shape (n_sample, n_features) with n_sample ≥ 3.

    Equal rows and seeds give equal layouts on one machine. Other processors and versions of libraries may
    give other layouts.

    Raises
    ------
    InputError
        If UMAP is not installed.
    """
    from sklearn.decomposition import PCA  # a slow import, which reading a map doesn't need

    if is_sparse(X) and X.shape[1] <= COMPONENTS:
        X = X.toarray()  # ARPACK, which finds the axes of sparse rows, can't find all of them
    n_components = min(COMPONENTS, X.shape[0] - 1, X.shape[1])
    with one_thread():
        reduction = PCA(n_components, random_state=seed).fit(X)
        axes = np.ascontiguousarray(reduction.components_.T, dtype=np.float32)
        centre = np.asarray(reduction.mean_ @ axes, dtype=np.float32)
        sample = _components(X, axes, centre)
    return Layout(axes, centre, sample, umap_positions(sample, seed=seed))


def umap_positions(sample: Floats32, *, seed: int) -> Floats32:
    """Compute the positions of a sample with UMAP, of shape (n_sample, 2).

    The exact nearest neighbours are passed to UMAP. Its own search is approximate, and depends on the number
    of threads.

    Raises
    ------
    InputError
        If UMAP is not installed.
    """
    umap = _umap()
    start = np.random.default_rng(seed).normal(scale=_NOISE, size=(len(sample), 2))
    start[:, : sample.shape[1]] += _WIDTH * sample[:, :2] / max(float(np.abs(sample[:, :2]).max()), 1e-30)
    k = min(NEIGHBOURS, len(sample))
    distances, neighbours = _nearest(sample, sample, k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # UMAP warns that it could not place new items
        learner = umap.UMAP(
            n_neighbors=k,
            n_epochs=EPOCHS,
            init=start.astype(np.float32),
            precomputed_knn=(neighbours, distances.astype(np.float32), None),
            random_state=seed,
            n_jobs=1,
        )
        return np.asarray(learner.fit_transform(sample), dtype=np.float32)


def _nearest(sample: Floats32, items: Floats32, k: int) -> tuple[Floats32, NDArray[np.int64]]:
    """For each item, return the distances and row numbers of its k nearest sample items, nearest first."""
    from sklearn.neighbors import NearestNeighbors  # a slow import, which reading a map doesn't need

    found: tuple[Floats32, NDArray[np.int64]]
    found = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(sample).kneighbors(items)
    return found


def _components(X: Rows, axes: Floats32, centre: Floats32) -> Floats32:
    return np.asarray(X @ axes, dtype=np.float32) - centre


def _umap() -> Any:
    try:
        import umap
    except ImportError as error:
        raise InputError(
            f"the map of a pool needs umap-learn, which cannot be imported ({error}): "
            f'pip install "closecall[map]"'
        ) from error
    return umap
