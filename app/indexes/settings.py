"""The settings of a search by hashing: their names, defaults and ranges."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from numbers import Integral, Real

from closecall.core.errors import InputError
from closecall.core.hashing import FAMILIES, MetricLSH, RandomHyperplaneLSH
from closecall.core.hashing.minhash import BITS
from closecall.core.mercer.kernel import kernel_from
from closecall.core.similar.index import LEAST_SHARE

EXACT = "exact"
"""The exact scan, which uses no codes."""

STRUCTURES = (EXACT, "scan", "table", "tables", "orders", "ball")

USUAL = RandomHyperplaneLSH.name
"""The default family, and the only family that supports learned metrics."""

OFFERED = tuple(name for name, family in FAMILIES.items() if family is not MetricLSH)
"""The families that users can choose, including families that learn from the concept's answers."""

N_FUNCTIONS = 256

N_TAUGHT = 64
"""Default number of functions of a family that learns from answers.

It is small because learning a function takes time, and few functions suffice for two classes.
"""

SHARE = LEAST_SHARE
"""Default share of the codes that a query is compared with, if the structure need not compare all codes."""

SHARE_OF_TABLE = 0.1
"""Default share of the codes that a query is compared with, if the structure is one large table.

It is larger than `SHARE`, because the compared codes of a table are adjacent in memory.
"""

CANDIDATES = 4_000
"""Default number of candidates, which are ranked exactly.

On the GIST features of a million photographs, the scan of 256-bit codes has a recall@10 of 0.90 with 1,000
candidates, 0.97 with 4,000 and 0.98 with 8,000. A query takes 5, 8 and 11 ms.
"""

LANDMARKS = 300
"""Default number of landmarks of kernelized families; every row is compared with every landmark."""

RANK, SCALE = 64, 5.0
"""Default rank and scale of low-rank and transformed forms.

They are the best rank and scale for the centred χ² kernel, as measured in `core.hashing.klsh`.
"""

EPSILON = {"angle": 1.0, "overlap": 0.2}
"""Default ε (see `Recipe`) of bucket tables, for a radius that is an angle or 100 % minus an overlap.

The ε for overlaps is small: texts overlap little even with their neighbours, so the radius is large, and
(1 + ε) times the radius must stay below 100 %.
"""

BYTES_A_ROW = 128
"""Default memory of bucket tables and permuted orders, in bytes per row, codes not included."""

LEAST_CANDIDATES = 2_400
"""Minimum number of candidates: ten times the number of items on all pages of results.

`core.similar.HashedSimilarity` never ranks fewer.
"""

LEAST_LANDMARKS = 51
"""Minimum number of landmarks: one more than the 50 that each function of kernelized LSH sums."""

FARTHEST = {"angle": 180.0, "overlap": 100.0}
"""Greatest possible radius: an angle in degrees, or 100 % minus the overlap."""

RANGES: Mapping[str, tuple[float, float]] = {
    "rank": (1, 4_999),
    "scale": (0.1, 100),
    "landmarks": (LEAST_LANDMARKS, 5_000),
    "functions": (1, 4_096),
    "share": (0.0001, 1),
    "candidates": (LEAST_CANDIDATES, 1_000_000),
    "radius": (0.1, 179.9),
    "epsilon": (0.01, 100),
    "memory": (12, 16_384),
}
"""The minimum and the maximum of each numeric setting."""

BITS_A_FUNCTION = BITS
"""Possible values of the setting `bits`."""

WHOLE = frozenset({"rank", "landmarks", "functions", "bits", "candidates", "memory"})

OF_CODES = ("form", "rank", "scale", "kernel", "landmarks", "functions", "bits")
OF_STRUCTURE = ("share", "radius", "epsilon", "memory")


def check_number(name: str, value: object, least: float, most: float) -> None:
    """Raise InputError unless the value of a numeric setting is a number from `least` to `most`."""
    kind = Integral if name in WHOLE else Real
    is_number = isinstance(value, kind) and not isinstance(value, bool) and isfinite(value)
    if not is_number or not least <= value <= most:  # type: ignore[operator]
        whole = "a whole number " if name in WHOLE else ""
        raise InputError(f"{name} must be {whole}from {least:,} to {most:,}, got {value!r:.80}")


def check_bits(value: object) -> None:
    """Raise InputError unless the value of the setting `bits` is possible."""
    if value not in BITS_A_FUNCTION:
        possible = ", ".join(map(str, BITS_A_FUNCTION))
        raise InputError(f"bits must be one of {possible}, got {value!r:.80}")


def check_kernel(value: object) -> None:
    """Raise InputError unless the value of the setting `kernel` names a kernel without a scale of its own."""
    if not isinstance(value, str):
        raise InputError(f"kernel must be a word such as chi2, got {value!r:.80}")
    kernel = kernel_from(value)
    if "scale" in value or kernel.word.startswith("learned"):
        raise InputError(f"kernel must be one without a scale of its own, got {value!r:.80}")
