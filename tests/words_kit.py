"""A small pair of models for images and words, trained here on drawn digits and shapes with captions.

The vision model is a convolution with patches of the drawings as filters (Coates, Ng and Lee 2011), pooled
and mapped linearly. The text model adds up a vector for each word. Both maps come from canonical correlation
analysis with a ridge: captions are centered and whitened, and images are mapped to them by least squares.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from PIL import Image, ImageDraw
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

SIDE = 28
STROKES: dict[str, list[list[tuple[float, float]]]] = {
    "zero": [[(0.5, 0), (0.9, 0.25), (0.9, 0.75), (0.5, 1), (0.1, 0.75), (0.1, 0.25), (0.5, 0)]],
    "one": [[(0.3, 0.2), (0.5, 0), (0.5, 1)]],
    "two": [[(0.1, 0.2), (0.5, 0), (0.9, 0.25), (0.1, 1), (0.9, 1)]],
    "three": [[(0.1, 0), (0.9, 0), (0.45, 0.4), (0.9, 0.7), (0.5, 1), (0.1, 0.85)]],
    "four": [[(0.7, 1), (0.7, 0), (0.1, 0.65), (0.95, 0.65)]],
    "five": [[(0.9, 0), (0.15, 0), (0.15, 0.45), (0.7, 0.4), (0.9, 0.7), (0.6, 1), (0.1, 0.95)]],
    "six": [[(0.8, 0), (0.2, 0.5), (0.15, 0.85), (0.5, 1), (0.85, 0.8), (0.6, 0.5), (0.2, 0.65)]],
    "seven": [[(0.1, 0), (0.9, 0), (0.4, 1)]],
    "eight": [[(0.5, 0.45), (0.2, 0.2), (0.5, 0), (0.8, 0.2), (0.1, 0.8), (0.5, 1), (0.9, 0.8), (0.5, 0.45)]],
    "nine": [[(0.85, 0.35), (0.4, 0.5), (0.15, 0.2), (0.5, 0), (0.85, 0.15), (0.85, 0.5), (0.7, 1)]],
    "square": [[(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]],
    "triangle": [[(0.5, 0), (1, 1), (0, 1), (0.5, 0)]],
    "plus": [[(0.5, 0), (0.5, 1)], [(0, 0.5), (1, 0.5)]],
    "arrow": [[(0, 0.5), (1, 0.5)], [(0.6, 0.1), (1, 0.5), (0.6, 0.9)]],
}
NAMES = tuple(STROKES)
ADJECTIVES = (("thin", "bold"), ("upright", "slanted"), ("small", "large"))
WORDS = ("a", *(word for pair in ADJECTIVES for word in pair), *NAMES)

PAD, BEGIN, END, UNKNOWN = "!", "<|startoftext|>", "<|endoftext|>", "<|unknown|>"
SPECIAL = (PAD, BEGIN, END, UNKNOWN)
CONTEXT = 16
"""Number of tokens that the text model reads."""


class Drawing(NamedTuple):
    """What is drawn: a name, and one of each pair of adjectives."""

    name: str
    adjectives: tuple[str, ...]

    @property
    def caption(self) -> str:
        """All that is drawn: "a thin slanted small seven"."""
        return " ".join(["a", *self.adjectives, self.name])

    def is_a(self, words: str) -> bool:
        """Whether a caption describes it."""
        return set(words.split()) <= {"a", self.name, *self.adjectives}


def every_drawing(names: Sequence[str] = NAMES) -> Iterator[Drawing]:
    """All names with all adjectives."""
    for name in names:
        for number in range(2 ** len(ADJECTIVES)):
            yield Drawing(name, tuple(pair[number >> place & 1] for place, pair in enumerate(ADJECTIVES)))


def draw(drawing: Drawing, rng: np.random.Generator) -> Image.Image:
    """Draw it in white on black, each time at another place and with other proportions."""
    is_bold, is_slanted, is_large = (
        word == pair[1] for word, pair in zip(drawing.adjectives, ADJECTIVES, strict=True)
    )
    height = (40 if is_large else 24) * rng.uniform(0.93, 1.07)
    width = height * rng.uniform(0.6, 0.75)
    shear = 0.55 * is_slanted + rng.uniform(-0.06, 0.06)
    place = 28 + rng.uniform(-3, 3, 2)
    image = Image.new("L", (2 * SIDE, 2 * SIDE))
    pen = ImageDraw.Draw(image)
    for stroke in STROKES[drawing.name]:
        points = np.array(stroke) - 0.5 + rng.normal(0, 0.02, (len(stroke), 2))
        x = points[:, 0] * width - shear * points[:, 1] * height
        places = np.stack([x, points[:, 1] * height], axis=1) + place
        pen.line([tuple(point) for point in places.tolist()], 255, 7 if is_bold else 3, "curve")
    noise = rng.normal(0, 12, (SIDE, SIDE))
    small = np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BOX))
    return Image.fromarray((small + noise).clip(0, 255).astype(np.uint8))


def write_drawings(folder: Path, drawings: Sequence[Drawing], seed: int) -> dict[str, Drawing]:
    """Write an image of each; returns what each file shows, by its name."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    shown = {}
    for number, drawing in enumerate(drawings):
        name = f"{number:05}.png"
        draw(drawing, rng).save(folder / name)
        shown[name] = drawing
    return shown


