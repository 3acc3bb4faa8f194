"""Classes in a separate file: a .npy or .txt file with one class per item, in the order of the items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.sources.classes import Truth

SUFFIXES = (".npy", ".txt")
MOST_CLASSES = int(np.iinfo(np.int16).max)


def read_classes(path: Path, n_items: int) -> Truth:
    """Return the class names and, for each item, the index of its class, or −1 if unknown.

    Parameters
    ----------
    path : Path
        A .npy file with integers or strings, of shape (n_items,) or (n_items, 1), or a text file in UTF-8
        with one class per line. A negative integer, an empty string or an empty line means that the class of
        the item is unknown.
    n_items : int
        Number of items.

    Returns
    -------
    names : tuple of str
        Class names in ascending order; integers are ordered as numbers.
    truth : array of shape (n_items,), int16

    Raises
    ------
    InputError
        If the file cannot be read, or does not have one class per item and 2 to 32,767 different classes.
    """
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path} must be one of {', '.join(SUFFIXES)} to give classes")
    given = _array(path) if suffix == ".npy" else _lines(path)
    if len(given) != n_items:
        raise InputError(f"{path} must have one class per item, {n_items:,}, got {len(given):,}")
    values, places = np.unique(given, return_inverse=True)
    known = values != "" if values.dtype.kind == "U" else values >= 0
    n_classes = int(known.sum())
    if not 2 <= n_classes <= MOST_CLASSES:
        raise InputError(f"{path} must have 2 to {MOST_CLASSES:,} different classes, got {n_classes:,}")
    index = np.where(known, np.cumsum(known) - 1, -1).astype(np.int16)
    return tuple(str(value) for value in values[known].tolist()), index[places.reshape(-1)]


def _array(path: Path) -> NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path} can't be read as an array of classes: {error}") from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iuU":
        raise InputError(
            f"{path} must have integers or strings, got {getattr(array, 'dtype', 'several arrays')}"
        )
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"{path} must have shape (n_items,), got {array.shape}")
    return np.char.strip(array) if array.dtype.kind == "U" else np.asarray(array)


def _lines(path: Path) -> NDArray[Any]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            lines = [line.strip() for line in file]
    except UnicodeDecodeError as error:
        raise InputError(f"{path} must be a text in UTF-8 with one class per line") from error
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}") from error
    classes = ["" if line.startswith("-") and line[1:].isdecimal() else line for line in lines]
    if all(line.isdecimal() for line in classes if line) and any(classes):
        return np.array([int(line) if line else -1 for line in classes], dtype=np.int64)
    return np.array(classes, dtype=np.str_)
