"""Passes over constraints: project onto each constraint in sequence, with the smallest possible change.

The steps are those of eq. 3 in `core.metric.itml`, where all symbols are defined. The learned array has one
of three forms: the factor G of the metric, the matrix S that represents the metric implicitly, or a kernel
matrix (`core.metric.kernel_learning`). The step for a pair computes a, λ, ξ and β in the same way for all
forms. The step for a triple computes μ, and consists of two updates like the update for a pair.

A pass projects onto all constraints once, and returns the sum of the absolute changes of the multipliers. The
arguments of every pass are, in this order:

- the learned array, which the pass updates
- the rows, or their kernel matrix K₀; left out if a kernel matrix is learned
- the constraints as row numbers, of shape (n, 2) or (n, 3)
- the signs δ of pairs, or the offsets 2b of triples
- the order in which constraints are visited
- the multipliers λ and the bounds ξ, which the pass updates
- γ
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.jit import kernel

Floats64 = NDArray[np.float64]

Items = NDArray[np.int64]
Pass = Callable[[Floats64, Floats64, Items, Floats64, Items, Floats64, Floats64, float], float]
KernelPass = Callable[[Floats64, Items, Floats64, Items, Floats64, Floats64, float], float]
Steps = Callable[[Floats64, float, float, float], Floats64]
"""Function that projects onto a constraint with λ = 0, and returns a number s for each difference v of rows.

