"""Where projects lie that nobody chose a folder for."""

from __future__ import annotations

from pathlib import Path

import platformdirs

NAME, FORMER_NAME = "closecall", "marginalia"


def data_folder() -> Path:
    """The user's data folder: the one of this program's former name where that is there alone."""
    own, former = _folder(NAME), _folder(FORMER_NAME)
    return former if former.is_dir() and not own.is_dir() else own


def former_folder_beside(folder: Path) -> Path | None:
    """The folder of the former name where `folder` is the newer one, and both are there."""
    former = _folder(FORMER_NAME)
    return former if folder.resolve() == _folder(NAME).resolve() and former.is_dir() else None


def _folder(name: str) -> Path:
    return Path(platformdirs.user_data_dir(name))
