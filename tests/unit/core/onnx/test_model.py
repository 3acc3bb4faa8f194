from __future__ import annotations

import json
import shutil
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.helper import make_node
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.onnx import ImageModel, load_model
from closecall.core.onnx.files import digest_of, external_data, find_model
from closecall.core.onnx.model import Output, _output_of, _rank
from closecall.core.onnx.runtime import _opened as opened
from tests.onnx_kit import (
    BFLOAT16,
    DOUBLE,
    FLOAT16,
    N_FEATURES,
    PLAIN,
    STRING,
    UINT8,
    write_batch_dependent_model,
    write_model,
    write_odd_model,
    write_text_model,
)


def noise(width: int = 20, height: int = 14, mode: str = "RGB", seed: int = 0) -> Image.Image:
    """An image of this size."""
    shape = (height, width, 3) if mode == "RGB" else (height, width)
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def slope(width: int, height: int) -> Image.Image:
    """An image that grows brighter along its longer side, in steps that can be seen in its middle."""
    place = np.arange(max(width, height)) * 9 % 256
    along = np.broadcast_to(place if width > height else place[:, None], (height, width))
    return Image.fromarray(np.repeat(along[..., None], 3, axis=2).astype(np.uint8))


def by_hand(file: Path, image: Image.Image, output: str = "image_embeds") -> np.ndarray:
    """What a plain script computes for `PLAIN`: Pillow, NumPy and a session of its own."""
    pixels = np.asarray(image.convert("RGB").resize((8, 8), Image.Resampling.BILINEAR)) / 255
    values = ((pixels - PLAIN["image_mean"]) / PLAIN["image_std"]).astype(np.float32)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    (value,) = session.run([output], {"pixel_values": values.transpose(2, 0, 1)[None]})
    return value[0]


def test_features_are_those_of_a_plain_script(tmp_path):
    """For images of every shape, and gray ones."""
    file = write_model(tmp_path / "model.onnx")
    model = ImageModel(file)
    assert model.n_features == N_FEATURES
    for image in (noise(), noise(3, 50), noise(8, 8), noise(200, 10), noise(mode="L")):
        assert np.allclose(model.features(image), by_hand(file, image), rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        (("batch", 3, "height", "width"), None),
        ((1, 3, 8, 8), None),
        ((4, 3, 8, 8), None),
        (("batch", 8, 8, 3), None),
        (("batch", 3, 8, 8), FLOAT16),
        (("batch", 3, 8, 8), DOUBLE),
    ],
)
def test_every_form_of_input_gives_the_same_features(tmp_path, shape, dtype):
    """Sizes that are open or fixed, a fixed number of images, channels last, half precision."""
    options = {} if dtype is None else {"dtype": dtype}
    model = ImageModel(write_model(tmp_path / "a" / "model.onnx", shape=shape, **options))
    plain = write_model(tmp_path / "b" / "model.onnx")
    image = noise()
    expected = by_hand(plain, image)
    assert np.allclose(model.features(image), expected, rtol=0, atol=2e-5 if dtype is None else 2e-2)


def test_bytes_are_given_as_they_are(tmp_path):
    """A model that reads bytes does the rest itself."""
    model = ImageModel(write_model(tmp_path / "model.onnx", dtype=UINT8))
    steps = dict(PLAIN, do_rescale=False, do_normalize=False)
    plain = ImageModel(write_model(tmp_path / "plain" / "model.onnx", config=steps))
    assert np.allclose(model.features(noise()), plain.features(noise()), rtol=1e-5)


def test_one_channel_means_gray(tmp_path):
    """Color images are converted."""
    model = ImageModel(write_model(tmp_path / "model.onnx", shape=("batch", 1, 8, 8)))
    image = noise()
    assert np.array_equal(model.features(image), model.features(image.convert("L")))


@pytest.mark.parametrize(
    ("outputs", "chosen", "pooling"),
    [
        (("logits", "image_embeds", "tokens"), "image_embeds", "none"),
        (("logits", "features", "tokens"), "tokens", "mean of tokens"),
        (("logits", "with class token"), "with class token", "class token"),
        (("logits", "map"), "map", "mean of map"),
        (("logits", "features"), "features", "none"),
        (("logits",), "logits", "none"),
    ],
)
def test_the_best_output_is_chosen(tmp_path, outputs, chosen, pooling):
    """Embeddings, then tokens or a map, then a vector, and scores of classes last."""
    model = ImageModel(write_model(tmp_path / "model.onnx", outputs=outputs))
    assert (model.output.name, model.output.pooling) == (chosen, pooling)
    assert {one.name for one in model.outputs} == set(outputs)


