from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from closecall.app.projects.image_models import DOWNLOADS, TOOLS, about_model, image_models
from closecall.core.errors import InputError
from tests.onnx_kit import write_model

DOCS = Path(__file__).parents[4] / "docs"


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
    about = about_model(write_model(tmp_path / "a" / "model.onnx"))
    assert about.text == (
        "12 features from output image_embeds. About "
        f"{100 / (about.wait * os.cpu_count()):,.0f} images per second on each core."
    )
    plain = write_model(tmp_path / "b" / "model.onnx", shape=(1, 3, 32, 32), config=None)
    assert about_model(plain).text.endswith("prepared as ImageNet asks: shortest edge 37, middle 32 × 32.")
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(InputError, match=r"bad\.onnx .* can load: it is damaged, or no ONNX file$"):
        about_model(tmp_path / "bad.onnx")


def test_outputs_are_offered_with_their_features(tmp_path):
    """The preferred one first; each can be chosen."""
    model = write_model(tmp_path / "model.onnx", outputs=("logits", "image_embeds"))
    about = about_model(model)
    assert list(about.outputs.items()) == [("image_embeds", 12), ("logits", 1000)]
    assert (about.output, about.n_features) == ("image_embeds", 12)
    other = about_model(model, output="logits")
    assert (other.output, other.n_features, other.outputs) == ("logits", 1000, about.outputs)
    assert other.text.startswith("1,000 features from output logits.")


def test_the_documentation_has_the_commands_of_the_page():
    """To the letter, with the folder `models`."""
    documented = (DOCS / "features.md").read_text("utf-8").replace("\\\n", " ")
    lines = [" ".join(line.split()) for line in documented.splitlines()]
    for command in (TOOLS, *(model.command(Path("models")) for model in DOWNLOADS)):
        assert command in lines


def test_a_folder_with_blanks_is_quoted():
    """A command can be copied into a shell."""
    words = shlex.split(DOWNLOADS[0].command(Path("/my data/models")))
    assert words[:3] == ["hf", "download", "Xenova/dinov2-small"]
    assert words[-2:] == ["--local-dir", str(Path("/my data/models/dinov2-small"))]
