"""Saving and loading of hash codes and of search structures over them, in separate folders.

A folder of codes also contains the fitted hash family. A structure that uses the codes in the order of the
rows is saved without the codes, so several structures can share them. Every structure is saved with the
digest of its codes, and is loaded only with exactly these codes. Like every index (`core.selection.files`), a
folder is written completely or not at all, checked byte by byte when it is read, and then mapped into memory.
Only the arrays of the family are copied into memory, because every query needs all of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from closecall.core.errors import InputError
from closecall.core.hashing.base import Arrays, Codes, named, part_of
from closecall.core.hashing.similarity import SimilarityHasher
from closecall.core.search.base import SearchStructure, packed_arrays, packed_codes
from closecall.core.selection.files import covered_rows, header_of, read_index, write_index
from closecall.core.selection.reader import PoolRows

Structure = TypeVar("Structure", bound=SearchStructure)


class SavedCodes(NamedTuple):
    """Loaded codes, and everything else that `save_codes` saved with them.

    Parameters
    ----------
    hasher : SimilarityHasher
        The fitted family.
    codes : Codes
        Codes of the pool's first rows, mapped into memory.
    also : dict
        The additional plain values that were saved.
    arrays : dict
        The additional arrays that were saved, copied into memory.
    """

    hasher: SimilarityHasher
    codes: Codes
    also: dict[str, Any]
    arrays: Arrays


def save_codes(
    folder: Path,
    pool: PoolRows,
    hasher: SimilarityHasher,
    codes: Codes,
    also: Mapping[str, Any],
    arrays: Arrays,
) -> None:
    """Write codes to `folder`, replacing its content.

    Parameters
    ----------
    folder : Path
        The folder to write. It is created if necessary.
    pool : PoolRows
        The pool whose rows were hashed.
    hasher : SimilarityHasher
        The fitted family.
    codes : Codes
        One code per row of the pool.
    also : mapping
        Additional plain values to save.
    arrays : dict
        Additional arrays to save, by name.

    Raises
    ------
    InputError
        If the folder cannot be written.
    """
    header = {"family": hasher.name, "params": hasher.params(), "also": dict(also), **header_of(pool)}
    parts = named("family", hasher.arrays()) | named("codes", packed_arrays(codes)) | named("also", arrays)
    write_index(folder, header, parts)


def load_codes(
    folder: Path,
    pool: PoolRows,
    unfitted: Callable[[int], SimilarityHasher],
    chosen: Iterable[str] = (),
) -> SavedCodes:
    """Load the codes that were saved in `folder` for the first rows of `pool`.

    Parameters
    ----------
    folder : Path
        The folder that `save_codes` wrote.
    pool : PoolRows
        The pool whose rows were hashed. It may have grown since then.
    unfitted : callable
        Function that takes a number of rows, and returns the unfitted family for a new index of this size.
    chosen : iterable of str
        Names of parameters that were chosen by the data. The loaded family has the saved values.

    Raises
    ------
    InputError
        If the folder is damaged, or was made by another version, for another pool or with other parameters.
    """
    header, arrays = read_index(folder)
    with _of_this_version(folder):
        covered = covered_rows(folder, header, pool)
        hasher = unfitted(len(covered))
        for name in chosen:
            setattr(hasher, name, header["params"][name])
        if (header["family"], header["params"]) != (hasher.name, json.loads(json.dumps(hasher.params()))):
            raise InputError(f"{folder} was made with other parameters: build the index again")
        hasher = hasher.restored(_copied(part_of(arrays, "family")))
        codes = packed_codes(part_of(arrays, "codes"))
        if len(codes) != len(covered):
            raise ValueError(f"{len(codes)} codes of {len(covered)} rows")
        return SavedCodes(hasher, codes, dict(header["also"]), _copied(part_of(arrays, "also")))


def save_structure(folder: Path, structure: SearchStructure, codes: Codes, how: Mapping[str, Any]) -> None:
    """Write a structure to `folder`, replacing its content.

    Parameters
    ----------
    folder : Path
        The folder to write. It is created if necessary.
    structure : SearchStructure
        Any structure of `core.search`.
    codes : Codes
        The codes over which the structure was built. If the structure uses these codes in their
        order, they are not written: `save_codes` writes them.
    how : mapping
        The parameters that the structure was built with, as plain values.

    Raises
    ------
    InputError
        If the folder cannot be written.
    """
    own = {name: array for name, array in structure.arrays().items() if array is not codes.packed}
    write_index(folder, _header(structure, codes, how), own)


def load_structure(folder: Path, kind: type[Structure], codes: Codes, how: Mapping[str, Any]) -> Structure:
    """Load the structure that was saved in `folder`. Check that its kind, codes and parameters are these.

    Raises
    ------
    InputError
        If the folder is damaged, was made by another version, or contains a structure of another kind, over
        other codes or with other parameters.
    """
    header, arrays = read_index(folder)
    if header != json.loads(json.dumps(_header(kind, codes, how))):
        raise InputError(f"{folder} belongs to other codes or was made with other parameters: build it again")
    with _of_this_version(folder):
        return kind.from_arrays({**packed_arrays(codes), **arrays})


def digest_of(arrays: Arrays) -> str:
    """Return 32 hexadecimal digits that identify named arrays by their dtypes, shapes and content."""
    digest = hashlib.blake2b(digest_size=16)
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).data)
    return digest.hexdigest()


def _header(
    structure: SearchStructure | type[SearchStructure], codes: Codes, how: Mapping[str, Any]
) -> dict[str, Any]:
    return {"structure": structure.name, "codes": digest_of(packed_arrays(codes)), "how": dict(how)}


def _copied(arrays: Arrays) -> Arrays:
    return {name: np.array(array) for name, array in arrays.items()}


@contextmanager
def _of_this_version(folder: Path) -> Iterator[None]:
    """Turn an error of the ``with`` block into an InputError that `folder` was made by another version."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder} was made by another version: build the index again") from error