class Pair(NamedTuple):
    """Two models."""

    vision: onnx.ModelProto
    text: onnx.ModelProto


@cache
def trained(n_each: int = 50, n_filters: int = 64, ridge: float = 0.0005) -> Pair:
    """Train a pair on `n_each` images of each drawing: the same one each time, in seconds."""
    rng = np.random.default_rng(0)
    drawings = list(every_drawing()) * n_each
    images = np.stack([np.asarray(draw(one, rng)) for one in drawings]).astype(np.float32)[:, None] / 255
    bags = np.array([_bag(one.caption) for one in drawings], dtype=np.float64)
    filters, offsets = _filters(images, n_filters, rng)
    X = _run(_vision_model(filters, offsets), images).astype(np.float64)
    mean, deviation = X.mean(axis=0), X.std(axis=0) + 1e-6
    X = (X - mean) / deviation
    Y = bags - bags.mean(axis=0)
    values, vectors = np.linalg.eigh(Y.T @ Y / len(Y))
    kept = values > 1e-6
    whiten = vectors[:, kept] / np.sqrt(values[kept])
    gram = X.T @ X + ridge * len(X) * np.eye(X.shape[1])
    W = np.linalg.solve(gram, X.T @ (Y @ whiten)) / deviation[:, None]
    table = np.zeros((len(SPECIAL) + len(WORDS), whiten.shape[1]))
    table[len(SPECIAL) :] = whiten
    return Pair(_vision_model(filters, offsets, W, -mean @ W), text_model(table, -bags.mean(axis=0) @ whiten))


def write_pair(
    folder: Path, *, pair: Pair | None = None, outputs: tuple[str, str] = ("image_embeds", "text_embeds")
) -> Path:
    """Write a pair as the Hugging Face hub lays it out; returns the folder."""
    for model, name, output in zip(pair or trained(), ("vision_model", "text_model"), outputs, strict=True):
        renamed = onnx.ModelProto()
        renamed.CopyFrom(model)
        renamed.graph.node[-1].output[0] = renamed.graph.output[0].name = output
        (folder / "onnx").mkdir(parents=True, exist_ok=True)
        onnx.save(renamed, folder / "onnx" / f"{name}.onnx")
    steps = {"size": {"height": SIDE, "width": SIDE}, "do_normalize": False, "resample": 2}
    (folder / "preprocessor_config.json").write_text(json.dumps(steps))
    write_tokenizer(folder)
    return folder


