"""Search by words finds what is described; the pair of models is trained in `tests.words_kit`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.core.errors import InputError
from closecall.core.onnx import TextModel, load_text_model
from closecall.core.onnx.files import find_text_model
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.selection import ArrayPool
from closecall.core.similar import ByAngle, ExactSearch
from closecall.core.similar.description import ALPHA, TEMPLATES, Description
from closecall.core.similar.queries import PAGE
from closecall.core.sources import Digits, source_from
from tests.pools import contents, small_pool
from tests.words_kit import (
    CONTEXT,
    END,
    NAMES,
    SPECIAL,
    WORDS,
    Drawing,
    Pair,
    every_drawing,
    text_model,
    trained,
    write_drawings,
    write_pair,
)

HELD_OUT = 1
"""Seed of drawings that are not those of the training."""


class Drawn(NamedTuple):
    """A pool of drawings, described by the pair in `folder`."""

    pool: Pool
    shown: dict[str, Drawing]
    folder: Path
    model: TextModel

    def found(self, description: Description, n: int = PAGE) -> list[Drawing]:
        """What is drawn in the nearest images."""
        found = ExactSearch(ByAngle(self.pool)).neighbours(description.direction(self.model), n)
        return [self.shown[name] for name in self.pool.source.names(found.ids)]

    def precision(self, words: str) -> float:
        """Share of the nearest 24 images that a description describes."""
        return float(np.mean([one.is_a(words) for one in self.found(Description([words]))]))


def drawn(root: Path, drawings: list[Drawing]) -> Drawn:
    folder = write_pair(root / "clip")
    shown = write_drawings(root / "drawings", drawings, HELD_OUT)
    pool = build(source_from(f"onnx:{folder}:{root / 'drawings'}", use_classes=False), root / "pool")
    return Drawn(pool, shown, folder, pool.source.text_model())


@pytest.fixture(scope="module")
def every(tmp_path_factory) -> Drawn:
    """Sixteen images of each name with each combination of adjectives."""
    return drawn(tmp_path_factory.mktemp("every"), list(every_drawing()) * 16)


@pytest.fixture
def clip(tmp_path) -> TextModel:
    found = find_text_model(write_pair(tmp_path / "clip") / "onnx" / "vision_model.onnx")
    assert found is not None
    return load_text_model(*found)


@pytest.mark.parametrize("form", ["a {}", "a bold {}", "a thin slanted {}", "a small upright {}"])
def test_the_nearest_images_are_those_described(every, form):
    """At least 90 % of 24, over all names. Of the rarest descriptions there are 32 images among 1,792."""
    assert np.mean([every.precision(form.format(name)) for name in NAMES]) >= 0.9


def test_at_one_percent_five_times_as_many_as_at_random(every):
    """Twenty images at random have 0.2 positives; the first twenty by words have half of all there are."""
    X = every.pool.rows(np.arange(len(every.pool)))
    names = np.array([every.shown[file].name for file in every.pool.source.names(every.pool.ids)])
    for name in NAMES:
        others, positives = np.flatnonzero(names != name), np.flatnonzero(names == name)
        kept = np.sort([*others, *positives[: round(len(others) / 99)]])
        w = Description([f"a {name}"]).direction(every.model)
        found = ExactSearch(ByAngle(ArrayPool(X[kept]))).neighbours(w, 20).ids
        assert np.mean(names[kept] == name) < 0.011
        assert np.sum(names[kept[found]] == name) >= 8


def test_what_is_excluded_moves_away(every):
    """Sevens stay, the slanted ones among them go."""
    plain = every.found(Description(["a seven"]))
    without = every.found(Description(["a seven"], ["a slanted"]))
    slanted = [sum("slanted" in one.adjectives for one in found) for found in (plain, without)]
    assert sum(one.name == "seven" for one in without) >= 0.9 * PAGE
    assert slanted[1] <= slanted[0] / 2


def by_hand(file: Path, sentences: list[str]) -> np.ndarray:
    """The mean of unit vectors that a session of its own computes."""
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    ids = {word: number for number, word in enumerate((*SPECIAL, *WORDS))}
    vectors = []
    for sentence in sentences:
        words = sentence.replace(".", " ").replace(",", " ").lower().split()
        tokens = [1, *(ids.get(word, 3) for word in words), ids[END]]
        tokens += [ids[END]] * (CONTEXT - len(tokens))
        (vector,) = session.run(["text_embeds"], {"input_ids": np.array([tokens])})[0].astype(np.float64)
        vectors.append(vector / np.linalg.norm(vector))
    return np.mean(vectors, axis=0)


def test_phrasings_and_sentences_are_averaged(clip):
    """The mean of unit vectors less α times that of the excluded ones, then of unit norm."""
    sentences = [form.replace("{}", text) for text in ("a seven", "a thin nine") for form in TEMPLATES]
    excluded = [form.replace("{}", "a bold one") for form in TEMPLATES]
    w = by_hand(clip.file, sentences) - ALPHA * by_hand(clip.file, excluded)
    given = Description(["a seven", " a thin nine "], ["a bold one"]).direction(clip)
    assert given.dtype == np.float32
    assert np.allclose(given, w / np.linalg.norm(w), rtol=0, atol=1e-6)
    alone = by_hand(clip.file, ["a seven"])
    assert np.allclose(
        Description(["a seven"], templates=["{}"]).direction(clip), alone / np.linalg.norm(alone), atol=1e-6
    )


def test_a_long_description_is_noted(clip):
    """With what the model does about it."""
    long = "a thin bold upright slanted small large zero one two three four five six"
    (note,) = Description(["a seven", long]).notes(clip)
    assert note.endswith(f"is too long: the model reads {CONTEXT} tokens and ignores the rest.")
    assert Description(["a seven"]).notes(clip) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"texts": []}, "needs a description, got none"),
        ({"texts": ["a seven", "  "]}, "must not be empty"),
        ({"texts": ["a seven"], "excluded": [""]}, "must not be empty"),
        ({"texts": ["a seven"], "excluded": ["A Seven "]}, "both searched for and excluded"),
        ({"texts": ["a seven"], "templates": []}, "at least one template"),
        ({"texts": ["a seven"], "templates": ["a photo"]}, "needs {} in place of the description"),
        ({"texts": ["a seven"], "alpha": -1}, "alpha must be at least 0, got -1"),
        ({"texts": ["a seven"], "alpha": float("nan")}, "got nan"),
        ({"texts": ["a seven"] * 101}, "at most 100 texts"),
    ],
)
def test_a_wrong_description_is_refused(options, words):
    """Before anything is computed."""
    with pytest.raises(InputError, match=words):
        Description(**options)


def test_descriptions_that_cancel_each_other_are_refused(clip):
    """Nothing is left of them but rounding."""
    with pytest.raises(InputError, match="cancel each other"):
        Description(["a seven"], ["a, seven"], alpha=1).direction(clip)


def test_the_search_equals_brute_force_in_float64():
    """In 100 of 100 searches, ties by the lower id."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 64)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X[1000:1100] = X[:100]
    search = ExactSearch(ByAngle(ArrayPool(X)))
    for w in rng.standard_normal((100, 64)).astype(np.float32):
        unit = w / np.linalg.norm(w)
        cosines = np.round(X.astype(np.float64) @ unit.astype(np.float64), 12)
        expected = np.lexsort((np.arange(len(X)), -cosines))[:PAGE]
        assert np.array_equal(search.neighbours(unit, PAGE).ids, expected)


