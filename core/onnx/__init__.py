from __future__ import annotations

from closecall.core.onnx.loading import load_model, load_text_model
from closecall.core.onnx.model import ImageModel
from closecall.core.onnx.preprocessing import Preprocessing
from closecall.core.onnx.text import TextModel

__all__ = ["ImageModel", "Preprocessing", "TextModel", "load_model", "load_text_model"]
