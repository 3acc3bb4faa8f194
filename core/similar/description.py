"""Search by words: compute the direction, in feature space, of images that match a description in words.

CLIP's authors put the name of a class into several sentences, such as "a blurry photo of a {}.", and
average the unit vectors of these sentences (Radford et al. 2021, *Learning Transferable Visual Models From
Natural Language Supervision*, Section 3.1.4). A description is treated in the same way. Let p be the mean of
the vectors of its sentences. The direction is w = p / ‖p‖. If some descriptions are excluded, let n be the
mean of the vectors of their sentences. The direction is then

    w = (p − αn) / ‖p − αn‖.

Rocchio (1971, *Relevance Feedback in Information Retrieval*) uses the same rule to move a query away from
documents that are not relevant. The value α = 0.5 is not from the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.onnx.text import TextModel

BLANK = "{}"
"""Placeholder in a template, replaced by the description in words."""

TEMPLATES = (
    BLANK,
    "a photo of {}.",
    "a blurry photo of {}.",
    "a black and white photo of {}.",
    "a low contrast photo of {}.",
    "a high contrast photo of {}.",
    "a bad photo of {}.",
    "a good photo of {}.",
)
"""The plain description in words, and the sentences for CIFAR-10 from `data/prompts.md` in CLIP's repository.
Descriptions contain their own article, so there is no article before `{}`. The sentences with "small" and
"big" are left out.
"""

ALPHA = 0.5
"""Weight of excluded descriptions in words."""

MOST_TEXTS = 100
"""Maximum number of wanted descriptions, of excluded descriptions, and of templates."""

_NO_DIRECTION = 1e-6
"""Length below which p − αn consists only of rounding errors and has no direction."""


@dataclass(frozen=True)
class Description:
    """What to search for, in words.

    Parameters
    ----------
    texts : sequence of str
        Descriptions of the same thing, such as "a fox at night"; their vectors are averaged.
    excluded : sequence of str
        Descriptions of what is not wanted.
    templates : sequence of str
        Sentences in which each text replaces `{}`.
    alpha : float
        Weight α of excluded descriptions.

    Raises
    ------
    InputError
        If there is no text, if a text or template is empty, if a template has no `{}`, if a text is both
        wanted and excluded, if there are too many texts, or if alpha is out of range.
    """

    texts: Sequence[str]
    excluded: Sequence[str] = ()
    templates: Sequence[str] = TEMPLATES
    alpha: float = ALPHA

    def __post_init__(self) -> None:
        for name in ("texts", "excluded", "templates"):
            object.__setattr__(self, name, tuple(text.strip() for text in getattr(self, name)))
            if len(getattr(self, name)) > MOST_TEXTS:
                raise InputError(f"at most {MOST_TEXTS} {name} are allowed, got {len(getattr(self, name))}")
        if not self.texts:
            raise InputError("a search by words needs a description, got none")
        if not all((*self.texts, *self.excluded)):
            raise InputError("a description must not be empty")
        if not self.templates:
            raise InputError("at least one template is needed, got none")
        for template in self.templates:
            if BLANK not in template:
                raise InputError(
                    f"a template needs {BLANK} in place of the description, got {template!r:.80}"
                )
        excluded = {text.casefold() for text in self.excluded}
        for text in self.texts:
            if text.casefold() in excluded:
                raise InputError(f"“{text:.60}” can't be both searched for and excluded")
        if not (math.isfinite(self.alpha) and self.alpha >= 0):
            raise InputError(f"alpha must be at least 0, got {self.alpha}")

    def direction(self, model: TextModel, go_on: Callable[[], None] = lambda: None) -> NDArray[np.float32]:
        """Return the direction w of the matching images, of shape (n_features,) and unit norm.

        Parameters
        ----------
        model : TextModel
            The text model that forms a pair with the image model that computed the features.
        go_on : callable
            Called before each sentence is encoded. An exception that it raises ends the work.

        Raises
        ------
        InputError
            If the model can't encode a text, or the vectors cancel each other.
        """

        def mean(texts: Sequence[str]) -> NDArray[np.float64]:
            total = np.zeros(model.n_features)
            for sentence in self._sentences(texts):
                go_on()
                total += model.vector(sentence)
            return total / (len(texts) * len(self.templates))

        w = mean(self.texts)
        if self.excluded:
            w -= self.alpha * mean(self.excluded)
        norm = float(np.linalg.norm(w))
        if norm < _NO_DIRECTION:
            raise InputError("the descriptions cancel each other: change them, or exclude less")
        return (w / norm).astype(np.float32)

    def notes(self, model: TextModel) -> list[str]:
        """Return a warning for each description that the model truncates."""
        return [
            f"“{text:.60}” is too long: the model reads {model.context_length} tokens and ignores the rest."
            for text in (*self.texts, *self.excluded)
            if any(model.truncates(sentence) for sentence in self._sentences([text]))
        ]

    def _sentences(self, texts: Sequence[str]) -> list[str]:
        return [template.replace(BLANK, text) for text in texts for template in self.templates]
