"""Published parts of a pool as arrays: features memory-mapped, ids and truth in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.files.durable import stamp_of
from closecall.core.pool.columns import COLUMNS, check_column, column
from closecall.core.pool.feature_files import LAYOUTS, array
from closecall.core.pool.manifest import BYTE, CURE, IDS, TRUTH, Manifest, Part
from closecall.core.quantization.byte_rows import ByteRows
from closecall.core.quantization.codebook import Codebook


@dataclass(frozen=True, eq=False)
class Segment:
    """Rows that were published together.

    Parameters
    ----------
    first_row : int
        Row of the pool at which the segment starts.
    X : array of shape (n, n_features), csr_array or ByteRows
        Memory-mapped, in the pool's dtype; read-only.
    ids : array of shape (n,), int64, ascending
    truth : array of shape (n,), int16
    """

    first_row: int
    X: NDArray[np.floating[Any]] | csr_array | ByteRows
    ids: NDArray[np.int64]
    truth: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.ids)


def load_part(
    pool: Path, part: Part, first_row: int, manifest: Manifest, codebook: Codebook | None = None
) -> Segment:
    """Load a part of the pool in the folder `pool` as the segment that starts at `first_row`.

    `codebook` is that of a byte pool.

    Raises
    ------
    InputError
        If a file is missing or damaged.
    """
    check_part(pool, part)
    X = LAYOUTS[manifest.layout].load(pool, part, manifest, codebook)
    if manifest.layout == BYTE:
        ids, truth = (column(pool, name, first_row + part.rows)[first_row:] for name in COLUMNS)
    else:
        ids = array(pool, part, IDS, (part.rows,), np.dtype(np.int64))
        truth = array(pool, part, TRUTH, (part.rows,), np.dtype(np.int16))
    return Segment(first_row, X, ids, truth)


def check_part(pool: Path, part: Part, first_row: int = 0, *, deep: bool = False) -> None:
    """Compare the lengths of the part's files with the manifest. If `deep`, also compare the checksums.

    `first_row` is the first row of the part, if it is a segment.

    Raises
    ------
    InputError
        If a file is missing or damaged; the message names it.
    """
    for name, stamp in part.files.items():
        if name in COLUMNS:
            if deep:
                check_column(pool, name, first_row, stamp)
            continue
        path = pool / part.folder / name
        try:
            length = path.stat().st_size
            if length != stamp.bytes:
                raise InputError(f"{path} is damaged: {length} bytes instead of {stamp.bytes}; {CURE}")
            if deep and stamp_of(path) != stamp:
                raise InputError(f"{path} is damaged: its content does not match its checksum; {CURE}")
        except FileNotFoundError:
            raise InputError(f"{path} is missing: {CURE}") from None
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
