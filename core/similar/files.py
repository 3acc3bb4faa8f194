"""Codes of a pool, and search structures over them, in folders of their own.

A folder of codes has the family that made them, too. Structures that look at the codes in the order of the
rows are saved without them: of several over the same codes, each takes only what is its own. Such a structure
goes with exactly these codes, by their digest. As every index (`core.selection.files`), they are there whole
or not at all, checked to the last byte when they are read, and then mapped into memory; of a family, of which
every query needs all, there is a copy.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
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
    """What `save_codes` was given.

    Parameters
    ----------
    hasher : SimilarityHasher
        Fitted.
    codes : Codes
        Mapped into memory, of the pool's first rows.
    also : dict
        Plain values.
    arrays : dict
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
    """Write codes to `folder`, replacing what is there.

    Parameters
    ----------
    folder : Path
        Need not be there.
    pool : PoolRows
        Whose rows have the codes.
    hasher : SimilarityHasher
        Fitted.
    codes : Codes
        One a row.
    also : mapping
        Whatever else is to be known of them, as plain values.
    arrays : dict
        The same, as arrays by name.

    Raises
    ------
    InputError
        If the folder can't be written.
    """
    header = {"family": hasher.name, "params": hasher.params(), "also": dict(also), **header_of(pool)}
    parts = named("family", hasher.arrays()) | named("codes", packed_arrays(codes)) | named("also", arrays)
    write_index(folder, header, parts)


def load_codes(folder: Path, pool: PoolRows, unfitted: Callable[[int], SimilarityHasher]) -> SavedCodes:
    """What was saved in `folder`, of the first rows of `pool`.

    Parameters
    ----------
    folder : Path
        As of `save_codes`.
    pool : PoolRows
        It may have grown since.
    unfitted : callable
        The family, not fitted, that makes the codes of so many rows today.

    Raises
    ------
    InputError
        If the folder is damaged, of another version, or was made for another pool or with other parameters.
    """
    header, arrays = read_index(folder)
    with _of_this_version(folder):
        covered = covered_rows(folder, header, pool)
        hasher = unfitted(len(covered))
        if (header["family"], header["params"]) != (hasher.name, json.loads(json.dumps(hasher.params()))):
            raise InputError(f"{folder} was made with other parameters: build the index again")
        hasher = hasher.restored(_copied(part_of(arrays, "family")))
        codes = packed_codes(part_of(arrays, "codes"))
        if len(codes) != len(covered):
            raise ValueError(f"{len(codes)} codes of {len(covered)} rows")
        return SavedCodes(hasher, codes, dict(header["also"]), _copied(part_of(arrays, "also")))


def save_structure(folder: Path, structure: SearchStructure, codes: Codes, how: Mapping[str, Any]) -> None:
    """Write a structure to `folder`, replacing what is there.

    Parameters
    ----------
    folder : Path
        Need not be there.
    structure : SearchStructure
        Any of `core.search`.
    codes : Codes
        Over which it was built; they are not written, if it looks at them as they are.
    how : mapping
        The parameters it was built with, as plain values.

    Raises
    ------
    InputError
        If the folder can't be written.
    """
    own = {name: array for name, array in structure.arrays().items() if array is not codes.packed}
    write_index(folder, _header(structure, codes, how), own)


def load_structure(folder: Path, kind: type[Structure], codes: Codes, how: Mapping[str, Any]) -> Structure:
    """The structure over these codes, built in this way, that was saved in `folder`.

    Raises
    ------
    InputError
        If the folder is damaged, of another version, or holds anything else.
    """
    header, arrays = read_index(folder)
    if header != json.loads(json.dumps(_header(kind, codes, how))):
        raise InputError(f"{folder} is of other codes or was made with other parameters: build it again")
    with _of_this_version(folder):
        return kind.from_arrays({**packed_arrays(codes), **arrays})


def digest_of(arrays: Arrays) -> str:
    """Thirty-two hexadecimal digits that tell named arrays apart, by their types, shapes and content."""
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
    """Say in one sentence that what is whole can't be understood."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder} was made by another version: build the index again") from error