def test_the_command_lists_names_and_similarities(every):
    """Nearest first."""
    asked = ["pool", "find", str(every.pool.path), "a seven", "--not", "a slanted", "-n", "5"]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 0, result.output
    rows = [line.split("  ") for line in result.stdout.splitlines()]
    description = Description(["a seven"], ["a slanted"])
    assert [every.shown[name] for _, name in rows] == every.found(description, 5)
    X = every.pool.rows(np.arange(len(every.pool)))
    cosines = np.sort(X @ description.direction(every.model))[::-1][:5]
    assert [float(cosine) for cosine, _ in rows] == pytest.approx(cosines, abs=1e-4)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["  "], "must not be empty"),
        (["a seven", "--template", "x"], "needs {} in place of the description"),
        (["…"], "knows no word of “…”"),
    ],
)
def test_the_command_refuses_in_a_sentence(every, words, sentence):
    """With exit code 2."""
    result = CliRunner().invoke(main, ["pool", "find", str(every.pool.path), *words, "--template", "{}"])
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_pool_without_words_says_so(tmp_path):
    """The command names what is missing."""
    pool = small_pool(tmp_path / "pool", Digits(50))
    assert not pool.source.has_text_model
    result = CliRunner().invoke(main, ["pool", "find", str(pool.path), "a seven"])
    assert result.exit_code == 2
    assert "can't be searched by words" in result.stderr


