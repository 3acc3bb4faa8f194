"""Loading of models. The most recently used models stay in memory until their files change."""

from __future__ import annotations

from pathlib import Path

from closecall.core.files.typed import existing_path
from closecall.core.onnx.files import TOKENIZER_CONFIGS, beside, configurations, find_model, identity_of
from closecall.core.onnx.kept import Kept
from closecall.core.onnx.model import ImageModel
from closecall.core.onnx.preprocessing import Preprocessing
from closecall.core.onnx.runtime import CPU
from closecall.core.onnx.text import TextModel

_models: Kept[ImageModel] = Kept(8)
_text_models: Kept[TextModel] = Kept(8)


def load_model(
    path: Path,
    *,
    output: str | None = None,
    preprocessing: Preprocessing | None = None,
    provider: str = CPU,
) -> ImageModel:
    """Load an `ImageModel`, or return it from memory if its files have not changed.

    Raises
    ------
    InputError
        See `ImageModel`. After this error, the model is not loaded again until its files change.
    """
    file = find_model(path)
    key = (identity_of(file, *configurations(file)), output, preprocessing, provider)

    def load() -> ImageModel:
        model = ImageModel(file, output=output, preprocessing=preprocessing, provider=provider)
        _ = model.digest  # compute it now, before the file can change
        return model

    return _models.get(key, load)


def model_named(word: str, provider: str = CPU) -> ImageModel | None:
    """Load the model at a path, which may be followed by "#" and the name of an output; see `load_model`.

    Return None if there is no such file or folder. `provider` is the execution provider.

    Raises
    ------
    InputError
        See `ImageModel`.
    """
    name, _, output = (word, "", "") if existing_path(word) else word.rpartition("#")
    path = existing_path(name) if name else None
    return None if path is None else load_model(path, output=output or None, provider=provider)


def load_text_model(file: Path, tokenizer: Path) -> TextModel:
    """Load a `TextModel`, or return it from memory if its files have not changed.

    Raises
    ------
    InputError
        See `TextModel`. After this error, the model is not loaded again until its files change.
    """
    key = identity_of(file, tokenizer, *beside(file, TOKENIZER_CONFIGS))
    return _text_models.get(key, lambda: TextModel(file, tokenizer))
