"""Small image models in ONNX: a convolution with fixed random weights, and what follows it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, FLOAT16, UINT8 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.UINT8
DOUBLE, BFLOAT16, STRING = TensorProto.DOUBLE, TensorProto.BFLOAT16, TensorProto.STRING
N_FEATURES = 12

PLAIN = {
    "size": {"height": 8, "width": 8},
    "resample": 2,
    "image_mean": [0.5, 0.4, 0.3],
    "image_std": [0.2, 0.3, 0.4],
}
"""A configuration for models that read 8 × 8 pixels."""


def write_model(
    file: Path,
    *,
    shape: Sequence[Any] = ("batch", 3, 8, 8),
    dtype: int = FLOAT,
    outputs: Sequence[str] = ("image_embeds",),
    seed: int = 0,
    config: dict[str, Any] | None = PLAIN,
    zero: bool = False,
    n_logits: int = 1000,
) -> Path:
    """Write a model and its configuration; returns its file.

    Outputs: `image_embeds` and `features` (mean of the map), `map`, `tokens` (the map's places, in order),
    `with class token` (the same after their mean), `logits` (`n_logits` of the features).
    """
    rng = np.random.default_rng(seed)
    channels_last = shape[1] not in (1, 3)
    channels = shape[3] if channels_last else shape[1]
    kernel = np.zeros if zero else rng.standard_normal
    weights = {
        "kernel": kernel((N_FEATURES, channels, 3, 3)).astype(np.float32),
        "head": rng.standard_normal((N_FEATURES, n_logits)).astype(np.float32),
        "places": np.array([0, N_FEATURES, -1], np.int64),
        "one token": np.array([0, 1, N_FEATURES], np.int64),
    }
    nodes = [helper.make_node("Cast", ["pixel_values"], ["as float"], to=FLOAT)]
    last = "as float"
    if channels_last:
        nodes.append(helper.make_node("Transpose", [last], ["channels first"], perm=[0, 3, 1, 2]))
        last = "channels first"
    nodes += [
        helper.make_node("Conv", [last, "kernel"], ["map"], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["map"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
        helper.make_node("Identity", ["features"], ["image_embeds"]),
        helper.make_node("MatMul", ["features", "head"], ["logits"]),
        helper.make_node("Reshape", ["map", "places"], ["flat map"]),
        helper.make_node("Transpose", ["flat map"], ["tokens"], perm=[0, 2, 1]),
        helper.make_node("Reshape", ["features", "one token"], ["class token"]),
        helper.make_node("Concat", ["class token", "tokens"], ["with class token"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("pixel_values", dtype, shape)],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    if config is not None:
        (file.parent / "preprocessor_config.json").write_text(json.dumps(config))
    return file


def write_batch_dependent_model(file: Path) -> Path:
    """A model whose features are relative to the largest value of its whole batch, as if quantized."""
    graph = helper.make_graph(
        [
            helper.make_node("GlobalAveragePool", ["pixel_values"], ["pooled"]),
            helper.make_node("ReduceMax", ["pooled"], ["largest"], keepdims=0),
            helper.make_node("Div", ["pooled", "largest"], ["relative"]),
            helper.make_node("Flatten", ["relative"], ["features"]),
        ],
        "relative",
        [helper.make_tensor_value_info("pixel_values", FLOAT, ("batch", 3, 8, 8))],
        [helper.make_tensor_value_info("features", FLOAT, None)],
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    (file.parent / "preprocessor_config.json").write_text(json.dumps(PLAIN))
    return file


def write_odd_model(
    file: Path, *nodes: onnx.NodeProto, shape: Sequence[Any] = ("batch", 3, 8, 8), dtype: int = FLOAT
) -> Path:
    """A model whose `nodes` make the output `odd`, of any type, from the mean of each channel, `means`."""
    graph = helper.make_graph(
        [
            helper.make_node("GlobalAveragePool", ["pixel_values"], ["pooled"]),
            helper.make_node("Flatten", ["pooled"], ["means"]),
            *nodes,
        ],
        "odd",
        [helper.make_tensor_value_info("pixel_values", FLOAT, shape)],
        [helper.make_tensor_value_info("odd", dtype, None)],
        [numpy_helper.from_array(np.array([2, -1]), "two rows")],
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), file)
    (file.parent / "preprocessor_config.json").write_text(json.dumps(PLAIN))
    return file


def write_text_model(file: Path) -> Path:
    """A model that reads numbers of words, and no image."""
    graph = helper.make_graph(
        [helper.make_node("Cast", ["input_ids"], ["embeds"], to=FLOAT)],
        "text",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ("batch", "words"))],
        [helper.make_tensor_value_info("embeds", FLOAT, None)],
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    return file
