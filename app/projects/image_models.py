"""Image models that the start page offers: those in the folder `models` beside the projects."""

from __future__ import annotations

from pathlib import Path

from closecall.core.errors import InputError

FOLDER = "models"


def image_models(projects: Path) -> dict[str, Path]:
    """Return the models beside the projects, a file or a folder each, by their names in that folder."""
    try:
        entries = sorted((projects / FOLDER).iterdir())
    except OSError:  # there is no such folder, or it is somebody else's
        return {}
    return {path.name: path for path in entries if path.suffix == ".onnx" or _has_model(path)}


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
    from closecall.core.onnx.files import find_model

    try:
        return path.is_dir() and find_model(path).is_file()
    except (InputError, OSError):
        return False
