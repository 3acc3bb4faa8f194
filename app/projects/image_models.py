"""Image models that the start page offers: all models in the folder `models` in the folder of projects."""

from __future__ import annotations

import os
from pathlib import Path

from closecall.core.errors import InputError

FOLDER = "models"


def image_models(projects: Path) -> dict[str, Path]:
    """Return the path of each model, which is a file or a folder, by the name that the start page shows."""
    try:
        entries = sorted((projects / FOLDER).iterdir())
    except OSError:  # the folder is missing or can't be read
        return {}
    return {path.name: path for path in entries if path.suffix == ".onnx" or _has_model(path)}


def about_model(path: Path, provider: str | None = None) -> tuple[str, float]:
    """Return sentences about a model's features and speed, and an estimate of the wait before labeling.

    The wait is in seconds. The speed is measured once on this machine, with the given execution provider
    (`core.onnx.runtime.PROVIDERS`), by default on the CPU.

    Raises
    ------
    InputError
        If the model or the provider can't be used.
    """
    from closecall.core.onnx import load_model
    from closecall.core.onnx.runtime import CPU
    from closecall.core.pool.build import FIRST_SEGMENT_ROWS

    model = load_model(path, provider=provider or CPU)
    features, speed, steps, *_ = model.about()
    sentences = [features, speed] if model.is_configured else [features, speed, steps]
    at_once = (os.cpu_count() or 1) if model.provider == CPU else 1
    seconds = FIRST_SEGMENT_ROWS / (model.images_per_second * at_once)
    return " ".join(sentences), seconds


def providers() -> dict[str, str]:
    """Return the display name of each execution provider offered here, by its name; the CPU is the first."""
    from closecall.core.onnx.runtime import PROVIDERS, offered_providers

    return {name: PROVIDERS[name].label for name in offered_providers()}


def _has_model(path: Path) -> bool:
    from closecall.core.onnx.files import find_model

    try:
        return path.is_dir() and find_model(path).is_file()
    except (InputError, OSError):
        return False
