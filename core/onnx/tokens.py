"""Conversion of texts to the tokens that a text model reads.

The tokenizer is described by `tokenizer.json` and run by the library `tokenizers`. The library also adds the
tokens that mark the beginning and the end. Every text is truncated or padded to the model's context length,
because models are trained on texts of this length. Padding does not affect CLIP, which uses the features of
the first end token. Padding affects SigLIP, which uses the features of the last token even if this is
padding, and MobileCLIP, which convolves over tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.onnx.files import TOKENIZER_CONFIGS, first_beside

MAX_CHARACTERS = 10_000
"""Maximum length of a text."""

MAX_TOKENS = 8192
"""Maximum context length. Larger numbers are ignored: in `tokenizer_config.json`, they mean "unknown"."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """Text in the form that a text model reads.

    Parameters
    ----------
    ids : array of shape (context_length,), int64
        Numbers of the tokens, with padding.
    mask : array of shape (context_length,), int64
        1 for tokens that the model should attend to, 0 for all other tokens.
    is_truncated : bool
        Whether the text was longer than the context.
    """

    ids: NDArray[np.int64]
    mask: NDArray[np.int64]
    is_truncated: bool


class TextTokenizer:
    """The tokenizer of a text model. Safe to share between threads.

    Parameters
    ----------
    file : Path
        A `tokenizer.json`.
    model : Path
        The text model. Its `tokenizer_config.json` and `config.json` are found by `first_beside`.
    length : int or None
        The number of tokens that the model demands. If it is None, the context length is the first of these
        numbers that exists: the length to which the tokenizer pads, `model_max_length` in
        `tokenizer_config.json`, `max_position_embeddings` in `config.json`.

    Attributes
    ----------
    context_length : int
        Number of tokens of every text after truncation or padding.

    Raises
    ------
    InputError
        If a file can't be read, if no file has the context length, or if `tokenizers` is not installed.
    """

    def __init__(self, file: Path, model: Path, length: int | None) -> None:
        self.file = file
        self._tokenizer = _read_tokenizer(file)
        configs = {name: _read_config(model, name) for name in TOKENIZER_CONFIGS}
        tokenizer_config, model_config = (configs[name] for name in TOKENIZER_CONFIGS)
        text_config = model_config.get("text_config")
        if not isinstance(text_config, dict):
            text_config = model_config
        padding = self._tokenizer.padding or {}
        self.context_length = _first_length(
            length,
            padding.get("length"),
            tokenizer_config.get("model_max_length"),
            text_config.get("max_position_embeddings"),
        )
        if not self.context_length:
            raise InputError(
                f"no file says how many tokens {model} reads: put its {TOKENIZER_CONFIGS[0]} beside it"
            )
        self._pads_left = padding.get("direction", tokenizer_config.get("padding_side")) == "left"
        self._pad_id = self._padding_id(padding, tokenizer_config, text_config)
        inputs = tokenizer_config.get("model_input_names")
        self._masks_padding = not isinstance(inputs, list) or "attention_mask" in inputs
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.context_length)

    def tokens(self, text: str) -> Tokens:
        """Return the tokens of a text.

        Raises
        ------
        InputError
            If the text is empty, has no known word, is longer than `MAX_CHARACTERS`, or is not valid Unicode.
        """
        shown = f"“{text:.60}”"
        if not text.strip():
            raise InputError("a description must not be empty")
        if len(text) > MAX_CHARACTERS:
            raise InputError(f"a description has at most {MAX_CHARACTERS:,} characters, got {len(text):,}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"a description must be valid Unicode, got {text!r:.80}") from error
        try:
            encoded = self._tokenizer.encode(text)
        except Exception as error:  # the library raises nothing else
            raise InputError(f"{self.file} can't be used for {shown}: {error}") from error
        if len(encoded.ids) > self.context_length:
            raise InputError(
                f"{self.file} gives {len(encoded.ids)} tokens for {shown}, but the model reads "
                f"{self.context_length}"
            )
        if all(encoded.special_tokens_mask):
            raise InputError(f"{self.file} knows no word of {shown}: describe it in other words")
        room = self.context_length - len(encoded.ids)
        around = (room, 0) if self._pads_left else (0, room)
        ids = np.pad(np.array(encoded.ids, np.int64), around, constant_values=self._pad_id)
        mask = np.ones(len(ids), np.int64)
        if self._masks_padding:
            mask = np.pad(np.array(encoded.attention_mask, np.int64), around)
        return Tokens(ids, mask, bool(encoded.overflowing))

    def _padding_id(
        self, padding: Mapping[str, Any], tokenizer_config: Mapping[str, Any], text_config: Mapping[str, Any]
    ) -> int:
        """Return the id of the padding token.

        It is the first of these that exists: `pad_id` of the tokenizer, the id of the configured `pad_token`,
        the configured `pad_token_id`. If none exists, it is 0, as in CLIP.
        """
        if "pad_id" in padding:
            return int(padding["pad_id"])
        token = tokenizer_config.get("pad_token")
        if isinstance(token, dict):
            token = token.get("content")
        found = self._tokenizer.token_to_id(token) if isinstance(token, str) else None
        if found is None:
            found = text_config.get("pad_token_id")
        return found if isinstance(found, int) and 0 <= found < self._tokenizer.get_vocab_size() else 0


def _first_length(*lengths: Any) -> int:
    """Return the first of `lengths` that can be a context length, or 0 if none can."""
    return next((n for n in lengths if isinstance(n, int) and 1 <= n <= MAX_TOKENS), 0)


def _read_config(model: Path, name: str) -> Mapping[str, Any]:
    """Return the content of the JSON file `name` of a model; empty if the model has no such file."""
    file = first_beside(model, [name])
    if file is None:
        return {}
    try:
        config = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file} can't be read: {error}") from error
    if not isinstance(config, dict):
        raise InputError(f"{file} can't be read: it is not a JSON object")
    return config


def _read_tokenizer(file: Path) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise InputError(
            f"search by words needs tokenizers, which cannot be imported ({error}): "
            f'pip install "closecall[models]"'
        ) from error
    try:
        return Tokenizer.from_str(file.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{file} can't be read: {error.strerror or error}") from error
    except Exception as error:  # the library raises nothing else
        raise InputError(f"{file} is not a tokenizer: {error}") from error
