"""Size of a pool before it is built, and the disk space for it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import numpy as np

from closecall.core.errors import InputError
from closecall.core.features import bytes_an_item, has_sparse_rows, n_features
from closecall.core.files.sizes import bytes_in_words
from closecall.core.pool.manifest import Manifest
from closecall.core.quantization.byte_rows import bytes_a_row
from closecall.core.quantization.codebook import codebook_bytes
from closecall.core.sources import Source

FeatureType = Literal["float32", "float16", "byte"]
"""Type in which features are stored. A byte pool stores principal coordinates; see `core.quantization`."""

ITEMS_A_FEATURE = 2
"""Minimum number of items per feature in a byte pool.

With fewer items, some principal directions would be unknown, and later items would vary along them.
"""

SPARE_BYTES = 32 << 20
"""Free disk space in bytes that a build must leave."""

_ID_AND_CLASS = np.dtype(np.int64).itemsize + np.dtype(np.int16).itemsize
"""Bytes that a pool stores per item beside the features."""


@dataclass(frozen=True)
class BuildEstimate:
    """Expected size of a pool.

    Parameters
    ----------
    items : int
        Number of items of the source.
    n_features : int
    bytes : int
        Size on disk of the complete pool, if every item can be read.
    """

    items: int
    n_features: int
    bytes: int


def estimate(source: Source, *, dtype: FeatureType = "float32") -> BuildEstimate:
    """Estimate the size of a pool of `source`."""
    if dtype == "byte":
        n, d = len(source.held_out()), n_features(source)
        size = dense_bytes(len(source) - n, d, dtype) + dense_bytes(n, d) + codebook_bytes(len(source), d)
        return BuildEstimate(len(source), d, size)
    each = bytes_an_item(source, dtype) + _ID_AND_CLASS
    return BuildEstimate(len(source), n_features(source), round(len(source) * each))


def dense_bytes(n_items: int, n_features: int, dtype: FeatureType = "float32") -> int:
    """Return the size in bytes of a complete pool with dense features."""
    each = bytes_a_row(n_features) if dtype == "byte" else n_features * np.dtype(dtype).itemsize
    return n_items * (each + _ID_AND_CLASS)


def require_storable(source: Source, dtype: FeatureType | None) -> None:
    """Raise InputError if the features of `source` can't be stored in the type `dtype`."""
    if has_sparse_rows(source) and dtype in ("float16", "byte"):
        raise InputError(f"{source.title} gives sparse features, which are float32, got dtype {dtype}")
    if dtype == "byte" and len(source) < ITEMS_A_FEATURE * n_features(source):
        raise InputError(
            f"byte features need at least {ITEMS_A_FEATURE * n_features(source):,} items, and {source.title} "
            f"has {len(source):,}: use float32 or float16"
        )


def require_room(source: Source, pool: Path, manifest: Manifest) -> None:
    """Raise InputError if the disk has too little room for the parts of the pool that are still missing."""
    whole = estimate(source, dtype=cast(FeatureType, manifest.dtype))
    there = sum(stamp.bytes for part in manifest.folders for stamp in part.files.values())
    missing = whole.bytes - there
    free = shutil.disk_usage(pool).free
    if free < missing + SPARE_BYTES:
        raise InputError(
            f"the disk of {pool} has {bytes_in_words(free)} free, and the pool needs "
            f"{bytes_in_words(missing)} more, with {bytes_in_words(SPARE_BYTES)} to spare"
        )
