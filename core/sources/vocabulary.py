"""Texts as bags of words: a fixed vocabulary, and for each text the weights of its words.

A word is a sequence of two or more letters, digits or underscores, in lower case. The weight of a word in a
text is tf·idf: the count of the word in the text, multiplied by (1 + ln((1 + n) / (1 + df))). Here n is the
number of texts from which the vocabulary was computed, and df is the number of these texts that contain the
word. Rows are normalized to unit norm afterwards. The weights equal those of scikit-learn's `TfidfVectorizer`
with its default parameters.

All words are kept. With few labels, classifiers learn mostly from rare words, and linear classifiers cope
with any number of features.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.files.durable import replace_file
from closecall.core.numerics.rows import sparse_rows

_WORD = re.compile(r"\b\w\w+\b")


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Words, and the number of texts that contain each of them.

    Parameters
    ----------
    words : tuple of str
        The words, in ascending order.
    frequencies : array of shape (n_words,), int64
        Number of texts in which each word occurs.
    n_texts : int
        Number of texts from which the vocabulary was computed.
    """

    words: tuple[str, ...]
    frequencies: NDArray[np.int64]
    n_texts: int

    @classmethod
    def of(cls, texts: Iterable[str]) -> Vocabulary:
        """Make the vocabulary of all words in these texts."""
        counts: Counter[str] = Counter()
        n = 0
        for text in texts:
            counts.update(set(_words(text)))
            n += 1
        words = tuple(sorted(counts))
        return cls(words, np.array([counts[word] for word in words], dtype=np.int64), n)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def mean_entries(self) -> float:
        """Mean number of different words per text."""
        return float(self.frequencies.sum()) / max(self.n_texts, 1)

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that identify this vocabulary."""
        parts = ("\n".join(self.words).encode(), self.frequencies.tobytes(), str(self.n_texts).encode())
        return hashlib.blake2b(b"\0".join(parts), digest_size=8).hexdigest()

    def rows(self, texts: Sequence[str]) -> csr_array:
        """Return weights of shape (n_texts, n_words), float32, not normalized; unknown words are ignored."""
        starts, columns, weights = [0], [np.empty(0, np.int32)], [np.empty(0)]
        for text in texts:
            counts = Counter(self._places[word] for word in _words(text) if word in self._places)
            places = np.array(sorted(counts), dtype=np.int32)
            columns.append(places)
            weights.append(np.array([counts[place] for place in places.tolist()]) * self._rarity[places])
            starts.append(starts[-1] + len(places))
        values = np.concatenate(weights).astype(np.float32)
        return sparse_rows(values, np.concatenate(columns), np.array(starts), len(self.words))

    def save(self, file: Path) -> None:
        """Write the vocabulary to `file`, replacing it atomically."""
        held = io.BytesIO()
        words = np.frombuffer("\n".join(self.words).encode(), dtype=np.uint8)
        np.savez_compressed(held, words=words, frequencies=self.frequencies, n_texts=np.array(self.n_texts))
        replace_file(file, held.getvalue())

    @classmethod
    def load(cls, file: Path) -> Vocabulary:
        """Load the vocabulary saved in `file`.

        Raises
        ------
        InputError
            If the file is missing or damaged.
        """
        try:
            with np.load(file, allow_pickle=False) as saved:
                words = tuple(saved["words"].tobytes().decode().split("\n"))
                return cls(words, saved["frequencies"], int(saved["n_texts"]))
        except FileNotFoundError as error:
            raise InputError(f"the vocabulary {file} is missing: build the pool again") from error
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise InputError(f"the vocabulary {file} is damaged: build the pool again") from error

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words)}

    @cached_property
    def _rarity(self) -> NDArray[np.float64]:
        return np.asarray(1 + np.log((1 + self.n_texts) / (1 + self.frequencies)))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
