"""A description in words and its direction, a unit vector of features, as the log keeps them.

The vector is computed by `core.similar.description`. The log has the vector itself, so that ``closecall
verify`` can repeat a selection without the text model.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError

PAGE = 60
"""Number of items that a search by words shows at once, as a page.

Only the record of the page's first item has the direction.
"""


@dataclass(frozen=True, eq=False)
class Direction:
    """A description in words and its direction.

    Parameters
    ----------
    texts : tuple of str
        Texts that describe what to search for. All of them describe the same thing.
    excluded : tuple of str
        Texts that say what is not wanted.
    vector : array of shape (n_features,), float32
        The direction: the unit vector that the text model computes from the texts.
    """

    texts: tuple[str, ...]
    excluded: tuple[str, ...]
    vector: NDArray[np.float32]

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that identify the texts, but not the text model or the vector."""
        texts = json.dumps([self.texts, self.excluded])
        return blake2b(texts.encode(), digest_size=8).hexdigest()

    def params(self) -> dict[str, Any]:
        """Return the direction as JSON: the vector as little-endian float32, in Base64."""
        vector = base64.b64encode(self.vector.astype("<f4").tobytes()).decode()
        return {"texts": list(self.texts), "excluded": list(self.excluded), "vector": vector}

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Self:
        """Read a direction back from the JSON that `params` returned.

        Raises
        ------
        InputError
            If the JSON is damaged.
        """
        try:
            raw = base64.b64decode(params["vector"], validate=True)
            vector = np.frombuffer(raw, dtype="<f4").astype(np.float32)
            if not (len(vector) and np.isfinite(vector).all()):
                raise ValueError("the vector is empty or not finite")
            return cls(tuple(params["texts"]), tuple(params["excluded"]), vector)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the direction of a description is damaged: {error}") from error
