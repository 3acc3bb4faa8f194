"""Min-Hash: the probability that hash values of two sets are equal is the overlap of the sets.

A sparse row is treated as the set of its non-zero features. Each hash function assigns a random number to
every feature. The value m(A) of a set A is the feature of A with the smallest number. Each member of A ∪ B is
equally likely to have the smallest number of all. The values of A and B are equal if and only if the member
with the smallest number is in both sets [1]_. Therefore

    Pr[m(A) = m(B)] = |A ∩ B| / |A ∪ B|

The random numbers are computed when needed, from the index of the feature and the key of the function. No
permutation of the vocabulary is stored, and the time for a row is proportional to its number of features. An
empty row is treated as the set of one feature that only empty rows have. Its overlap is 1 with empty rows and
0 with all other rows.

**Weights.** The words of a text are not equally important, so their weights in a row are tf·idf. For rows x
and y with weights ≥ 0, the overlap is Σ min(x_f, y_f) / Σ max(x_f, y_f) over all features f. With consistent
weighted sampling, values are equal with exactly this probability [2]_. Each function assigns to every feature
two numbers r and c from Gamma(2, 1) and a number β uniform in (0, 1). Let x be the weight of a feature in the
row. The hash value is the feature with the smallest a, together with its integer t:

    t = ⌊ln x / r + β⌋,   ln a = ln c − r (t − β + 1)

Chum et al. [3]_ compare texts by two overlaps of this form. In the first, the weight of a word is its idf. In
the second, the weight is idf times the number of occurrences in the text. The hash functions of Chum et al.
for the second overlap copy a word for each occurrence, so they require integers. Consistent weighted sampling
takes real weights, so rows can have unit norm, as in a pool.

**b bits.** Instead of the value itself, a code contains the last b of the 64 bits of the value's random
number [4]_. These bits practically never decide which number is the smallest. The last bits of two different
values therefore agree with probability 2⁻ᵇ for all sets. With the overlap s, one function agrees with
probability exactly

    p = s + (1 − s) 2⁻ᵇ.

(Li and König [4]_ use the last bits of the value's position in a random order of all features, so their
formula depends on the sizes of the sets.) An estimate of s from k functions has the variance
p(1 − p) / (k (1 − 2⁻ᵇ)²). For codes of a given size in bytes, the best choice is one bit if s ≥ 1/3, two bits
if 1/5 ≤ s < 1/3, and four bits if 0.06 ≤ s < 1/5. Neighbours among texts rarely have an overlap below 0.06.

References
----------
.. [1] A. Broder, "On the resemblance and containment of documents", SEQUENCES 1997.
.. [2] S. Ioffe, "Improved consistent sampling, weighted minhash and L1 sketching", ICDM 2010.
.. [3] O. Chum, J. Philbin, A. Zisserman, "Near duplicate image detection: min-Hash and tf-idf weighting",
   BMVC 2008.
.. [4] P. Li, A. C. König, "b-bit minwise hashing", WWW 2010.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.hashing.base import Codes, QueryCode, row_blocks
from closecall.core.hashing.collision import Probabilities
from closecall.core.hashing.similarity import Floats32, Floats64, SimilarityHasher, checked_rows
from closecall.core.numerics.jit import kernel, strict_kernel
from closecall.core.numerics.rows import Rows, is_sparse, parts

Hashes = NDArray[np.uint64]

BITS = (1, 2, 4, 8, 16)
"""Allowed numbers of bits per function; each divides 8 or is a multiple of 8."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