def write_tokenizer(folder: Path, config: dict[str, Any] | None = None) -> Path:
    """Write `tokenizer.json` for `WORDS`, and its configuration; returns the file."""
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("removed")]
    )
    tokenizer.add_special_tokens([PAD, BEGIN, END])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A {END}", special_tokens=[(BEGIN, vocabulary[BEGIN]), (END, vocabulary[END])]
    )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    plain = {"model_max_length": CONTEXT, "pad_token": END} if config is None else config
    (folder / "tokenizer_config.json").write_text(json.dumps(plain))
    return folder / "tokenizer.json"


def text_model(table: NDArray[Any], offset: NDArray[Any]) -> onnx.ModelProto:
    """A model that adds up the rows of a table for the tokens of a text, and an offset."""
    return _model(
        [
            helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
            helper.make_node("ReduceSum", ["rows", "tokens"], ["sum"], keepdims=0),
            helper.make_node("Add", ["sum", "offset"], ["text_embeds"]),
        ],
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ("batch", "tokens"))],
        "text_embeds",
        table=table.astype(np.float32),
        offset=offset.astype(np.float32),
        tokens=np.array([1]),
    )


def write_echo(
    file: Path, inputs: Sequence[str], shape: Sequence[Any], *, output: str = "text_embeds"
) -> Path:
    """Write a model whose vector consists of its inputs, one after the other; returns its file."""
    values = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in inputs]
    nodes = [
        helper.make_node("Concat", list(inputs), ["both"], axis=1),
        helper.make_node("Cast", ["both"], [output], to=TensorProto.FLOAT),
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(_model(nodes, values, output), file)
    return file


def _bag(text: str) -> NDArray[np.float64]:
    words = text.split()
    return np.array([word in words for word in WORDS], dtype=np.float64)


def _filters(
    images: NDArray[np.float32], n: int, rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return whitened patches of the images as filters, of shape (n, 1, 5, 5), and their offsets."""
    windows = np.lib.stride_tricks.sliding_window_view(images[:, 0], (5, 5), axis=(1, 2))
    count, high, wide = windows.shape[:3]
    places = rng.integers(0, [count, high, wide], (4000, 3))
    patches = windows[tuple(places.T)].reshape(-1, 25).astype(np.float64)
    patches = patches[patches.std(axis=1) > 0.1]
    mean = patches.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(patches.T))
    whiten = vectors / np.sqrt(values + 0.01) @ vectors.T
    some = (patches[:n] - mean) @ whiten
    some /= np.linalg.norm(some, axis=1, keepdims=True)
    weights = some @ whiten.T
    return weights.reshape(n, 1, 5, 5).astype(np.float32), (-weights @ mean).astype(np.float32)


def _vision_model(
    filters: NDArray[np.float32], offsets: NDArray[np.float32], *last: NDArray[Any]
) -> onnx.ModelProto:
    """Return the convolution, followed by a linear map if there is one."""
    nodes = [
        helper.make_node("Conv", ["pixel_values", "filters", "offsets"], ["map"]),
        helper.make_node("Relu", ["map"], ["parts"]),
        helper.make_node("AveragePool", ["parts"], ["pooled"], kernel_shape=[6, 6], strides=[6, 6]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
    ]
    weights = {"filters": filters, "offsets": offsets}
    if last:
        nodes.append(helper.make_node("Gemm", ["features", "W", "b"], ["image_embeds"]))
        weights |= {name: one.astype(np.float32) for name, one in zip("Wb", last, strict=True)}
    images = helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, ("batch", 1, SIDE, SIDE))
    return _model(nodes, [images], "image_embeds" if last else "features", **weights)


def _model(nodes: list[Any], inputs: list[Any], output: str, **weights: NDArray[Any]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "small",
        inputs,
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _run(model: onnx.ModelProto, images: NDArray[np.float32]) -> NDArray[np.float32]:
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (value,) = session.run(None, {"pixel_values": images})
    return np.asarray(value)
