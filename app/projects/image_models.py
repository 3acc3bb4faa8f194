"""Image models that the start page offers: those in the folder `models` beside the projects."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from closecall.core.errors import InputError

FOLDER = "models"


def image_models(projects: Path) -> dict[str, Path]:
    """Return the models beside the projects, a file or a folder each, by their names in that folder."""
    found: dict[str, Path] = {}
    with suppress(OSError):  # the folder may be missing, or somebody else's
        for path in sorted((projects / FOLDER).iterdir()):
            if path.suffix == ".onnx" or _has_model(path):
                found[path.name] = path
    return found


def about_model(path: Path) -> str:
    """Describe a model's features and its speed on this machine, which is measured once.

    Raises
    ------
    InputError
        If the model can't be used.
    """
    from closecall.core.onnx import load_model

    return " ".join(load_model(path).about()[:2])


def _has_model(path: Path) -> bool:
    from closecall.core.onnx.model import find_model

    try:
        return path.is_dir() and find_model(path).is_file()
    except InputError:
        return False
