"""Text models in ONNX format, which map a text to the vector space of an image model.

A text model and an image model are trained as a pair, so that an image and a text that describes it have
similar vectors. Examples are CLIP (Radford et al. 2021, *Learning Transferable Visual Models From Natural
Language Supervision*, Section 2.3) and SigLIP (Zhai et al. 2023, *Sigmoid Loss for Language Image
Pre-Training*). On the Hugging Face hub, CLIP's models have the outputs `image_embeds` and `text_embeds`. Both
models of SigLIP have the output `pooler_output`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.onnx.files import digest_of
from closecall.core.onnx.runtime import open_session, outputs_of
from closecall.core.onnx.tokens import TextTokenizer, Tokens

OUTPUTS = ("text_embeds", "pooler_output")
"""Names of outputs in the vector space of images. The first one that a model has is used."""

_MASK = "attention_mask"
_TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


class TextModel:
    """A model that computes a vector from a text. Safe to share between threads.

    Parameters
    ----------
    file : Path
        The model.
    tokenizer : Path
        The model's `tokenizer.json`.

    Attributes
    ----------
    file : Path
    output : str
        Name of the output in use: the only output with a vector for each text or, if there are several, one
        of `OUTPUTS`.
    n_features : int
        Length of a vector.
    context_length : int
        Number of tokens that the model reads; the rest of a longer text is ignored.
    digest : str
        Digest of the model and its tokenizer; see `digest_of`.

    Raises
    ------
    InputError
        If a file can't be loaded, if the model needs inputs other than tokens and their mask, if it has no
        suitable output, or if ONNX Runtime or `tokenizers` is not installed.
    """

    def __init__(self, file: Path, tokenizer: Path) -> None:
        self.file = file
        self.digest = digest_of(file, tokenizer)
        self._session = open_session(file)
        self._inputs = {one.name: one for one in self._session.get_inputs()}
        self._check_inputs()
        batch, length = (n if isinstance(n, int) and n > 0 else None for n in self._ids.shape)
        self._batch = batch or 1
        self._tokenizer = TextTokenizer(tokenizer, file, length)
        self.context_length = self._tokenizer.context_length
        names = [one.name for one in self._session.get_outputs()]
        ones = np.ones(self.context_length, np.int64)
        blank = Tokens(ones, ones, is_truncated=False)
        values = dict(zip(names, self._run(names, blank), strict=True))
        self.output = self._chosen(values)
        self.n_features = int(values[self.output].shape[1])

    def truncates(self, text: str) -> bool:
        """Return whether a text is longer than the model's context, so that its end is ignored."""
        return self._tokenizer.tokens(text).is_truncated

    def vector(self, text: str) -> NDArray[np.float64]:
        """Return the vector of a text, of shape (n_features,), of unit norm.

        Raises
        ------
        InputError
            If the text can't be tokenized (see `TextTokenizer.tokens`), or if its vector is zero or not
            finite.
        """
        (value,) = self._run([self.output], self._tokenizer.tokens(text))
        vector = np.asarray(value[0], dtype=np.float64)
        norm = float(np.linalg.norm(vector))
        if not np.isfinite(norm) or norm == 0:
            what = "zero" if norm == 0 else "not finite"
            raise InputError(f"the vector of “{text:.60}” is {what}: describe it in other words")
        return vector / norm

    def _run(self, names: list[str], tokens: Tokens) -> list[Any]:
        feed = {self._ids.name: tokens.ids, _MASK: tokens.mask}
        return outputs_of(
            self._session,
            names,
            {
                name: np.tile(feed[name], (self._batch, 1)).astype(_TYPES[one.type])
                for name, one in self._inputs.items()
            },
            self.file,
            of="a text",
        )

    def _check_inputs(self) -> None:
        """Find the model's input of tokens. The only other input allowed is the mask of the tokens."""
        others = [name for name in self._inputs if name != _MASK]
        all_inputs = ", ".join(self._inputs) or "nothing"
        if len(others) != 1:
            raise InputError(
                f"{self.file} reads {all_inputs}: a text model reads input_ids and {_MASK} alone"
            )
        self._ids = self._inputs[others[0]]
        for one in self._inputs.values():
            if one.type not in _TYPES or len(one.shape) != 2:
                raise InputError(
                    f"{self.file} reads {one.name} of shape {one.shape}, {one.type}: a text model reads "
                    f"integers of shape (batch, tokens)"
                )

    def _chosen(self, values: dict[str, Any]) -> str:
        vectors: list[str] = [
            name
            for name, value in values.items()
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim == 2 and value.size
        ]
        candidates = OUTPUTS if len(vectors) != 1 else vectors
        for name in candidates:
            if name in vectors:
                return name
        raise InputError(
            f"{self.file} has the outputs {', '.join(values)}, and none is a vector for each text: it needs "
            f"{' or '.join(OUTPUTS)}"
        )
