"""Probabilities that the hash values of a point and a hyperplane agree.

The probabilities depend on the angle θ, in radians, between the point x and the normal w of the hyperplane.
The nearer the point is to the hyperplane, the nearer θ is to π/2, where all probabilities have their maximum.
Let t = θ/π and ρ = cos θ. All formulas follow from Pr[sign(uᵀa) = sign(uᵀb)] = 1 − t for Gaussian u and
vectors a, b at the angle θ (Goemans and Williamson 1995; eq. 5 of [1]_). In the hash value of a hyperplane,
one sign is flipped, so 1 − t becomes t. Claims and equations are those of [1]_.

====================  =======================================  =====================================
family                probability                              near π/2, with δ = θ − π/2
====================  =======================================  =====================================
H-Hash, both bits     t(1 − t) = 1/4 − (t − 1/2)²  (claim 3.2) 1/4 − δ²/π²
BH-Hash               2t(1 − t) = 1/2 − 2(t − 1/2)²            1/2 − (2/π) δ²/π
EH-Hash, dense        arccos(ρ²)/π                (eq. 9)      1/2 − δ²/π
EH-Hash, rank r       E[arccos(ρR)]/π, with R as below         1/2 − c_r δ²/π, with c_r as below
====================  =======================================  =====================================

**Rank r.** Let U = Σ_j u_j v_jᵀ with 2r independent Gaussian vectors. Then ⟨U, xxᵀ⟩ = aᵀb with a_j = u_jᵀx
and b_j = v_jᵀx. Likewise, ⟨U, wwᵀ⟩ = a'ᵀb' with a'_j = u_jᵀw and b'_j = v_jᵀw. Given a and a', the numbers
aᵀb and a'ᵀb' are Gaussian with the correlation ρ·aᵀa'/(‖a‖‖a'‖) = ρR. R is the (uncentred) sample correlation
of r independent pairs (a_j, a'_j) whose true correlation is ρ, so it has Fisher's density. For r = 1, R is 1
or −1, which gives the formula of BH-Hash. For r → ∞, R → ρ, which gives the formula of the dense form. The
signal of a family is the coefficient of −δ²/π. Rank r keeps the fraction c_r = (2/r)(Γ((r+1)/2)/Γ(r/2))² of
the signal of the dense form: 64 % at rank 1, 79 % at 2, 88 % at 4, 94 % at 8 and 97 % at 16.

References
----------
.. [1] P. Jain, S. Vijayanarasimhan, K. Grauman, "Hashing hyperplane queries to near points with applications
   to large-scale active learning", NIPS 2010.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, hyp2f1

Probabilities = NDArray[np.float64]

_NEARLY_1 = np.cos(1e-4)


def pair_agrees(theta: ArrayLike) -> Probabilities:
    """Return the probability that both bits of H-Hash agree at the angle theta.

    Theta is the angle between a point and the normal of a hyperplane (Jain et al. 2010, claim 3.2).
    """
    return 0.25 - (np.asarray(theta, dtype=np.float64) / np.pi - 0.5) ** 2


def product_agrees(theta: ArrayLike) -> Probabilities:
    """Return the probability that a bit of BH-Hash agrees at the angle theta.

    See `pair_agrees` for theta. The formula is lemma 1 of Liu et al. (2012).
    """
    return 2 * pair_agrees(theta)


def dense_agrees(theta: ArrayLike) -> Probabilities:
    """Return the probability that a bit of dense EH-Hash agrees at the angle theta.

    See `pair_agrees` for theta. The formula is claim 3.3 of Jain et al. (2010).
    """
    return np.asarray(np.arccos(np.cos(np.asarray(theta, dtype=np.float64)) ** 2) / np.pi)


def rank_agrees(theta: ArrayLike, rank: int) -> Probabilities:
    """Return the probability that a bit of EH-Hash of this rank agrees at the angle theta.

    See `pair_agrees` for theta. The result has nine correct decimals. If theta is within 10⁻⁴ radians of 0 or
    π, where the true value is below 5 · 10⁻⁵, the function returns 0.
    """
    angles = np.asarray(theta, dtype=np.float64)
    if rank == 1:
        return product_agrees(angles)
    rho = np.clip(np.cos(angles), -_NEARLY_1, _NEARLY_1)[..., None]
    # The integral is over Fisher's z = arctanh R, which is nearly normal with standard deviation 1/√rank. The
    # tails of its density decay like exp(−(rank − 1)|z|).
    half_width = 15 / np.sqrt(rank) + 30 / (rank - 1)
    nodes, weights = _quadrature()
    z = np.arctanh(rho) + half_width * nodes
    values = np.arccos(rho * np.tanh(z)) * _density_of_z(z, rho, rank)
    mean = (values * weights).sum(axis=-1) * half_width
    return np.asarray(np.where(np.abs(rho[..., 0]) < _NEARLY_1, mean / np.pi, 0.0))


@cache
def _quadrature() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the nodes and weights of Gauss-Legendre quadrature, computed on first use."""
    return np.polynomial.legendre.leggauss(400)


def _density_of_z(z: NDArray[np.float64], rho: NDArray[np.float64], samples: int) -> NDArray[np.float64]:
    """Return the density of arctanh R, where R is the uncentred correlation of `samples` Gaussian pairs.

    This is Fisher's density for the usual, centred correlation of `samples` + 1 pairs.
    """
    n = samples + 1
    R = np.tanh(z)
    log_1_minus_R2 = 2 * (np.log(2) - np.abs(z) - np.log1p(np.exp(-2 * np.abs(z))))
    log_density = (
        np.log(n - 2)
        + gammaln(n - 1)
        - 0.5 * np.log(2 * np.pi)
        - gammaln(n - 0.5)
        + (n - 1) / 2 * np.log1p(-(rho**2))
        + (n - 4) / 2 * log_1_minus_R2
        - (n - 1.5) * np.log1p(-rho * R)
    )
    return np.asarray(np.exp(log_density + log_1_minus_R2) * hyp2f1(0.5, 0.5, n - 0.5, (1 + rho * R) / 2))
