"""The ids and true classes of the rows of a byte pool: two files that grow with the pool.

The files are mapped into memory, so a pool of a hundred million rows needs almost no memory of its own. Each
segment has a stamp of its part of each file. If a builder is killed, a file may have more rows than the
manifest names; the next builder replaces them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.files.durable import Stamp, bytes_stamp, raw_bytes, replace_file
from closecall.core.pool.manifest import CURE

IDS_COLUMN, TRUTH_COLUMN = "ids.int64", "truth.int16"
COLUMNS: dict[str, np.dtype[Any]] = {
    IDS_COLUMN: np.dtype("<i8"),
    TRUTH_COLUMN: np.dtype("<i2"),
}
"""Type of the values of each file."""


def append_column(pool: Path, name: str, first_row: int, values: NDArray[Any]) -> Stamp:
    """Write the values of the rows from `first_row` on, and flush the file. Return the stamp of these values.

    The file may have further rows, left by a builder that was killed; it is never shortened, because other
    processes may have mapped it. For the first rows, a new file replaces it.

    Raises
    ------
    InputError
        If the file has fewer rows.
    """
    path, dtype = pool / name, COLUMNS[name]
    data = raw_bytes(values.astype(dtype, copy=False))
    if not first_row:
        replace_file(path, data.tobytes())
        return bytes_stamp(data)
    with path.open("r+b") as file:
        start = first_row * dtype.itemsize
        if file.seek(0, os.SEEK_END) < start:
            raise InputError(f"{path} is damaged: it is too short; {CURE}")
        file.seek(start)
        file.write(data.data)
        file.flush()
        os.fsync(file.fileno())
    return bytes_stamp(data)


def column(pool: Path, name: str, n_rows: int) -> NDArray[Any]:
    """Return the values of the first `n_rows` rows, memory-mapped and read-only.

    Raises
    ------
    InputError
        If the file is missing or has fewer rows.
    """
    path, dtype = pool / name, COLUMNS[name]
    if not n_rows:
        return np.empty(0, dtype=dtype)
    try:
        if path.stat().st_size < n_rows * dtype.itemsize:
            raise InputError(f"{path} is damaged: it is too short; {CURE}")
        return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(n_rows,)))
    except FileNotFoundError:
        raise InputError(f"{path} is missing: {CURE}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def check_column(pool: Path, name: str, first_row: int, stamp: Stamp) -> None:
    """Compare the values of a segment, which starts at `first_row`, with their stamp.

    Raises
    ------
    InputError
        If they differ, or the file cannot be read.
    """
    size = COLUMNS[name].itemsize
    values = column(pool, name, first_row + stamp.bytes // size)[first_row:]
    if bytes_stamp(raw_bytes(values)) != stamp:
        raise InputError(f"{pool / name} is damaged: its content does not match its checksum; {CURE}")
