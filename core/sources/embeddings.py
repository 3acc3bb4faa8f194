"""The user's own vectors: a .npy, Parquet, .fvecs or .bvecs file with one row per item.

The files are memory-mapped. A Parquet file is first unpacked into the user's cache, block by block, and
memory-mapped from there. Python objects (pickles) are never loaded.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, cast
from zipfile import BadZipFile

import numpy as np
from numpy.lib.format import MAGIC_PREFIX, open_memmap
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.sources import vecs
from closecall.core.sources.base import Items
from closecall.core.sources.unpacking import unpacked

SUFFIXES = (".npy", ".parquet", *vecs.TYPES)

_PICKLE = b"\x80"  # the first byte of a pickle in any protocol since 2
_BLOCK = 4096  # rows
_BLOCK_NUMBERS = 1 << 22
_SMALLEST_NORM = 1e-30  # the squares of smaller numbers underflow in float32


class Embeddings:
    """Matrix in a file, with one row per item.

    Parameters
    ----------
    path : Path
        A .npy file of shape (n_rows, n_features) with real numbers of any type; or a .parquet file with
        either one column of lists of equal lengths, or numeric columns, which are used in order. Other
        columns are ignored. For .fvecs and .bvecs files, see `core.sources.vecs`.

    Attributes
    ----------
    digest : str
        Sixteen hexadecimal digits computed from the shape, the dtype and 64 rows, to detect changed files.

    Raises
    ------
    InputError
        If the file does not exist or contains no such matrix.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        if not self.path.is_file():
            raise InputError(f"there is no file {self.path}")
        if self.path.suffix.lower() not in SUFFIXES:
            raise InputError(f"{self.path} must be one of {', '.join(SUFFIXES)}")
        self._is_vecs = self.path.suffix.lower() in vecs.TYPES
        self._matrix = vecs.mapped(self.path) if self._is_vecs else self._mapped()
        self.digest = self._digest()

    def __len__(self) -> int:
        return len(self._matrix)

    @property
    def n_features(self) -> int:
        """Length of a row."""
        return int(self._matrix.shape[1])

    def _digest(self) -> str:
        some = np.unique(np.linspace(0, len(self) - 1, 64).astype(np.int64))
        digest = hashlib.blake2b(repr((self._matrix.shape, self._matrix.dtype.str)).encode(), digest_size=8)
        digest.update(np.ascontiguousarray(self._matrix[some]).tobytes())
        return digest.hexdigest()

    def rows(self, items: Items) -> NDArray[np.float32]:
        """Return rows as float32, of shape (n_items, n_features).

        Raises
        ------
        InputError
            If a row is all zeros, or contains NaN or infinity, and therefore has no direction.
        """
        rows = _narrowed(self._matrix[items])
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        bad = np.flatnonzero(~(np.isfinite(norms) & (norms > _SMALLEST_NORM)))
        if bad.size:
            what = "has only zeros" if norms[bad[0]] <= _SMALLEST_NORM else "contains NaN or infinity"
            raise InputError(f"row {items[bad[0]]} of {self.path} {what}: every row needs a direction")
        return rows

    def check(self) -> None:
        """Read every row once to check it.

        Raises
        ------
        InputError
            If `rows` would raise an error for any row. The message names the first such row.
        """
        if self._is_vecs:
            vecs.check_lengths(self.path)
        block = max(1, min(_BLOCK, _BLOCK_NUMBERS // self.n_features))
        for start in range(0, len(self), block):
            self.rows(np.arange(start, min(start + block, len(self)), dtype=np.int64))

    def _mapped(self) -> NDArray[Any]:
        parquet = self.path.suffix.lower() == ".parquet"
        file = unpacked(self.path, self._unpack) / "rows.npy" if parquet else self.path
        return _mapped(file, self.path)

    def _unpack(self, folder: Path) -> None:
        import pyarrow
        import pyarrow.parquet

        try:
            with pyarrow.parquet.ParquetFile(self.path) as file:
                columns, lists = _columns(file.schema_arrow, self.path)
                batches = file.iter_batches(batch_size=_BLOCK, columns=columns)
                matrix: NDArray[np.float32] | None = None
                at = 0
                for batch in batches:
                    rows = _of_lists(batch.column(0), at, self.path) if lists else _of_columns(batch)
                    if matrix is None:
                        shape = (file.metadata.num_rows, rows.shape[1])
                        matrix = open_memmap(folder / "rows.npy", mode="w+", dtype=np.float32, shape=shape)
                    if rows.shape[1] != matrix.shape[1]:
                        raise InputError(_ragged(self.path, at, rows.shape[1], matrix.shape[1]))
                    matrix[at : at + len(rows)] = rows
                    at += len(rows)
                if matrix is None:
                    raise InputError(f"{self.path} has no rows")
                cast(Any, matrix).flush()
        except pyarrow.ArrowException as error:
            raise InputError(f"{self.path} is damaged, or no Parquet file: {error}") from error


def _why(file: Path, error: Exception) -> str:
    """Return why NumPy can't read the file. NumPy takes all files of unknown formats for pickles."""
    if "allow_pickle" in str(error):
        with file.open("rb") as opened:
            is_array = opened.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX
            opened.seek(0)
            is_pickle = opened.read(1) == _PICKLE
        if not (is_array or is_pickle):
            return "it is not a .npy file"
    objects = any(word in str(error) for word in ("Object arrays", "Python objects", "allow_pickle"))
    return "it contains Python objects (a pickle), which are never loaded" if objects else str(error)


def _mapped(file: Path, shown: Path) -> NDArray[Any]:
    """Memory-map the matrix in `file`; error messages name `shown` instead."""
    try:
        matrix = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError, BadZipFile) as error:
        raise InputError(f"{shown} can't be read as an array of numbers: {_why(file, error)}") from error
    if not isinstance(matrix, np.ndarray) or matrix.ndim != 2:
        shape = getattr(matrix, "shape", "several arrays")
        raise InputError(f"{shown} must have shape (n_rows, n_features), got {shape}")
    if 0 in matrix.shape:
        raise InputError(f"{shown} must have at least one row and one feature, got shape {matrix.shape}")
    if matrix.dtype.kind not in "fiu":
        raise InputError(f"{shown} must contain real numbers, got {matrix.dtype}")
    return matrix


def _columns(schema: Any, path: Path) -> tuple[list[str], bool]:
    """Return the names of the columns that form the matrix, and whether they are a single column of lists."""
    from pyarrow import types

    def is_list(kind: Any) -> bool:
        return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))

    lists = [field.name for field in schema if is_list(field.type) and _is_number(field.type.value_type)]
    if len(lists) > 1:
        raise InputError(f"{path} must have one column of lists, got {', '.join(lists)}")
    if lists:
        return lists, True
    numbers = [
        field.name
        for field in schema
        if _is_number(field.type) and not field.name.startswith("__index_level")
    ]
    if not numbers:
        raise InputError(f"{path} must have a column of lists of numbers, or numeric columns, got neither")
    return numbers, False


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_floating(kind) or types.is_integer(kind))


