"""Vectors in .fvecs and .bvecs files, the formats of SIFT1M and similar collections [1]_.

A row consists of its length n, a little-endian int32, followed by n float32 numbers (.fvecs) or n bytes
(.bvecs). All rows must have the same length, so that the file can be memory-mapped as one matrix.

References
----------
.. [1] H. Jégou, M. Douze, C. Schmid: Product quantization for nearest neighbor search, IEEE TPAMI 33(1),
   2011; http://corpus-texmex.irisa.fr.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError

TYPES: dict[str, np.dtype[Any]] = {".fvecs": np.dtype("<f4"), ".bvecs": np.dtype("u1")}
"""Types of the numbers, by the suffix of the file."""

_LENGTH = np.dtype("<i4")
_BLOCK = 65_536  # rows


def mapped(path: Path) -> NDArray[Any]:
    """Memory-map the numbers in the file, of shape (n_rows, n_features), without reading them.

    Only the first row's length and the size of the file are checked; see `check_lengths`.

    Raises
    ------
    InputError
        If the file is empty, damaged or cannot be read.
    """
    raw, rest = _raw(path)
    if rest:
        check_lengths(path)
        n_rows, row_bytes = raw.shape
        raise InputError(f"{path} is cut short: row {n_rows} has {rest:,} of its {row_bytes:,} bytes")
    dtype = TYPES[path.suffix.lower()]
    return raw.view(dtype)[:, _LENGTH.itemsize // dtype.itemsize :]


def check_lengths(path: Path) -> None:
    """Check that all rows have the first row's length.

    Raises
    ------
    InputError
        If a row has another length. The message names the first such row.
    """
    raw, _ = _raw(path)
    width = (raw.shape[1] - _LENGTH.itemsize) // TYPES[path.suffix.lower()].itemsize
    for start in range(0, len(raw), _BLOCK):
        heads = np.ascontiguousarray(raw[start : start + _BLOCK, : _LENGTH.itemsize]).view(_LENGTH)[:, 0]
        bad = np.flatnonzero(heads != width)
        if bad.size:
            row = int(bad[0])
            raise InputError(
                f"row {start + row} of {path} has {heads[row]:,} numbers, but earlier rows have {width:,}"
            )


def _raw(path: Path) -> tuple[NDArray[np.uint8], int]:
    """Memory-map all whole rows as bytes, of shape (n_rows, row_bytes), and count the bytes after them."""
    dtype = TYPES[path.suffix.lower()]
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_LENGTH.itemsize)
        if not head:
            raise InputError(f"{path} is empty")
        if len(head) < _LENGTH.itemsize:
            raise InputError(f"{path} is cut short: it has only {len(head)} bytes")
        width = int(np.frombuffer(head, dtype=_LENGTH)[0])
        if width < 1:
            raise InputError(f"{path} is damaged: row 0 must have at least 1 number, got {width:,}")
        row_bytes = _LENGTH.itemsize + width * dtype.itemsize
        if row_bytes > size:
            raise InputError(
                f"{path} is damaged or cut short: row 0 has {width:,} numbers in {row_bytes:,} bytes, but "
                f"the file has {size:,}"
            )
        n_rows, rest = divmod(size, row_bytes)
        return np.memmap(path, dtype=np.uint8, mode="r", shape=(n_rows, row_bytes)), rest
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}") from error