class MinHash(SimilarityHasher):
    """Hash family for sets: for two sets with overlap s, a function agrees with probability s + (1 − s) 2⁻ᵇ.

    A sparse row is the set of its non-zero features. Rows must be sparse, without negative features. In dense
    rows nearly all features are non-zero, so all sets would be the same.

    Parameters
    ----------
    weighted : bool
        Whether features are weighted by their values x_f and y_f in two rows, so that the overlap is
        Σ min(x_f, y_f) / Σ max(x_f, y_f). Otherwise the overlap of sets A and B is |A ∩ B| / |A ∪ B|.
    bits : 1, 2, 4, 8 or 16
        Number b of bits per function. If b > 1, codes are compared by the number of functions that disagree
        (`core.search.ranking`).

    Other parameters are those of `SimilarityHasher`; a code has n_functions · b bits.
    """

    name = "min-hash"
    estimates = "overlap"
    radius_of = "overlap"
    takes = "sparse"

    keys_: Hashes
    _fitted = ("keys_",)

    def __init__(
        self, *, weighted: bool = False, bits: int = 4, n_functions: int = 256, random_state: int = 0
    ) -> None:
        super().__init__(n_functions=n_functions, random_state=random_state)
        self.weighted = weighted
        self.bits = bits

    def hash_points(self, X: Rows) -> Codes:
        """Return the codes of the rows of X, of shape (n_samples, n_features)."""
        codes = Codes.from_bits(np.zeros((0, self.n_functions * self.bits), np.bool_), self.bits)
        packed = [codes.packed, *(self._hashed(block) for block in row_blocks(self._rows(X)))]
        return Codes(np.concatenate(packed), self.n_functions, self.bits)

    def queries(self, X: Rows) -> list[QueryCode]:
        """Return one query per row of X for search structures. Every bit has the same weight."""
        return queries_of(self.hash_points(X))

    def between(self, Q: Rows, X: Rows) -> Floats64:
        """Return the overlap s of each pair of sets, from 0 to 1, of shape (n_queries, n_points)."""
        return overlaps(self._rows(Q), self._rows(X), weighted=self.weighted)

    def collision_probability(self, values: ArrayLike) -> Probabilities:
        """Return s + (1 − s) 2⁻ᵇ for each overlap s in `values`."""
        return agreement(values, self.bits)

    def agreement_within(self, radius: float) -> float:
        """See `SimilarityHasher.agreement_within`."""
        return float(agreement(1 - radius, self.bits))

    def _fit(self, X: Rows, y: NDArray[np.int64] | None, rng: np.random.Generator) -> None:  # noqa: ARG002
        self._rows(X)
        self.keys_ = rng.integers(0, 2**64, self.n_functions, dtype=np.uint64)

    def _check(self) -> None:
        super()._check()
        check_bits(self.bits)

    def _rows(self, X: Rows) -> Rows:
        X = checked_rows(super()._rows(X))
        if not is_sparse(X):
            raise InputError(
                f"{self.name} compares the sets of non-zero features, so it needs sparse rows, such as those "
                f"of texts or of images as sets: got dense rows"
            )
        if X.nnz and X.data.min() < 0:
            raise InputError(
                f"{self.name} uses features as the weights of a set's members, so none may be negative: "
                f"got {X.data.min():.3g}"
            )
        return X

    def _hashed(self, X: Rows) -> NDArray[np.uint8]:
        """Return the packed codes of some rows."""
        return last_bits(minima(X, self.keys_, weighted=self.weighted), self.bits).packed


def minima(X: csr_array, keys: Hashes, *, weighted: bool = False) -> Hashes:
    """Return, for each row and function, the random number that identifies the hash value.

    Parameters
    ----------
    X : csr_array of shape (n_samples, n_features)
        Rows. An empty row is treated as the set of one feature with the index n_features.
    keys : array of shape (n_functions,), uint64
        Keys of the functions.
    weighted : bool
        As in `MinHash`; weights must be positive.

    Returns
    -------
    array of shape (n_samples, n_functions), uint64
        If not weighted, the smallest random number of the row's features. If weighted, one random number that
        is computed from the hash value: the sampled feature and its integer t (see the module).
    """
    starts, columns, values = parts(X)
    by_column = np.argsort(columns, kind="stable")
    least = np.empty((X.shape[0], len(keys)), dtype=np.uint64)
    nothing = np.uint64(X.shape[1])
    if weighted:
        logarithms = np.log(values.astype(np.float64))
        _sampled(starts, columns, logarithms, by_column, keys, nothing, least)
    else:
        _least(starts, columns, by_column, keys, nothing, least)
    return least