def _of_lists(column: Any, first_row: int, path: Path) -> NDArray[np.float32]:
    """Return the lists of one block as rows; missing lists and missing numbers become NaN."""
    import pyarrow.compute

    lengths = pyarrow.compute.list_value_length(column).to_numpy(zero_copy_only=False)
    given = lengths[~np.isnan(lengths.astype(np.float64))]
    width = int(given[0]) if len(given) else 0
    for row in np.flatnonzero(lengths.astype(np.float64) != width):
        if not np.isnan(float(lengths[row])):
            raise InputError(_ragged(path, first_row + int(row), int(lengths[row]), width))
    present = column.is_valid().to_numpy(zero_copy_only=False)
    rows = np.full((len(column), width), np.nan, dtype=np.float32)
    values = column.drop_null().flatten().to_numpy(zero_copy_only=False)
    rows[present] = _narrowed(values).reshape(-1, width)
    return rows


def _of_columns(batch: Any) -> NDArray[np.float32]:
    return np.stack([_narrowed(column.to_numpy(zero_copy_only=False)) for column in batch.columns], axis=1)


def _narrowed(values: NDArray[Any]) -> NDArray[np.float32]:
    """Return the values as float32. Values that overflow become infinite, and are rejected by `rows`."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _ragged(path: Path, row: int, length: int, other: int) -> str:
    return f"row {row} of {path} has {length} numbers, but earlier rows have {other}"
