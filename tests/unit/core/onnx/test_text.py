"""Text models read what the files beside them say, and nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tokenizers import Tokenizer

from closecall.core.errors import InputError
from closecall.core.onnx import TextModel, load_text_model
from closecall.core.onnx.files import digest_of, find_model, find_text_model
from closecall.core.onnx.tokens import MAX_CHARACTERS, TextTokenizer
from tests.onnx_kit import write_model
from tests.words_kit import BEGIN, CONTEXT, END, PAD, SPECIAL, WORDS, text_model, write_echo, write_tokenizer

ID = {word: number for number, word in enumerate((*SPECIAL, *WORDS))}
UNLIMITED = 1000000000000000019884624838656
"""What `transformers` writes as `model_max_length` if it does not know it."""


def ids(*words: str) -> list[int]:
    return [ID[word] for word in words]


def tokenizer(folder: Path, config: dict | None = None, length: int | None = None) -> TextTokenizer:
    return TextTokenizer(write_tokenizer(folder, config), folder / "text_model.onnx", length)


def test_texts_are_padded_as_for_clip(tmp_path):
    """With `pad_token`, here the end token, up to `model_max_length`; the mask covers the rest."""
    tokens = tokenizer(tmp_path).tokens("A thin SEVEN.")
    assert tokens.ids.tolist() == ids(BEGIN, "a", "thin", "seven", END) + (CONTEXT - 5) * ids(END)
    assert tokens.mask.tolist() == 5 * [1] + (CONTEXT - 5) * [0]
    assert not tokens.is_truncated


def test_texts_are_padded_as_for_siglip(tmp_path):
    """To 64 tokens; its tokenizer gives no mask, so a model that wants one sees the padding."""
    config = {"model_max_length": 64, "pad_token": {"content": PAD}, "model_input_names": ["input_ids"]}
    tokens = tokenizer(tmp_path, config).tokens("a seven")
    assert tokens.ids.tolist() == ids(BEGIN, "a", "seven", END) + 60 * ids(PAD)
    assert tokens.mask.tolist() == 64 * [1]


def test_the_padding_of_the_tokenizer_comes_first(tmp_path):
    """As for SigLIP 2, whose other files don't say how long a text is."""
    file = write_tokenizer(tmp_path, {"model_max_length": UNLIMITED, "pad_token": END})
    own = Tokenizer.from_file(str(file))
    own.enable_padding(length=7, pad_id=ID[PAD], pad_token=PAD, direction="left")
    own.save(str(file))
    tokens = TextTokenizer(file, tmp_path / "text_model.onnx", None).tokens("a seven")
    assert tokens.ids.tolist() == 3 * ids(PAD) + ids(BEGIN, "a", "seven", END)
    assert tokens.mask.tolist() == 3 * [0] + 4 * [1]


def test_the_models_configuration_is_read_last(tmp_path):
    """Where `tokenizer_config.json` tells neither length nor padding."""
    (tmp_path / "config.json").write_text(
        json.dumps({"text_config": {"max_position_embeddings": 6, "pad_token_id": ID["nine"]}})
    )
    tokens = tokenizer(tmp_path, {"model_max_length": UNLIMITED}).tokens("a seven")
    assert tokens.ids.tolist() == [*ids(BEGIN, "a", "seven", END), *2 * ids("nine")]


def test_without_padding_token_it_is_zero(tmp_path):
    """As in CLIP's first version."""
    tokens = tokenizer(tmp_path, {"pad_token": "[none]"}, length=5).tokens("a seven")
    assert tokens.ids.tolist() == [*ids(BEGIN, "a", "seven", END), 0]


def test_a_long_text_loses_its_end(tmp_path):
    """But not the token that marks the end."""
    tokens = tokenizer(tmp_path, length=5).tokens("a thin bold seven " * 50)
    assert tokens.ids.tolist() == ids(BEGIN, "a", "thin", "bold", END)
    assert tokens.is_truncated


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must not be empty"),
        (" \n\t", "must not be empty"),
        ("…?", "knows no word of “…\\?”"),
        ("\ud800", "valid Unicode"),
        ("a" * (MAX_CHARACTERS + 1), "at most 10,000 characters, got 10,001"),
    ],
)
def test_a_text_without_words_is_refused(tmp_path, text, words):
    """With a sentence, not with an arbitrary vector."""
    with pytest.raises(InputError, match=words):
        tokenizer(tmp_path).tokens(text)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"[" * 100_000, b'{"model": {"type": "BPE"}}'])
