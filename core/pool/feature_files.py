"""Files with the features of a part of a pool: a dense array, a sparse matrix, or bytes.

All layouts are mapped into memory. Damaged row starts or column indices could cause invalid memory access.
They are therefore checked when a part is opened, in one pass over the columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.files.durable import Stamp, stamp_of, write_array, write_arrays
from closecall.core.numerics.rows import sparse_rows
from closecall.core.pool.manifest import CURE, FEATURES, Manifest, Part
from closecall.core.quantization.byte_rows import ByteRows, in_file_order
from closecall.core.quantization.codebook import Codebook

STARTS, COLUMNS, VALUES, BYTES = "starts.npy", "columns.npy", "values.npy", "rows.bytes"


class Layout(ABC):
    """A file layout for features.

    Attributes
    ----------
    files : tuple of str
        Names of the files of a part.
    """

    files: tuple[str, ...]

    @abstractmethod
    def write(self, folder: Path, X: Any) -> dict[str, Stamp]:
        """Write the files of a new part and flush them to disk. Return the `Stamp` of each file by name."""

    @abstractmethod
    def load(self, pool: Path, part: Part, manifest: Manifest, codebook: Codebook | None) -> Any:
        """Return the part's features, memory-mapped and read-only, of shape (part.rows, n_features).

        `codebook` is that of a byte pool.

        Raises
        ------
        InputError
            If the files cannot be read or are damaged.
        """


class Dense(Layout):
    """A dense array of float32 or float16."""

    files = (FEATURES,)

    def write(self, folder: Path, X: Any) -> dict[str, Stamp]:
        """See `Layout.write`."""
        return {FEATURES: write_array(folder / FEATURES, X)}

    def load(self, pool: Path, part: Part, manifest: Manifest, codebook: Codebook | None) -> Any:  # noqa: ARG002
        """See `Layout.load`."""
        shape = (part.rows, manifest.n_features)
        return array(pool, part, FEATURES, shape, np.dtype(manifest.dtype), mapped=True)


class Sparse(Layout):
    """A `csr_array` of float32 in three files.

    The first file contains the start of each row and the end of the last row (int64). The second file
    contains the column of each value (int32), and the third file contains the values.
    """

    files = (STARTS, COLUMNS, VALUES)

    def write(self, folder: Path, X: Any) -> dict[str, Stamp]:
        """See `Layout.write`."""
        return {
            STARTS: write_array(folder / STARTS, X.indptr.astype(np.int64)),
            COLUMNS: write_array(folder / COLUMNS, X.indices.astype(np.int32, copy=False)),
            VALUES: write_array(folder / VALUES, X.data.astype(np.float32, copy=False)),
        }

    def load(self, pool: Path, part: Part, manifest: Manifest, codebook: Codebook | None) -> Any:  # noqa: ARG002
        """See `Layout.load`."""
        starts = array(pool, part, STARTS, (part.rows + 1,), np.dtype(np.int64))
        if starts[0] or (np.diff(starts) < 0).any():
            raise InputError(f"{pool / part.folder / STARTS} is damaged: its numbers do not ascend; {CURE}")
        n = (int(starts[-1]),)
        columns = array(pool, part, COLUMNS, n, np.dtype(np.int32), mapped=True)
        values = array(pool, part, VALUES, n, np.dtype(np.float32), mapped=True)
        if len(columns) and not 0 <= columns.min() <= columns.max() < manifest.n_features:
            raise InputError(
                f"{pool / part.folder / COLUMNS} is damaged: it names columns beyond the "
                f"{manifest.n_features} features; {CURE}"
            )
        return sparse_rows(values, columns, starts, manifest.n_features)


class Byte(Layout):
    """The bytes of a byte pool in one file per segment; see `core.quantization.byte_rows`."""

    files = (BYTES,)

    def write(self, folder: Path, X: Any) -> dict[str, Stamp]:
        """See `Layout.write`. `X` is `Encoded`."""
        return {BYTES: write_arrays(folder / BYTES, in_file_order(X))}

    def load(self, pool: Path, part: Part, manifest: Manifest, codebook: Codebook | None) -> Any:  # noqa: ARG002
        """See `Layout.load`."""
        if codebook is None:
            raise InputError(f"{pool} is damaged: it has no codebook; {CURE}")
        path = pool / part.folder / BYTES
        whole = array(pool, part, BYTES, (part.files[BYTES].bytes,), np.dtype(np.uint8), mapped=True)
        try:
            return ByteRows.of(whole, part.rows, codebook)
        except ValueError as error:
            raise InputError(f"{path} is damaged: {error}; {CURE}") from None


LAYOUTS: dict[str, Layout] = {"dense": Dense(), "sparse": Sparse(), "byte": Byte()}


def write_codebook(folder: Path, codebook: Codebook) -> dict[str, Stamp]:
    """Write the files of a codebook, one per array, and flush them to disk. Return their stamps by name."""
    files = {f"{name}.npy": array for name, array in codebook.arrays().items()}
    return {name: write_array(folder / name, array) for name, array in files.items()}


def load_codebook(pool: Path, part: Part) -> Codebook:
    """Return the codebook of the byte pool in the folder `pool`.

    Raises
    ------
    InputError
        If a file is missing or damaged.
    """
    arrays = {}
    for name, stamp in part.files.items():
        path = pool / part.folder / name
        try:
            if stamp_of(path) != stamp:
                raise InputError(f"{path} is damaged: its content does not match its checksum; {CURE}")
            arrays[name.removesuffix(".npy")] = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read: {error}") from error
    return Codebook.from_arrays(arrays)


def array(
    pool: Path, part: Part, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], mapped: bool = False
) -> NDArray[Any]:
    """Read an array of known shape from the end of a .npy file, without parsing the file's header.

    Raises
    ------
    InputError
        If the file is too short or cannot be read.
    """
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
