from __future__ import annotations

from closecall.core.onnx.loading import load_model
from closecall.core.onnx.model import ImageModel
from closecall.core.onnx.preprocessing import Preprocessing

__all__ = ["ImageModel", "Preprocessing", "load_model"]