def test_the_pool_knows_its_text_model(tmp_path):
    """Another one, or one of another length, is refused; so is a missing one."""
    folder = write_pair(tmp_path / "clip")
    pool = small_pool(tmp_path / "pool", source_from(f"onnx:{folder}:digits:50"))
    assert pool.source.has_text_model
    assert pool.source.about_features()[-1] == "The images can be searched by words."
    assert pool.source.text_model().n_features == pool.n_features
    narrow = text_model(np.ones((len(SPECIAL) + len(WORDS), 3)), np.ones(3))
    write_pair(folder, pair=Pair(trained().vision, narrow))
    with pytest.raises(InputError, match=r"text_model\.onnx has changed since the pool was made"):
        Pool.open(pool.path).source.text_model()
    other = small_pool(tmp_path / "other", source_from(f"onnx:{folder}:digits:50"))
    with pytest.raises(
        InputError, match=r"gives words 3 features, but .* the images \d+: they do not belong"
    ):
        other.source.text_model()
    (folder / "tokenizer.json").unlink()
    source = Pool.open(pool.path).source
    assert source.has_text_model  # it is still offered, so that the page can say what is missing
    with pytest.raises(InputError, match=r"has no text model: .* text_model\.onnx and tokenizer\.json"):
        source.text_model()


def test_a_text_model_may_come_later(tmp_path):
    """If the vision model is still the pool's; building again leaves the pool as it is."""
    folder = write_pair(tmp_path / "clip")
    hidden = (folder / "tokenizer.json").rename(tmp_path / "tokenizer.json")
    word = f"onnx:{folder}:digits:50"
    pool = small_pool(tmp_path / "pool", source_from(word))
    assert "text_digest" not in pool.source.spec()
    hidden.rename(folder / "tokenizer.json")
    assert Pool.open(pool.path).source.text_model().n_features == pool.n_features
    before = contents(pool.path)
    build(source_from(word), pool.path)
    assert contents(pool.path) == before
    assert len(build(source_from(word.replace(":50", ":60")), pool.path)) == 60
    assert "text_digest" not in Pool.open(pool.path).source.spec()
    write_pair(folder, pair=Pair(_disturbed(trained().vision), trained().text))
    with pytest.raises(InputError, match=r"vision_model\.onnx has changed since the pool was made"):
        pool.source.from_spec(pool.source.spec(), None).text_model()


def _disturbed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model with another name."""
    other = onnx.ModelProto()
    other.CopyFrom(model)
    other.graph.name = "another"
    return other


def test_a_pool_that_grows_keeps_its_text_model(tmp_path):
    """Another one is refused afterwards, as before."""
    folder = write_pair(tmp_path / "clip")
    pool = build(source_from(f"onnx:{folder}:digits:50"), tmp_path / "pool")
    other = text_model(np.ones((len(SPECIAL) + len(WORDS), pool.n_features)), np.ones(pool.n_features))
    write_pair(folder, pair=Pair(trained().vision, other))
    grown = build(source_from(f"onnx:{folder}:digits:60"), pool.path)
    assert len(grown) == 60
    with pytest.raises(InputError, match=r"text_model\.onnx has changed since the pool was made"):
        grown.source.text_model()


def test_tokens_and_maps_have_no_words(tmp_path):
    """Only a vector for the whole image is in the space of words."""
    folder = write_pair(tmp_path / "clip")
    source = source_from(f"onnx:{folder}:digits:50")
    spec = json.loads(json.dumps(source.spec()))
    spec["output"] |= {"name": "last_hidden_state", "pooling": "class token"}
    tokens = type(source).from_spec(spec, None)
    assert not tokens.has_text_model
    with pytest.raises(InputError, match="can't be compared with the class token of last_hidden_state"):
        tokens.text_model()


def test_siglips_outputs_are_a_pair_too(tmp_path):
    """Both are called `pooler_output`."""
    folder = write_pair(tmp_path / "siglip", outputs=("pooler_output", "pooler_output"))
    source = source_from(f"onnx:{folder}:digits:50")
    assert source.spec()["output"]["name"] == source.text_model().output == "pooler_output"