def last_bits(numbers: Hashes, bits: int) -> Codes:
    """Return codes with the last `bits` bits of each of the `numbers`, which have shape (n, n_functions)."""
    kept = numbers.astype(np.uint16)[:, :, None] >> np.arange(bits, dtype=np.uint16)
    flat = (kept & np.uint16(1)).astype(np.bool_).reshape(len(numbers), numbers.shape[1] * bits)
    return Codes.from_bits(flat, bits)


def check_bits(bits: int) -> None:
    """Raise InputError unless `bits` is an allowed number of bits per function."""
    if bits not in BITS:
        raise InputError(f"bits must be one of {', '.join(map(str, BITS))}, got {bits}")


def agreement(collides: ArrayLike, bits: int) -> Probabilities:
    """Return the probability that the b bits of a function agree, s + (1 − s) 2⁻ᵇ.

    s is `collides`, the probability that the whole hash values are equal.
    """
    s = np.asarray(collides, dtype=np.float64)
    return np.asarray(s + (1 - s) * 2.0**-bits)


def queries_of(codes: Codes) -> list[QueryCode]:
    """Return one query per code, in which every bit has the same weight."""
    weights = 1 - 2 * codes.unpacked().astype(np.float32)
    return [_asked(codes, row) for row in zip(codes.packed, weights, strict=True)]


def _asked(codes: Codes, row: tuple[NDArray[np.uint8], Floats32]) -> QueryCode:
    code = Codes(row[0][None], codes.n_functions, codes.bits)
    return QueryCode(codes.n_functions, codes.bits, row[1], 0.0, False, lambda: code)


def overlaps(Q: Rows, X: Rows, *, weighted: bool = False) -> Floats64:
    """Return the overlap of each row of Q and each row of X, of shape (n_queries, n_points).

    The overlap of sparse rows is |A ∩ B| / |A ∪ B| for the sets A and B of their non-zero features. With
    weights, the overlap is Σ min(x_f, y_f) / Σ max(x_f, y_f) over all features f. The overlap of two empty
    rows is 1.
    """
    out = np.empty((Q.shape[0], X.shape[0]))
    _overlaps(*parts(Q), *parts(X), weighted, np.zeros(X.shape[1]), out)
    return out


@kernel
def _mixed(x: np.uint64) -> np.uint64:
    """Return a number that looks random, the result of SplitMix64's finaliser for x."""
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


@kernel
def _numbers(keys: Hashes, feature: np.uint64, out: Hashes) -> None:
    """Compute the random number of the feature in each function, and write these numbers to `out`."""
    own = _mixed((feature + np.uint64(1)) * _GOLDEN)
    for f in range(keys.shape[0]):
        out[f] = _mixed(keys[f] + own)


@kernel
def _begun(starts: NDArray[np.int64], keys: Hashes, nothing: np.uint64, out: Hashes) -> NDArray[np.int64]:
    """Return the row number of each non-zero entry, and initialise `out`.

    An empty row is treated as if it had one feature with the index `nothing`, and `out` gets the random
    numbers of this feature. For all other rows, `out` gets the largest 64-bit number.
    """
    rows = np.empty(starts[-1], dtype=np.int64)
    numbers = np.empty(keys.shape[0], dtype=np.uint64)
    _numbers(keys, nothing, numbers)
    for row in range(out.shape[0]):
        if starts[row] == starts[row + 1]:
            out[row] = numbers
        else:
            out[row] = np.uint64(0xFFFFFFFFFFFFFFFF)
        rows[starts[row] : starts[row + 1]] = row
    return rows