@pytest.mark.parametrize("output", ["tokens", "with class token", "map", "features"])
def test_each_pooling_gives_the_mean_of_the_map(tmp_path, output):
    """All outputs of the small model contain it in another form."""
    file = write_model(tmp_path / "model.onnx", outputs=("image_embeds", output))
    image = noise()
    given = ImageModel(file, output=output).features(image)
    assert np.allclose(given, ImageModel(file).features(image), rtol=0, atol=1e-5)


def test_an_output_that_the_model_lacks_is_refused(tmp_path):
    """The message names those it has."""
    with pytest.raises(InputError, match="has no output 'x': it has image_embeds"):
        ImageModel(write_model(tmp_path / "model.onnx"), output="x")


def test_features_depend_on_one_image_alone(tmp_path):
    """Whatever other threads compute at the same time, and also for a model that mixes a batch."""
    models = [
        ImageModel(write_batch_dependent_model(tmp_path / "mixed" / "model.onnx")),
        ImageModel(write_model(tmp_path / "fixed" / "model.onnx", shape=(4, 3, 8, 8))),
    ]
    images = [noise(seed=seed) for seed in range(40)]
    for model in models:
        alone = [model.features(image) for image in images]
        with ThreadPoolExecutor(8) as threads:
            together = list(threads.map(model.features, images))
        assert np.array_equal(alone, together)


def test_a_folder_is_searched_as_the_hub_lays_it_out(tmp_path):
    """The part that reads images comes first, and the configuration lies above."""
    write_model(tmp_path / "onnx" / "model.onnx", config=None)
    assert find_model(tmp_path).name == "model.onnx"
    write_model(tmp_path / "onnx" / "vision_model.onnx", config=None)
    write_model(tmp_path / "elsewhere" / "x.onnx")
    shutil.move(tmp_path / "elsewhere" / "preprocessor_config.json", tmp_path)
    model = ImageModel(tmp_path)
    assert model.file == tmp_path / "onnx" / "vision_model.onnx"
    assert model.is_configured
    assert model.preprocessing.resize == (8, 8)


def test_a_folder_that_leaves_it_open_is_refused(tmp_path):
    """No model, or several of which none has a usual name."""
    with pytest.raises(InputError, match=r"has no \.onnx file"):
        find_model(tmp_path)
    write_model(tmp_path / "a.onnx")
    assert find_model(tmp_path).name == "a.onnx"
    write_model(tmp_path / "b.onnx")
    with pytest.raises(InputError, match=r"several models \(a.onnx, b.onnx\)"):
        find_model(tmp_path)
    with pytest.raises(InputError, match="there is no model"):
        find_model(tmp_path / "none")


def test_without_a_configuration_the_steps_are_those_of_imagenet(tmp_path):
    """They follow from the size that the model reads."""
    model = ImageModel(write_model(tmp_path / "model.onnx", shape=(1, 3, 224, 224), config=None))
    assert not model.is_configured
    assert (model.preprocessing.resize, model.preprocessing.crop) == (256, (224, 224))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda f: write_text_model(f / "m.onnx"), "reads no images: .* has input_ids"),
        (lambda f: write_model(f / "m.onnx", shape=("n", 3, "h", "w"), config=None), "images of any size"),
        (
            lambda f: write_model(
                f / "m.onnx", shape=("n", 3, "h", "w"), config={"size": {"shortest_edge": 8}}
            ),
            "needs crop_size",
        ),
        (lambda f: write_model(f / "m.onnx", config={"size": {"shortest_edge": 8}}), "has no crop"),
        (lambda f: write_model(f / "m.onnx", config={"size": {"height": 9, "width": 8}}), "makes 8 × 9"),
        (lambda f: write_model(f / "m.onnx", shape=(10**9, 3, 8, 8)), "at most 64"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_in_a_sentence(tmp_path, make, words):
    """It reads no images, or not those that its configuration makes."""
    with pytest.raises(InputError, match=words) as refused:
        ImageModel(make(tmp_path))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("node", "options", "words"),
    [
        (make_node("ReduceMean", ["means"], ["odd"], axes=[0], keepdims=0), {}, "no output that could be"),
        (make_node("ReduceMean", ["means"], ["odd"], axes=[0]), {"shape": (4, 3, 8, 8)}, "no output that"),
        (make_node("Transpose", ["means"], ["odd"]), {}, "no output that could be features, only odd"),
        (make_node("Cast", ["means"], ["odd"], to=BFLOAT16), {"dtype": BFLOAT16}, "no output that could be"),
        (make_node("Cast", ["means"], ["odd"], to=STRING), {"dtype": STRING}, "no output that could be"),
        (make_node("Reshape", ["means", "two rows"], ["odd"]), {}, "fails on an image: .*cannot be reshaped"),
        (make_node("Unknown", ["means"], ["odd"], domain="own"), {}, "can load: .*Unknown"),
    ],
    ids=lambda value: value.op_type if hasattr(value, "op_type") else None,
)
def test_outputs_that_are_no_features_are_refused_in_a_sentence(tmp_path, node, options, words):
    """One vector for a batch, rows that are not images, numbers that NumPy lacks, steps that fail."""
    with pytest.raises(InputError, match=words) as refused:
        ImageModel(write_odd_model(tmp_path / "m.onnx", node, **options))
    assert "\n" not in str(refused.value)
    assert ".h:" not in str(refused.value)


