"""Stand-ins for the real thing, quick enough that every test can have one of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.sources import KINDS
from closecall.core.sources.base import Problem, Source
from closecall.core.sources.texts import VOCABULARY_FILE, Texts, UnreadableTextError
from closecall.core.sources.vocabulary import Vocabulary


class FakeSource(Source):
    """A source of random embeddings of unit norm whose truth is known and can be learned.

    Item i is a function of `seed` and i alone, so that a longer FakeSource begins with a shorter one's items.
    Row i is `lean` (shared by all, as GIST rows share a mean) + its class's centre + Gaussian noise, made
    unit-norm.

    Parameters
    ----------
    n_items : int
        All ids, held-out and unreadable ones included.
    n_features : int or None
        None: no embeddings, so that GIST is computed from `grey`, which is random.
    seed : int
    classes : sequence of str
        Drawn with probabilities `priors` (uniform by default). Empty: truth unknown.
    held_out : sequence of ids
    unreadable : sequence of ids
        Listed as problems by `grey`; needs n_features=None, since embeddings are always readable.
    separation, lean : float
        Lengths of the class centres and of the shared mean, where the noise has length about 1.
    """

    kind: ClassVar[str] = "fake"

    def __init__(
        self,
        n_items: int,
        n_features: int | None = 8,
        *,
        seed: int = 0,
        classes: Sequence[str] = ("no", "yes"),
        priors: Sequence[float] | None = None,
        held_out: Sequence[int] = (),
        unreadable: Sequence[int] = (),
        separation: float = 1.0,
        lean: float = 0.0,
    ) -> None:
        if len(unreadable) and n_features is not None:
            raise ValueError("unreadable items need n_features=None")
        self.n_items = n_items
        self.n_features = n_features
        self.seed = seed
        self.classes = tuple(classes)
        self.priors = None if priors is None else tuple(priors)
        self._held_out = np.unique(np.asarray(held_out, dtype=np.int64))
        self._unreadable = np.unique(np.asarray(unreadable, dtype=np.int64))
        self.separation = separation
        self.lean = lean
        self.title = f"{n_items} made-up items"

    def __len__(self) -> int:
        return self.n_items

    def spec(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "n_items": self.n_items,
            "n_features": self.n_features,
            "seed": self.seed,
            "classes": list(self.classes),
            "priors": None if self.priors is None else list(self.priors),
            "held_out": self._held_out.tolist(),
            "unreadable": self._unreadable.tolist(),
            "separation": self.separation,
            "lean": self.lean,
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any], _folder: Path | None = None) -> FakeSource:
        """The source that `spec` describes; nothing is kept in a folder."""
        arguments = {key: value for key, value in spec.items() if key != "kind"}
        return cls(arguments.pop("n_items"), arguments.pop("n_features"), **arguments)

    @classmethod
    def feature_kind(cls, spec: dict[str, Any], _folder: Path | None) -> str:
        return cls.extractor if spec["n_features"] is None else "embeddings"

    def image(self, item: int, size: int) -> Image.Image:
        """A square whose one colour spells the id, 8 bits a channel."""
        self.check_items(np.array([item]))
        if item in self._unreadable:
            raise InputError(f"item {item} cannot be read: made unreadable by the test")
        return Image.new("RGB", (size, size), (item >> 16 & 255, item >> 8 & 255, item & 255))

    def grey(self, items: np.ndarray) -> tuple[np.ndarray, list[Problem]]:
        items = self.check_items(items)
        pictures = np.zeros((len(items), 32, 32), dtype=np.float32)
        problems = []
        for place, item in enumerate(items.tolist()):
            if item in self._unreadable:
                problems.append(Problem(item, self.name(item), "made unreadable by the test"))
            else:
                pictures[place] = np.random.default_rng([self.seed, item]).random((32, 32), dtype=np.float32)
        return pictures, problems

    def features(self, items: np.ndarray) -> np.ndarray | None:
        items = self.check_items(items)
        if self.n_features is None:
            return None
        X = self._normals(items)
        X /= np.sqrt(self.n_features)
        if self.lean:
            X += self.lean * self._direction(10**6)
        if self.classes and self.separation:
            centres = np.array([self._direction(c) for c in range(len(self.classes))])
            X += self.separation * centres[self.truth(items)]
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        return X.astype(np.float32)

    def truth(self, items: np.ndarray) -> np.ndarray:
        items = self.check_items(items)
        if not self.classes:
            return np.full(len(items), -1, dtype=np.int16)
        bounds = np.cumsum(self.priors or [1 / len(self.classes)] * len(self.classes))
        drawn = np.searchsorted(bounds, _uniform(items, np.uint64(self.seed * 2 + 1)), side="right")
        return np.minimum(drawn, len(bounds) - 1).astype(np.int16)

    def held_out(self) -> np.ndarray:
        return self._held_out[self._held_out < self.n_items]

    def name(self, item: int) -> str:
        return f"item {item}"

    def _direction(self, which: int) -> np.ndarray:
        direction = np.random.default_rng([self.seed, which]).standard_normal(self.n_features)
        return direction / np.linalg.norm(direction)

    def _normals(self, items: np.ndarray) -> np.ndarray:
        """Standard normal rows, each a function of seed and id: Box and Muller on hashed counters."""
        half = (self.n_features + 1) // 2
        with np.errstate(over="ignore"):
            first = items.astype(np.uint64) * np.uint64(2 * half)
        counters = first[:, None] + np.arange(2 * half, dtype=np.uint64)
        u = _uniform(counters, np.uint64(self.seed * 2))
        radius = np.sqrt(-2 * np.log1p(-u[:, :half]))
        angle = 2 * np.pi * u[:, half:]
        return np.hstack([radius * np.cos(angle), radius * np.sin(angle)])[:, : self.n_features]


KINDS[FakeSource.kind] = FakeSource


def _uniform(counters: np.ndarray, key: np.uint64) -> np.ndarray:
    """Floats in [0, 1) by splitmix64 of counter and key."""
    with np.errstate(over="ignore"):
        z = counters.astype(np.uint64) + (key + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        z = (z + key) * np.uint64(0xD6E8FEB86659FD93)
        z ^= z >> np.uint64(32)
    return (z >> np.uint64(11)).astype(np.float64) / 2**53


class FakeTexts(Texts):
    """A source of made-up texts, whose words depend on their class; item i is a function of i alone.

    Parameters
    ----------
    n_items : int
    held_out, unreadable, empty : sequences of ids
    vocabulary : Vocabulary, optional
        That of an earlier source.
    """

    kind: ClassVar[str] = "fake-texts"
    title = "Made-up texts"
    classes = ("no", "yes")

    def __init__(
        self,
        n_items: int,
        *,
        held_out: Sequence[int] = (),
        unreadable: Sequence[int] = (),
        empty: Sequence[int] = (),
        vocabulary: Vocabulary | None = None,
    ) -> None:
        self.n_items = n_items
        self._held_out = np.unique(np.asarray(held_out, dtype=np.int64))
        self._unreadable = set(unreadable)
        self._empty = set(empty)
        self._saved = vocabulary

    def __len__(self) -> int:
        return self.n_items

    def spec(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "n_items": self.n_items,
            "held_out": self._held_out.tolist(),
            "unreadable": sorted(self._unreadable),
            "empty": sorted(self._empty),
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None = None) -> FakeTexts:
        words = None if folder is None else Vocabulary.load(folder / VOCABULARY_FILE)
        arguments = {key: value for key, value in spec.items() if key != "kind"}
        return cls(arguments.pop("n_items"), **arguments, vocabulary=words)

    def continuing(self, spec: dict[str, Any], folder: Path | None) -> Source:
        return self if folder is None else self._with(self.from_spec(spec, folder).vocabulary)

    def read(self, item: int) -> str:
        if item in self._unreadable:
            raise UnreadableTextError("made unreadable by the test")
        if item in self._empty:
            return ""
        rng = np.random.default_rng(item)
        topic = [f"{self.classes[item % 2]}{number}" for number in rng.integers(0, 20, 6)]
        return " ".join([*topic, *(f"word{number}" for number in rng.zipf(1.3, 40) % 1000)])

    def truth(self, items: np.ndarray) -> np.ndarray:
        return (self.check_items(items) % 2).astype(np.int16)

    def held_out(self) -> np.ndarray:
        return self._held_out

    def name(self, item: int) -> str:
        return f"text {item}"

    def _with(self, words: Vocabulary) -> FakeTexts:
        return FakeTexts(
            self.n_items,
            held_out=self._held_out,
            unreadable=sorted(self._unreadable),
            empty=sorted(self._empty),
            vocabulary=words,
        )


KINDS[FakeTexts.kind] = FakeTexts
