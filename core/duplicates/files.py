"""Saving and loading of a pool's groups of near-duplicates.

Groups are saved with the parameters of the search and with the fingerprint of the rows that they cover, like
every index (`core.selection.files`). Reading verifies every byte. When the pool has grown, the groups of its
first rows remain readable.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.duplicates.groups import Groups
from closecall.core.errors import InputError
from closecall.core.selection.files import MANIFEST, covered_rows, header_of, read_index, write_index
from closecall.core.selection.reader import PoolRows

FOLDER = "duplicates"
"""Subfolder of a pool's folder. It contains one folder for each kind of groups."""

Kind = Literal["near", "bursts"]

KINDS: tuple[Kind, ...] = ("bursts", "near")
"""Kinds of groups. If an item is in groups of both kinds, `ItemGroups.group` returns the burst."""

Stamps = dict[Kind, tuple[int, ...]]


@dataclass(frozen=True)
class Rule:
    """Parameters with which groups were found.

    Parameters
    ----------
    kind : {"near", "bursts"}
        Near-duplicates (`near_duplicates`) or bursts (`find_bursts`).
    angle : float
        Largest angle between an item and its leader, in radians.
    gap : float or None
        For bursts, the longest time between consecutive photographs, in seconds. Otherwise None.
    """

    kind: Kind
    angle: float
    gap: float | None = None


@dataclass(frozen=True)
class SavedGroups:
    """Groups of a pool's first rows, with the parameters with which they were found.

    Parameters
    ----------
    rule : Rule
    groups : Groups
    held_out : array of shape (n,), int64
        Held-out items, ascending, that are in a group with at least one item of the pool.
    """

    rule: Rule
    groups: Groups
    held_out: NDArray[np.int64]


def folder_of(pool: Path, kind: Kind) -> Path:
    """Return the folder for groups of this kind, given the pool's folder."""
    return pool / FOLDER / kind


def stamps_of(pool: Path) -> Stamps:
    """Return, for each kind of groups saved in a pool's folder, a value that differs after each save."""
    found: Stamps = {}
    for kind in KINDS:
        with suppress(OSError):
            stat = (folder_of(pool, kind) / MANIFEST).stat()
            found[kind] = stat.st_ino, stat.st_mtime_ns, stat.st_size
    return found


def save_groups(folder: Path, pool: PoolRows, rule: Rule, groups: Groups, held_out: ArrayLike = ()) -> None:
    """Write the groups of all rows of `pool` to `folder`, replacing its content.

    `held_out` are the held-out items that are in a group with items of the pool, ascending.

    Raises
    ------
    InputError
        If the folder cannot be written, or the groups have fewer or more rows than the pool.
    """
    if len(groups) != len(pool):
        raise InputError(f"groups of {len(groups)} rows can't be saved for a pool of {len(pool)}")
    header = {"rule": asdict(rule), **header_of(pool)}
    beside = np.asarray(held_out, dtype=np.int64)
    write_index(folder, header, {"leaders": groups.leaders, "angles": groups.angles, "held_out": beside})


def load_groups(folder: Path, pool: PoolRows) -> SavedGroups:
    """Load into memory the groups that were saved in `folder` for the first rows of `pool`.

    Earlier versions didn't save held-out items; the result then has none.

    Raises
    ------
    InputError
        If there are no groups, or if they are damaged, of another version, or of another pool.
    """
    header, arrays = read_index(folder)
    covered = covered_rows(folder, header, pool)
    try:
        rule = Rule(**header["rule"])
        groups = Groups(np.array(arrays["leaders"]), np.array(arrays["angles"]))
    except (KeyError, TypeError) as error:
        raise InputError(f"{folder} is of another version: find the groups again") from error
    if len(groups) != len(covered):
        raise InputError(f"{folder} is of another version: find the groups again")
    return SavedGroups(rule, groups, np.array(arrays.get("held_out", ()), dtype=np.int64))