def test_an_output_of_numbers_that_numpy_lacks_spoils_no_other(tmp_path):
    """It is not computed."""
    file = write_model(tmp_path / "m.onnx")
    model = onnx.load(file)
    model.graph.node.append(make_node("Cast", ["features"], ["short"], to=BFLOAT16))
    model.graph.output.append(onnx.helper.make_tensor_value_info("short", BFLOAT16, None))
    onnx.save(model, file)
    assert [output.name for output in ImageModel(file).outputs] == ["image_embeds"]


def test_missing_weights_are_named(tmp_path):
    """Where a large model was downloaded without its second file."""
    plain = onnx.load(write_model(tmp_path / "plain" / "m.onnx"))
    file = tmp_path / "m.onnx"
    onnx.save(plain, file, save_as_external_data=True, location="m.onnx_data", size_threshold=100)
    weights = (tmp_path / "m.onnx_data").read_bytes()
    (tmp_path / "m.onnx_data").write_bytes(weights[:100])
    with pytest.raises(InputError, match=r"is not a model that ONNX Runtime can load: .*100"):
        load_model(file)
    (tmp_path / "m.onnx_data").unlink()
    with pytest.raises(InputError, match=r"has its weights in other files: put m\.onnx_data beside it"):
        load_model(file)
    (tmp_path / "m.onnx_data").write_bytes(weights)
    shutil.copy(tmp_path / "plain" / "preprocessor_config.json", tmp_path)
    assert load_model(file).n_features == N_FEATURES


@pytest.mark.parametrize("bad", ["truncated", "empty", "text", "folder"])
def test_a_file_that_is_no_model_is_refused_in_a_sentence(tmp_path, bad):
    """Cut off, empty, or something else."""
    file = write_model(tmp_path / "m.onnx")
    whole = file.read_bytes()
    file.write_bytes(
        {"truncated": whole[: len(whole) // 2], "empty": b"", "text": b"hello" * 99}.get(bad, b"")
    )
    if bad == "folder":
        file.unlink()
        file.mkdir()
    with pytest.raises(InputError, match=str(file)) as refused:
        ImageModel(file)
    assert "\n" not in str(refused.value)


def test_without_onnx_runtime_a_sentence_says_how_to_get_it(tmp_path, monkeypatch):
    """It is an extra."""
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r'pip install "closecall\[models\]"'):
        ImageModel(write_model(tmp_path / "m.onnx"))


def test_the_digest_covers_weights_beside_the_model(tmp_path):
    """Large models keep them in files of any name, which are read again once they change."""
    plain = onnx.load(write_model(tmp_path / "plain" / "m.onnx"))
    file = tmp_path / "m.onnx"
    onnx.save(plain, file, save_as_external_data=True, location="weights of it.bin", size_threshold=100)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(PLAIN))
    weights = tmp_path / "weights of it.bin"
    assert weights in external_data(file)
    before, first = digest_of(file), load_model(file).features(noise())
    assert np.array_equal(first, load_model(tmp_path / "plain" / "m.onnx").features(noise()))
    raw = bytearray(weights.read_bytes())
    raw[:4] = np.float32(7).tobytes()
    weights.write_bytes(raw)
    assert digest_of(file) != before
    assert not np.array_equal(load_model(file).features(noise()), first)
    (tmp_path / "unrelated.bin").write_bytes(b"x")
    assert external_data(file) == [weights]