def test_a_damaged_tokenizer_is_refused(tmp_path, content):
    """Whatever is wrong with it."""
    file = write_tokenizer(tmp_path)
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"tokenizer\.json is not a tokenizer"):
        TextTokenizer(file, tmp_path / "text_model.onnx", None)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"[" * 100_000])
def test_a_damaged_configuration_is_refused(tmp_path, content):
    """It isn't taken for a missing one."""
    file = write_tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_bytes(content)
    with pytest.raises(InputError, match=r"tokenizer_config\.json can't be read"):
        TextTokenizer(file, tmp_path / "text_model.onnx", 5)


def test_no_length_is_guessed(tmp_path):
    """The sentence names the file that is missing."""
    with pytest.raises(InputError, match=r"no file says how many tokens .*tokenizer_config\.json beside it"):
        tokenizer(tmp_path, {})


def test_a_context_shorter_than_the_marks_is_refused(tmp_path):
    """Beginning and end alone are two tokens."""
    with pytest.raises(InputError, match=r"gives 3 tokens for “seven”, but the model reads 1"):
        tokenizer(tmp_path, length=1).tokens("seven")


def test_without_the_library_a_sentence_says_how_to_get_it(tmp_path, monkeypatch):
    """It is an extra."""
    file = write_tokenizer(tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(InputError, match=r'pip install "closecall\[models\]"'):
        TextTokenizer(file, tmp_path / "text_model.onnx", None)


def unit(numbers: list[int]) -> np.ndarray:
    return np.array(numbers) / np.linalg.norm(numbers)


@pytest.mark.parametrize("shape", [("batch", "tokens"), (1, CONTEXT), (3, CONTEXT)])
@pytest.mark.parametrize("inputs", [("input_ids",), ("input_ids", "attention_mask"), ("text",)])
def test_a_model_reads_tokens_and_if_it_wants_their_mask(tmp_path, shape, inputs):
    """Of one text; a fixed number of texts gets copies of it. The model's vector consists of its inputs."""
    file = write_echo(tmp_path / "text_model.onnx", inputs, shape)
    model = TextModel(file, write_tokenizer(tmp_path))
    tokens = ids(BEGIN, "a", "seven", END) + (CONTEXT - 4) * ids(END)
    mask = 4 * [1] + (CONTEXT - 4) * [0]
    expected = unit(tokens + mask if len(inputs) == 2 else tokens)
    assert model.n_features == CONTEXT * len(inputs)
    assert np.allclose(model.vector("a seven"), expected, rtol=0, atol=1e-12)


def test_a_fixed_length_counts_more_than_the_configuration(tmp_path):
    """The model would refuse any other."""
    model = TextModel(
        write_echo(tmp_path / "text_model.onnx", ["input_ids"], ("batch", 5)), write_tokenizer(tmp_path)
    )
    assert model.context_length == 5
    assert model.truncates("a thin bold small seven")
    assert not model.truncates("a thin seven")


def several_outputs(file: Path, names: dict[str, int]) -> Path:
    """A model whose outputs have these names and numbers of dimensions."""
    nodes = [helper.make_node("Cast", ["input_ids"], ["ids"], to=TensorProto.FLOAT)]
    for name, n in names.items():
        axes = onnx.numpy_helper.from_array(np.arange(2, n), f"axes of {name}")
        nodes.append(helper.make_node("Constant", [], [f"axes of {name}"], value=axes))
        nodes.append(helper.make_node("Unsqueeze", ["ids", f"axes of {name}"], [name]))
    graph = helper.make_graph(
        nodes,
        "text",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ("batch", "tokens"))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    return file


@pytest.mark.parametrize(
    ("outputs", "chosen"),
    [
        ({"pooler_output": 2, "last_hidden_state": 3, "text_embeds": 2}, "text_embeds"),
        ({"last_hidden_state": 3, "pooler_output": 2}, "pooler_output"),
        ({"last_hidden_state": 3, "sentence_features": 2}, "sentence_features"),
    ],
)
def test_the_output_is_the_one_for_a_whole_text(tmp_path, outputs, chosen):
    """By its usual name, or because there is no other."""
    file = several_outputs(tmp_path / "text_model.onnx", outputs)
    assert TextModel(file, write_tokenizer(tmp_path)).output == chosen


def test_a_vector_without_direction_is_refused(tmp_path):
    """It would be as near to one image as to another."""
    file = tmp_path / "text_model.onnx"
    onnx.save(text_model(np.zeros((len(ID), 3)), np.zeros(3)), file)
    with pytest.raises(InputError, match="the vector of “a seven” is zero: describe it in other words"):
        TextModel(file, write_tokenizer(tmp_path)).vector("a seven")


def test_other_models_are_refused(tmp_path):
    """Each in a sentence."""
    file = write_model(tmp_path / "text_model.onnx")
    with pytest.raises(InputError, match="reads pixel_values of shape"):
        TextModel(file, write_tokenizer(tmp_path))
    write_echo(file, ["input_ids", "pixel_values"], ("batch", "tokens"))
    with pytest.raises(InputError, match="reads input_ids, pixel_values: a text model reads input_ids and"):
        TextModel(file, write_tokenizer(tmp_path))
    several_outputs(file, {"last_hidden_state": 3})
    with pytest.raises(InputError, match="has the outputs last_hidden_state, and none is a vector"):
        TextModel(file, write_tokenizer(tmp_path))
    several_outputs(file, {"one": 2, "two": 2})
    with pytest.raises(InputError, match="it needs text_embeds or pooler_output"):
        TextModel(file, write_tokenizer(tmp_path))
    file.write_bytes(b"no model")
    with pytest.raises(InputError, match="is not a model that ONNX Runtime can load"):
        TextModel(file, write_tokenizer(tmp_path))


def test_a_pair_is_found_as_the_hub_lays_it_out(tmp_path):
    """In a folder or below `onnx`, in each precision, and behind the links of the hub's cache."""
    for name in ("vision_model", "vision_model_fp16", "text_model", "text_model_fp16"):
        write_model(tmp_path / "clip" / "onnx" / f"{name}.onnx")
    write_tokenizer(tmp_path / "clip")
    found = find_text_model(find_model(tmp_path / "clip"))
    assert found == (tmp_path / "clip/onnx/text_model.onnx", tmp_path / "clip/tokenizer.json")
    halves = find_text_model(tmp_path / "clip" / "onnx" / "vision_model_fp16.onnx")
    assert halves is not None
    assert halves[0].name == "text_model_fp16.onnx"
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "vision_model.onnx").symlink_to(tmp_path / "clip/onnx/vision_model.onnx")
    assert find_text_model(tmp_path / "link" / "vision_model.onnx") is not None
    (tmp_path / "clip" / "tokenizer.json").unlink()
    assert find_text_model(find_model(tmp_path / "clip")) is None
    write_model(tmp_path / "flat" / "model.onnx")
    write_model(tmp_path / "flat" / "text_model.onnx")
    write_tokenizer(tmp_path / "flat")
    assert find_text_model(tmp_path / "flat" / "model.onnx") is None


def test_a_text_model_alone_does_not_hide_the_vision_model(tmp_path):
    """Though both have unusual names."""
    for name in ("vision_model_q4", "text_model_q4"):
        write_model(tmp_path / "onnx" / f"{name}.onnx")
    assert find_model(tmp_path).name == "vision_model_q4.onnx"


def test_a_model_is_loaded_once_until_its_files_change(tmp_path):
    """The configuration of the tokenizer is one of them."""
    file = write_echo(tmp_path / "text_model.onnx", ["input_ids"], ("batch", "tokens"))
    words = write_tokenizer(tmp_path)
    first = load_text_model(file, words)
    assert load_text_model(file, words) is first
    assert first.digest == digest_of(file, words) != digest_of(file)
    write_tokenizer(tmp_path, {"model_max_length": 9})
    assert load_text_model(file, words).context_length == 9