The projection adds −svvᵀ to A⁻¹ for each v. The arguments are the inner products of the differences under A,
of shape (1, 1) or (2, 2); the sign δ or the offset 2b; the initial bound b; and γ.
"""

_HALVINGS = 200
"""Maximum number of bisection steps for μ. Bisection usually ends earlier, because its interval contains no
further floating-point number.
"""


class Passes(NamedTuple):
    """Functions that project onto the constraints of pairs or triples, one for each form of a metric."""

    explicit: Pass
    implicit: Pass
    kernel: KernelPass
    steps: Steps


@kernel
def _step(
    p: float, sign: float, number: int, multipliers: Floats64, bounds: Floats64, gamma: float
) -> tuple[float, float]:
    """Project onto the constraint of a pair whose squared distance is p.

    Return s = δa, and the absolute change of the multiplier.
    """
    share = 1.0 if np.isinf(gamma) else gamma / (gamma + 1)
    a = min(multipliers[number], sign * share * (1 / p - 1 / bounds[number]))
    if not np.isinf(gamma):
        bounds[number] = gamma * bounds[number] / (gamma + sign * a * bounds[number])
    multipliers[number] -= a
    return sign * a, abs(a)


@kernel
def _edge(t: float, delta: float) -> float:
    """Return the positive root μ of 1 + μt − μ²Δ, where Δ ≥ 0, or infinity if no root is positive."""
    root = np.sqrt(t * t + 4 * delta)
    if t > 0:
        return float((t + root) / (2 * delta)) if delta > 0 else np.inf
    return float(2 / (root - t)) if root > t else np.inf


@kernel
def _is_violated(mu: float, t: float, delta: float, offset: float, bound: float, gamma: float) -> bool:
    """Return whether a triple is violated after a step μ.

    The condition is (t − 2μΔ)/(1 + μt − μ²Δ) + `offset` > ξ/(1 − μξ/γ), where ξ is `bound`.
    """
    ratio, room = 1 + mu * t - mu * mu * delta, 1 - mu * bound / gamma
    return bool((t - 2 * mu * delta + offset * ratio) * room > bound * ratio)


@kernel
def _triple_step(
    p: float,
    q: float,
    r: float,
    offset: float,
    number: int,
    multipliers: Floats64,
    bounds: Floats64,
    gamma: float,
) -> float:
    """Project onto the constraint of a triple with vᵀAv = p, wᵀAw = q and vᵀAw = r.

    Return μ, or NaN if no μ exists.
    """
    t, delta, bound = p - q, max(p * q - r * r, 0.0), bounds[number]
    low, least = -multipliers[number], -_edge(-t, delta)
    if low <= least or _is_violated(low, t, delta, offset, bound, gamma):
        low, high = max(low, least), min(_edge(t, delta), gamma / bound)
        if np.isinf(high):
            return np.nan
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if middle <= low or middle >= high:
                break
            if _is_violated(middle, t, delta, offset, bound, gamma):
                low = middle
            else:
                high = middle
    bounds[number] = bound / (1 - low * bound / gamma)
    multipliers[number] += low
    return float(low)


@kernel
def _root_step(beta: float, p: float) -> float:
    """Return α of eq. 9 in `core.metric.itml`, by which the factor G is updated."""
    return float((np.sqrt(1 + beta * p) - 1) / p)


@kernel
def image(S: Floats64, K0: Floats64, i: int, j: int) -> Floats64:
    """Return the vector a of the implicit form: Gv = Φa, where v is the difference of the rows i and j."""
    a: Floats64 = S @ (K0[i] - K0[j])
    a[i] += 1
    a[j] -= 1
    return a


@kernel
def change_factor(G: Floats64, y: Floats64, p: float, s: float) -> Floats64:
    """Add −svvᵀ to A⁻¹ by the update G ← G + y(αAv)ᵀ, in place; return αAv.

    Here, A = GᵀG, y = Gv and p = yᵀy > 0. Equation 9 in `core.metric.itml` defines α.
    """
    w = _root_step(s / (1 - s * p), p) * (y @ G)
    for i in range(G.shape[0]):
        for j in range(G.shape[1]):
            G[i, j] += y[i] * w[j]
    return w


@kernel
def change_weights(S: Floats64, a: Floats64, h: Floats64, p: float, s: float) -> Floats64:
    """Add −svvᵀ to A⁻¹ by the update S ← S + αa(a + Sᵀh)ᵀ, in place; return the vector b with αAv = Φb.

    Here, Gv = Φa, h = K₀a and p = aᵀh > 0, as in the implicit form of `core.metric.itml`.
    """
    b = _root_step(s / (1 - s * p), p) * (a + h @ S)
    for row in range(S.shape[0]):
        for column in range(S.shape[1]):
            S[row, column] += a[row] * b[column]
    return b


@kernel
def _change_kernel(K: Floats64, column: Floats64, p: float, s: float) -> None:
    """Add −suuᵀ to K⁻¹ by an update of K in place, where column = Ku and p = uᵀKu."""
    beta = s / (1 - s * p)
    for row in range(K.shape[0]):
        scaled = beta * column[row]
        for other in range(K.shape[0]):
            K[row, other] += scaled * column[other]


@kernel
def explicit_pass(
    G: Floats64,
    X: Floats64,
    pairs: Items,
    signs: Floats64,
    order: Items,
    multipliers: Floats64,
    bounds: Floats64,
    gamma: float,
) -> float:
    """Change the factor G, of shape (d, d): project it onto the constraint of one pair after the other."""
    changed = 0.0
    for number in order:
        i, j = pairs[number]
        y = G @ (X[i] - X[j])
        p = np.dot(y, y)
        if p > 0:
            s, change = _step(p, signs[number], number, multipliers, bounds, gamma)
            if change != 0:
                changed += change
                change_factor(G, y, p, s)
    return changed


@kernel
def implicit_pass(
    S: Floats64,
    K0: Floats64,
    pairs: Items,
    signs: Floats64,
    order: Items,
    multipliers: Floats64,
    bounds: Floats64,
    gamma: float,
) -> float:
    """Project the matrix S, of shape (c, c), onto the constraint of each pair once."""
    changed = 0.0
    for number in order:
        i, j = pairs[number]
        a = image(S, K0, i, j)
        h = K0 @ a
        p = np.dot(a, h)
        if p > 0:
            s, change = _step(p, signs[number], number, multipliers, bounds, gamma)
            if change != 0:
                changed += change
                change_weights(S, a, h, p, s)
    return changed


@kernel
def kernel_pass(
    K: Floats64,
    pairs: Items,
    signs: Floats64,
    order: Items,
    multipliers: Floats64,
    bounds: Floats64,
    gamma: float,
) -> float:
    """Project the kernel matrix K, of shape (c, c), onto the constraint of each pair once.

    Inactive constraints cost O(1).
    """
    changed = 0.0
    for number in order:
        i, j = pairs[number]
        p = K[i, i] + K[j, j] - 2 * K[i, j]
        if p > 0:
            s, change = _step(p, signs[number], number, multipliers, bounds, gamma)
            if change != 0:
                changed += change
                _change_kernel(K, K[i] - K[j], p, s)
    return changed


@kernel
def explicit_triples(
    G: Floats64,
    X: Floats64,
    triples: Items,
    offsets: Floats64,
    order: Items,
    multipliers: Floats64,
    bounds: Floats64,
    gamma: float,
) -> float:
    """Change the factor G, of shape (d, d): project it onto the constraint of one triple after the other."""
    changed = 0.0
    for number in order:
        i, j, k = triples[number]
        v, w = X[i] - X[j], X[i] - X[k]
        y, z = G @ v, G @ w
        p, q, r = np.dot(y, y), np.dot(z, z), np.dot(y, z)
        mu = _triple_step(p, q, r, offsets[number], number, multipliers, bounds, gamma)
        if mu != 0:
            changed += abs(mu)
            for difference, s in ((v, -mu), (w, mu)) if mu > 0 else ((w, mu), (v, -mu)):
                y = G @ difference
                p = np.dot(y, y)
                if p > 0:
                    change_factor(G, y, p, s)
    return changed


@kernel
def implicit_triples(
    S: Floats64,
    K0: Floats64,
    triples: Items,
    offsets: Floats64,
    order: Items,
    multipliers: Floats64,
    bounds: Floats64,
    gamma: float,
) -> float:
    """Project the matrix S, of shape (c, c), onto the constraint of each triple once."""
    changed = 0.0
    for number in order:
        i, j, k = triples[number]
        a, b = image(S, K0, i, j), image(S, K0, i, k)
        h = K0 @ b
        p, q, r = np.dot(a, K0 @ a), np.dot(b, h), np.dot(a, h)
        mu = _triple_step(p, q, r, offsets[number], number, multipliers, bounds, gamma)
        if mu != 0:
            changed += abs(mu)
            for other, s in ((j, -mu), (k, mu)) if mu > 0 else ((k, mu), (j, -mu)):
                a = image(S, K0, i, other)
                h = K0 @ a
                p = np.dot(a, h)
                if p > 0:
                    change_weights(S, a, h, p, s)
    return changed


@kernel
def kernel_triples(
    K: Floats64,
    triples: Items,
    offsets: Floats64,
    order: Items,
    multipliers: Floats64,
    bounds: Floats64,
    gamma: float,
) -> float:
    """Project the kernel matrix K, of shape (c, c), onto the constraint of each triple once.

    Inactive constraints cost O(1).
    """
    changed = 0.0
    for number in order:
        i, j, k = triples[number]
        p, q = K[i, i] + K[j, j] - 2 * K[i, j], K[i, i] + K[k, k] - 2 * K[i, k]
        r = K[i, i] - K[i, j] - K[i, k] + K[j, k]
        mu = _triple_step(p, q, r, offsets[number], number, multipliers, bounds, gamma)
        if mu != 0:
            changed += abs(mu)
            for other, s in ((j, -mu), (k, mu)) if mu > 0 else ((k, mu), (j, -mu)):
                p = K[i, i] + K[other, other] - 2 * K[i, other]
                _change_kernel(K, K[i] - K[other], p, s)
    return changed


def _pair_steps(H: Floats64, sign: float, target: float, gamma: float) -> Floats64:
    if not H[0, 0] > 0:
        return np.zeros(1)
    s, _ = _step(float(H[0, 0]), float(sign), 0, np.zeros(1), np.array([target]), float(gamma))
    return np.array([s])


def _triple_steps(H: Floats64, offset: float, target: float, gamma: float) -> Floats64:
    p, q, r = float(H[0, 0]), float(H[1, 1]), float(H[0, 1])
    mu = _triple_step(p, q, r, float(offset), 0, np.zeros(1), np.array([target]), float(gamma))
    return np.where(np.diag(H) > 0, [-mu, mu], 0.0)


PAIRS = Passes(explicit_pass, implicit_pass, kernel_pass, _pair_steps)
TRIPLES = Passes(explicit_triples, implicit_triples, kernel_triples, _triple_steps)