def test_a_long_thin_image_takes_no_more_memory_than_its_crop(tmp_path):
    """Only the part that is seen is resized, to the same pixels as by resizing all of it."""
    config = {"size": {"shortest_edge": 8}, "crop_size": 8, "resample": 3, "do_rescale": False}
    steps = ImageModel(write_model(tmp_path / "m.onnx", config=config)).preprocessing
    for image in (slope(40_000, 2), slope(2, 40_000), slope(300, 3), slope(3, 300)):
        width, height = image.width * 8 // min(image.size), image.height * 8 // min(image.size)
        whole = image.resize((width, height), Image.Resampling.BICUBIC)
        left, top = (width - 8) // 2, (height - 8) // 2
        expected = np.asarray(whole.crop((left, top, left + 8, top + 8))).astype(int)
        assert abs(steps.pixels(image).astype(int) - expected).max() <= 1
    tracemalloc.start()
    steps.pixels(Image.new("RGB", (100_000, 1)))
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "shape", "pooling", "n_features"),
    [
        ("features", (1, 7, 7, 96), "mean of map, channels last", 96),
        ("features", (1, 96, 7, 7), "mean of map", 96),
        ("last_hidden_state", (1, 49, 96), "mean of tokens", 96),
        ("last_hidden_state", (1, 1 + 256, 384), "class token", 384),
        ("last_hidden_state", (1, 1 + 4 + 256, 384), "class token", 384),
        ("vector", (1, 96, 1, 1), "none", 96),
    ],
)
def test_the_form_of_an_output_tells_how_it_becomes_a_vector(name, shape, pooling, n_features):
    """Maps with channels first or last, tokens with or without a class token: of an image of 224 × 224."""
    value = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    output = _output_of(name, value, 1, (224, 224))
    assert output == Output(name, pooling, n_features)
    by_hand = {
        "mean of map, channels last": value[0].mean(axis=(0, 1)) if value.ndim == 4 else None,
        "mean of map": value[0].mean(axis=(1, 2)) if value.ndim == 4 else None,
        "mean of tokens": value[0].mean(axis=0),
        "class token": value[0][0],
        "none": value.reshape(-1),
    }[pooling]
    assert np.allclose(output.vector(value), by_hand, atol=1e-6)


def test_a_map_of_an_image_that_is_not_square_has_no_class_token():
    """48 tokens are a grid of 8 × 6."""
    value = np.zeros((1, 48, 96), np.float32)
    assert _output_of("x", value, 1, (256, 192)).pooling == "mean of tokens"
    assert _output_of("x", value[:, :47], 1, (256, 192)).pooling == "class token"


def test_what_is_inside_a_model_or_of_parts_of_an_image_comes_last():
    """Attention, hidden layers and boxes are no features of the image."""
    names = {
        "attentions.0": (1, 12, 197, 197),
        "hidden_states.0": (1, 197, 384),
        "boxes": (1, 100, 4),
        "other": (1, 512),
        "logits": (1, 77),
        "last_hidden_state": (1, 197, 384),
    }
    outputs = [_output_of(name, np.zeros(shape, np.float32), 1, (224, 224)) for name, shape in names.items()]
    ranked = [output.name for output in sorted(outputs, key=_rank)]
    assert ranked[:3] == ["last_hidden_state", "other", "logits"]


def test_a_refused_model_is_not_loaded_again(tmp_path, monkeypatch):
    """A page asks often; a file that was replaced is tried."""
    file = write_text_model(tmp_path / "m.onnx")
    calls = []
    monkeypatch.setattr("closecall.core.onnx.runtime._opened", lambda f: calls.append(f) or opened(f))
    for _ in range(3):
        with pytest.raises(InputError, match="reads no images"):
            load_model(file)
    assert len(calls) == 1
    write_model(file)
    assert load_model(file).n_features == N_FEATURES
    assert load_model(file) is load_model(tmp_path)
    assert len(calls) == 2


def test_the_configuration_is_found_from_anywhere(tmp_path, monkeypatch):
    """By a relative path, and by a link as in the hub's cache."""
    write_model(tmp_path / "x" / "onnx" / "model.onnx")
    shutil.move(tmp_path / "x" / "onnx" / "preprocessor_config.json", tmp_path / "x")
    monkeypatch.chdir(tmp_path / "x" / "onnx")
    for path in (Path("model.onnx"), Path()):
        assert ImageModel(path).is_configured
    (tmp_path / "link.onnx").symlink_to(tmp_path / "x" / "onnx" / "model.onnx")
    assert ImageModel(tmp_path / "link.onnx").is_configured
