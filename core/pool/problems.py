"""The items of a pool that could not be read."""

from __future__ import annotations

import json
from pathlib import Path

from closecall.core.errors import InputError
from closecall.core.pool.manifest import CURE, PROBLEMS, Part
from closecall.core.sources import Problem


def load_problems(pool: Path, part: Part) -> list[Problem]:
    """Return the items of the part that could not be read, with the reasons.

    Raises
    ------
    InputError
        If the file that lists these items is damaged.
    """
    path = pool / part.folder / PROBLEMS
    try:
        return [Problem(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error}): {CURE}") from error
