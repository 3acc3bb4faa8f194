"""Groups of a pool, saved in a folder inside the pool's folder.

Groups are saved with the rule by which they were found and the fingerprint of the rows that they cover, like
every index (`core.selection.files`). Reading verifies every byte. When the pool has grown, the groups of its
first rows remain readable.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from closecall.core.duplicates.groups import Groups
from closecall.core.errors import InputError
from closecall.core.selection.files import covered_rows, header_of, read_index, write_index
from closecall.core.selection.reader import PoolRows

FOLDER = "duplicates"
"""Folder inside a pool's folder; the groups of each kind have a folder in it."""

Kind = Literal["near", "bursts"]


@dataclass(frozen=True)
class Rule:
    """By which rule groups were found.

    Parameters
    ----------
    kind : {"near", "bursts"}
        Near-duplicates (`near_duplicates`) or bursts (`find_bursts`).
    angle : float
        Largest angle between an item and its leader, in radians.
    gap : float or None
        For bursts, the longest time between two photographs that follow each other, in seconds.
    """

    kind: Kind
    angle: float
    gap: float | None = None


@dataclass(frozen=True)
class SavedGroups:
    """Groups of a pool's first rows, and the rule by which they were found."""

    rule: Rule
    groups: Groups


def folder_of(pool: Path, kind: Kind) -> Path:
    """Return the folder for groups of this kind, given the pool's folder."""
    return pool / FOLDER / kind


def save_groups(folder: Path, pool: PoolRows, rule: Rule, groups: Groups) -> None:
    """Write the groups of all rows of `pool` to `folder`, replacing its content.

    Raises
    ------
    InputError
        If the folder cannot be written, or the groups cover another number of rows.
    """
    if len(groups) != len(pool):
        raise InputError(f"groups of {len(groups)} rows can't be saved for a pool of {len(pool)}")
    header = {"rule": asdict(rule), **header_of(pool)}
    write_index(folder, header, {"leaders": groups.leaders, "angles": groups.angles})


def load_groups(folder: Path, pool: PoolRows) -> SavedGroups:
    """Load the groups that were saved in `folder` for the first rows of `pool`, into memory.

    Raises
    ------
    InputError
        If there are none, or they are damaged, of a newer version, or of another pool.
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
    return SavedGroups(rule, groups)
