"""The default folder of projects."""

from __future__ import annotations

from pathlib import Path

import platformdirs

NAME, FORMER_NAME = "closecall", "marginalia"


def data_folder() -> Path:
    """Return the user's data folder, which has the program's former name if only that folder exists."""
    own, former = _folder(NAME), _folder(FORMER_NAME)
    return former if former.is_dir() and not own.is_dir() else own


def former_folder_beside(folder: Path) -> Path | None:
    """Return the data folder under the program's former name, or None.

    The result is None if `folder` is not the data folder, or if there is no former folder.
    """
    former = _folder(FORMER_NAME)
    return former if folder.resolve() == _folder(NAME).resolve() and former.is_dir() else None


def _folder(name: str) -> Path:
    return Path(platformdirs.user_data_dir(name))
