"""Load models once: the last ones are kept as long as their files stay the same."""

from __future__ import annotations

from pathlib import Path

from closecall.core.onnx.files import TOKENIZER_CONFIGS, beside, configurations, find_model, identity_of
from closecall.core.onnx.kept import Kept
from closecall.core.onnx.model import ImageModel
from closecall.core.onnx.preprocessing import Preprocessing
from closecall.core.onnx.text import TextModel

_models: Kept[ImageModel] = Kept(8)
_text_models: Kept[TextModel] = Kept(8)


def load_model(
    path: Path, *, output: str | None = None, preprocessing: Preprocessing | None = None
) -> ImageModel:
    """Return an `ImageModel`, from memory if its files are still the same.

    Raises
    ------
    InputError
        See `ImageModel`. A refused model is not loaded again until its files change.
    """
    file = find_model(path)
    key = (identity_of(file, *configurations(file)), output, preprocessing)

    def load() -> ImageModel:
        model = ImageModel(file, output=output, preprocessing=preprocessing)
        _ = model.digest  # of the file as it was loaded
        return model

    return _models.get(key, load)


def load_text_model(file: Path, tokenizer: Path) -> TextModel:
    """Return a `TextModel`, from memory if its files are still the same.

    Raises
    ------
    InputError
        See `TextModel`. A refused model is not loaded again until its files change.
    """
    key = identity_of(file, tokenizer, *beside(file, TOKENIZER_CONFIGS))
    return _text_models.get(key, lambda: TextModel(file, tokenizer))
