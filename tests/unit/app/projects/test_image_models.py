from __future__ import annotations

import os

import pytest

from closecall.app.projects.image_models import about_model, image_models
from closecall.core.errors import InputError
from tests.onnx_kit import write_model


def test_models_beside_the_projects_are_offered(tmp_path):
    """Files and folders with a model, by name; nothing else that lies there."""
    assert image_models(tmp_path) == {}
    models = tmp_path / "models"
    write_model(models / "dino" / "onnx" / "model.onnx")
    write_model(models / "small.onnx")
    (models / "empty").mkdir()
    (models / "notes.txt").write_text("x")
    assert image_models(tmp_path) == {"dino": models / "dino", "small.onnx": models / "small.onnx"}


def test_a_file_named_models_is_no_folder_of_models(tmp_path):
    """It is somebody else's."""
    (tmp_path / "models").write_text("x")
    assert image_models(tmp_path) == {}


def test_a_model_is_described_before_it_is_used(tmp_path):
    """Its features and its speed, or why it can't be used."""
    about, seconds = about_model(write_model(tmp_path / "a" / "model.onnx"))
    assert about == (
        "12 features from output image_embeds. About "
        f"{100 / (seconds * os.cpu_count()):,.0f} images per second on each core."
    )
    plain = write_model(tmp_path / "b" / "model.onnx", shape=(1, 3, 32, 32), config=None)
    assert about_model(plain)[0].endswith("prepared as ImageNet asks: shortest edge 37, middle 32 × 32.")
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(InputError, match=r"bad\.onnx .* can load: it is damaged, or no ONNX file$"):
        about_model(tmp_path / "bad.onnx")