@kernel
def _least(
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    by_column: NDArray[np.int64],
    keys: Hashes,
    nothing: np.uint64,
    out: Hashes,
) -> None:
    """For each row and each function, write the smallest random number of the row's features to `out`.

    Each function gives every feature a random number. `out` has the shape (n_rows, n_functions). Features are
    processed in order, so that the numbers of each feature are computed only once. An empty row is treated as
    if it had one feature with the index `nothing`.
    """
    rows = _begun(starts, keys, nothing, out)
    numbers = np.empty(keys.shape[0], dtype=np.uint64)
    last = -1
    for entry in by_column:
        if columns[entry] != last:
            last = columns[entry]
            _numbers(keys, np.uint64(last), numbers)
        row = rows[entry]
        for f in range(keys.shape[0]):
            if numbers[f] < out[row, f]:
                out[row, f] = numbers[f]


@strict_kernel
def _sampled(
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    logarithms: Floats64,
    by_column: NDArray[np.int64],
    keys: Hashes,
    nothing: np.uint64,
    out: Hashes,
) -> None:
    """For each row and each function, write a random number computed from the hash value to `out`.

    The hash value is the feature with the smallest a, together with its integer t; the module defines a and
    t. `logarithms` are the logarithms of the weights. The other arguments are the same as in `_least`.
    """
    rows = _begun(starts, keys, nothing, out)
    k = keys.shape[0]
    numbers = np.empty(k, dtype=np.uint64)
    r, inverse, beta, at_zero = np.empty(k), np.empty(k), np.empty(k), np.empty(k)
    least = np.full(out.shape, np.inf)
    last = -1
    for entry in by_column:
        if columns[entry] != last:
            last = columns[entry]
            _numbers(keys, np.uint64(last), numbers)
            for f in range(k):
                r[f] = -np.log(_uniform(numbers[f], 1) * _uniform(numbers[f], 2))
                log_c = np.log(-np.log(_uniform(numbers[f], 3) * _uniform(numbers[f], 4)))
                beta[f] = _uniform(numbers[f], 5)
                inverse[f] = 1 / r[f]
                at_zero[f] = log_c - r[f] * (1 - beta[f])
        row, logarithm = rows[entry], logarithms[entry]
        for f in range(k):
            t = np.floor(logarithm * inverse[f] + beta[f])
            log_a = at_zero[f] - r[f] * t
            if log_a < least[row, f]:
                least[row, f] = log_a
                out[row, f] = _mixed(numbers[f] ^ _mixed(np.uint64(np.int64(t)) * _GOLDEN))


@kernel
def _uniform(number: np.uint64, draw: int) -> float:
    """Return a number uniform in (0, 1), derived from a random number and from `draw` (1, 2, …)."""
    bits = _mixed(number + np.uint64(draw) * _GOLDEN)
    return (np.float64(bits >> np.uint64(11)) + 0.5) * 2.0**-53


@kernel
def _overlaps(
    q_starts: NDArray[np.int64],
    q_columns: NDArray[np.int32],
    q_values: Floats32,
    x_starts: NDArray[np.int64],
    x_columns: NDArray[np.int32],
    x_values: Floats32,
    weighted: bool,
    looked_up: Floats64,
    out: Floats64,
) -> None:
    """Set `out` to the overlap of each query and point.

    `looked_up` is a work array with one zero per feature. It is all zeros again afterwards.
    """
    for q in range(out.shape[0]):
        own = 0.0
        for i in range(q_starts[q], q_starts[q + 1]):
            looked_up[q_columns[i]] = q_values[i] if weighted else 1.0
            own += looked_up[q_columns[i]]
        for x in range(out.shape[1]):
            common, theirs = 0.0, 0.0
            for i in range(x_starts[x], x_starts[x + 1]):
                value = np.float64(x_values[i]) if weighted else 1.0
                theirs += value
                common += min(value, looked_up[x_columns[i]])
            union = own + theirs - common
            out[q, x] = common / union if union > 0 else 1.0
        for i in range(q_starts[q], q_starts[q + 1]):
            looked_up[q_columns[i]] = 0.0
