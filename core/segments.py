"""Published parts of a pool as arrays: features mapped into memory, ids and truth read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.durable import stamp_of
from core.errors import InputError
from core.manifest import CURE, FEATURES, IDS, TRUTH, Manifest, Part


@dataclass(frozen=True, eq=False)
class Segment:
    """Rows that were published together.

    Parameters
    ----------
    first_row : int
        Where they begin in the pool.
    X : array of shape (n, n_features)
        Mapped from the file, in the pool's dtype; read-only.
    ids : array of shape (n,), int64, ascending
    truth : array of shape (n,), int16
    """

    first_row: int
    X: NDArray[np.floating[Any]]
    ids: NDArray[np.int64]
    truth: NDArray[np.int16]


def load_part(pool: Path, part: Part, first_row: int, manifest: Manifest) -> Segment:
    """The part of the pool in the folder `pool`; `first_row` is passed on.

    Raises
    ------
    InputError
        If a file is missing or is not as long as the manifest says.
    """
    check_part(pool, part)
    return Segment(
        first_row,
        _array(pool, part, FEATURES, (part.rows, manifest.n_features), np.dtype(manifest.dtype), mapped=True),
        _array(pool, part, IDS, (part.rows,), np.dtype(np.int64)),
        _array(pool, part, TRUTH, (part.rows,), np.dtype(np.int16)),
    )


def check_part(pool: Path, part: Part, *, deep: bool = False) -> None:
    """Compare the part's files with the manifest: their lengths, and if `deep` their checksums.

    Raises
    ------
    InputError
        If one is missing or damaged; the message names it.
    """
    for name, stamp in part.files.items():
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


def _array(
    pool: Path, part: Part, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], mapped: bool = False
) -> NDArray[Any]:
    """The array at the end of a .npy file; its shape is known, so a damaged header can do no harm."""
    path = pool / part.folder / name
    length = dtype.itemsize
    for n in shape:
        length *= n
    offset = part.files[name].bytes - length
    if offset < 0:
        raise InputError(f"{path} is damaged: too short for {shape[0]} rows; {CURE}")
    if not length:
        return np.empty(shape, dtype=dtype)
    try:
        if mapped:
            return np.asarray(np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape))
        return np.fromfile(path, dtype=dtype, offset=offset).reshape(shape)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
