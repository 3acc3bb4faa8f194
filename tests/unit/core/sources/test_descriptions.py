"""Other features of the same items."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.features import compute
from closecall.core.onnx import load_model
from closecall.core.pool.source_continuation import plain_spec
from closecall.core.sources import Described, Digits, Embedded, Enlarged, Folder, Vectors, open_source
from closecall.core.sources.descriptions import described, label_of, spec_of_images, word_of
from tests.onnx_kit import N_FEATURES, write_model


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path / "models" / "small" / "model.onnx", outputs=["image_embeds", "logits"])


@pytest.fixture
def photos(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(20):
        file = tmp_path / "photos" / ("ant" if number % 2 else "bee") / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (9, 12, 3), dtype=np.uint8)).save(file)
    return Folder(tmp_path / "photos")


def test_only_the_features_are_others(photos, model):
    """Names, classes and held-out items stay, whatever described the images before."""
    before = Described(photos, "edges")
    after = described(before, str(model.parent))
    every = np.arange(len(photos))
    assert after.names(every) == photos.names(every)
    assert after.truth(every).tolist() == photos.truth(every).tolist()
    assert after.held_out().tolist() == photos.held_out().tolist()
    assert compute(after, every)[0].shape == (20, N_FEATURES)
    back = described(after, "gist")
    assert np.array_equal(compute(back, every)[0], compute(photos, every)[0])


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_spec_tells_which_items_they_are(photos, model, tmp_path, wrapped):
    """It is equal for all descriptions, restored or not, and for no other items."""
    source = Enlarged(Digits(50), 2) if wrapped else photos
    source.save(tmp_path)
    specs = [plain_spec(described(source, word)) for word in ("gist", "edges", str(model))]
    assert {str(spec_of_images(spec)) for spec in specs} == {str(plain_spec(source))}
    again = open_source(specs[2], None if wrapped else tmp_path)
    assert spec_of_images(plain_spec(again)) == plain_spec(source)
    assert spec_of_images(plain_spec(Digits(60))) != spec_of_images(plain_spec(Digits(50)))


@pytest.mark.parametrize("word", ["gist", "edges", "MODEL", "MODEL#logits"])
def test_a_description_can_be_made_again_from_its_spec(photos, model, word):
    """With the output that was chosen."""
    first = described(photos, word.replace("MODEL", str(model.parent)))
    again = described(photos, word_of(plain_spec(first)))
    assert plain_spec(again) == plain_spec(first)


def test_labels_name_the_features(photos, model):
    """A model by its folder, its file and the output in use."""
    names = [
        label_of(plain_spec(source), source.feature_kind(plain_spec(source), None))
        for source in (photos, described(photos, "edges"), Embedded(photos, load_model(model)))
    ]
    assert names == ["GIST", "edge histograms", "small/model.onnx, output image_embeds"]


def test_what_has_no_images_is_refused(tmp_path, model):
    """In one sentence, and so is a model that is not there."""
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32))
    for word in ("gist", str(model)):
        with pytest.raises(InputError, match="has its own embeddings"):
            described(Vectors(tmp_path / "rows.npy"), word)
    with pytest.raises(InputError, match=r"there is no model .*nowhere"):
        described(Digits(50), str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="no output"):
        described(Digits(50), f"{model}#other")
