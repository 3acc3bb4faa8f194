from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.sources import Enlarged, Folder, open_source
from closecall.core.sources.images import grey_of
from tests.fakes import FakeSource


@pytest.fixture
def photos(tmp_path: Path) -> Folder:
    """Thirty photographs of 32 × 32 pixels, of two classes, three of them held out, and one fake."""
    rng = np.random.default_rng(0)
    for i in range(30):
        file = tmp_path / "photos" / ("ant" if i % 2 else "bee") / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(rng.integers(55, 200, (5, 5, 3), dtype=np.uint8))
        coarse.resize((32, 32), Image.Resampling.BICUBIC).save(file)
    (tmp_path / "photos" / "ant" / "broken.png").write_text("fake")
    return Folder(tmp_path / "photos")


def test_originals_come_first_and_as_they_are(photos: Folder) -> None:
    """The first items are the source's own, pictures, grey squares, names and all."""
    enlarged = Enlarged(photos, 4)
    items = np.arange(len(photos))
    assert (enlarged.grey(items)[0] == photos.grey(items)[0]).all()
    assert enlarged.name(5) == photos.name(5)
    readable = next(i for i in range(31) if "broken" not in photos.name(i))
    assert enlarged.image(readable, 64).tobytes() == photos.image(readable, 64).tobytes()


def test_only_what_is_not_held_out_has_variants(photos: Folder) -> None:
    """Held-out items stay, alone; every other one comes N times in all, with its own class."""
    held_out = photos.held_out()
    assert len(held_out) == 3
    enlarged = Enlarged(photos, 4)
    assert (enlarged.held_out() == held_out).all()
    assert len(enlarged) == 31 + 3 * 28
    origins, variants = enlarged._origins(np.arange(len(enlarged)))
    times = np.bincount(origins, minlength=31)
    assert (times[held_out] == 1).all()
    assert (np.delete(times, held_out) == 4).all()
    assert len(set(zip(origins.tolist(), variants.tolist(), strict=True))) == len(enlarged)
    assert (enlarged.truth(np.arange(len(enlarged))) == photos.truth(origins)).all()
    assert enlarged.classes == photos.classes


def test_a_greater_enlargement_only_appends(photos: Folder) -> None:
    """Items of a set that is enlarged 3 times are the first ones of the set that is enlarged 5 times."""
    small, large = Enlarged(photos, 3), Enlarged(photos, 5)
    items = np.arange(len(small))
    assert (large.grey(items)[0] == small.grey(items)[0]).all()
    assert (large.truth(items) == small.truth(items)).all()
    assert (large.held_out() == small.held_out()).all()
    assert large.name(len(small) - 1) == small.name(len(small) - 1)


def test_variants_differ_but_keep_to_their_original(photos: Folder) -> None:
    """No two variants are alike, and each is its original, moved by up to 4 pixels, mirrored or not."""
    enlarged = Enlarged(photos, 6)
    items = np.arange(len(photos), len(enlarged))
    grey, problems = enlarged.grey(items)
    fakes = [problem.item for problem in problems]
    assert len(fakes) == 5
    grey = grey[~np.isin(items, fakes)]
    assert len(np.unique(grey.reshape(len(grey), -1), axis=0)) == len(grey)
    assert grey.min() >= 0
    assert grey.max() <= 1
    for item in items[~np.isin(items, fakes)][::11]:
        original = photos.grey(enlarged._origins(np.array([item]))[0])[0][0]
        variant = enlarged.grey(np.array([item]))[0][0, 4:28, 4:28].ravel()
        moved = [
            picture[down : down + 24, right : right + 24].ravel()
            for picture in (original, original[:, ::-1])
            for down in range(9)
            for right in range(9)
        ]
        assert max(np.corrcoef(variant, other)[0, 1] for other in moved) > 0.85


def test_the_picture_shows_what_features_see(photos: Folder) -> None:
    """A variant's picture, in grey, is its grey square, but for rounding."""
    enlarged = Enlarged(photos, 3)
    items = np.arange(len(photos), len(enlarged))
    grey, problems = enlarged.grey(items)
    for row, item in zip(grey, items.tolist(), strict=True):
        if item not in {problem.item for problem in problems}:
            shown = grey_of(enlarged.image(item, 64))
            assert np.abs(shown - row).max() < 0.02


def test_large_and_grey_pictures_keep_size_and_mode(tmp_path: Path) -> None:
    """A variant of a picture of any shape is shown at the picture's size, and a grey one stays grey."""
    for name, mode, size in (("a.png", "L", (90, 40)), ("b.png", "RGB", (300, 500))):
        Image.effect_noise(size, 40).convert(mode).save(tmp_path / name)
    enlarged = Enlarged(Folder(tmp_path, by_path=True), 2)
    assert (enlarged.image(2, 64).size, enlarged.image(2, 64).mode) == ((64, 28), "L")
    assert (enlarged.image(3, 400).size, enlarged.image(3, 400).mode) == ((240, 400), "RGB")


def test_an_unreadable_original_has_unreadable_variants(photos: Folder) -> None:
    """The report names every variant of a file that can't be read, with the file's reason."""
    enlarged = Enlarged(photos, 3)
    _, problems = enlarged.grey(np.arange(len(enlarged)))
    assert [problem.name for problem in problems] == ["ant/broken.png"] + [
        f"ant/broken.png, variant {i}" for i in (1, 2)
    ]
    assert len({problem.reason for problem in problems}) == 1


def test_batches_change_nothing(photos: Folder) -> None:
    """An item looks the same alone and among others."""
    enlarged = Enlarged(photos, 5)
    items = np.array([100, 40, 7, 100])
    together, _ = enlarged.grey(items)
    for row, item in zip(together, items, strict=True):
        assert (enlarged.grey(np.array([item]))[0][0] == row).all()


def test_seeds_give_other_variants(photos: Folder) -> None:
    """Another seed changes variants and leaves originals alone."""
    one, two = Enlarged(photos, 2, seed=1), Enlarged(photos, 2, seed=2)
    items = np.arange(len(photos), len(one))
    assert (one.grey(items)[0] != two.grey(items)[0]).any(axis=(1, 2)).sum() >= 27
    assert (one.grey(items - 31)[0] == two.grey(items - 31)[0]).all()


def test_it_reopens_with_the_list_of_its_folder(tmp_path: Path, photos: Folder) -> None:
    """What the original source saves is saved, and found again."""
    enlarged = Enlarged(photos, 3)
    enlarged.save(tmp_path)
    Image.new("L", (3, 3)).save(tmp_path / "photos" / "ant" / "new.png")
    again = open_source(enlarged.spec(), tmp_path)
    assert again.spec() == enlarged.spec()
    assert again.name(50) == enlarged.name(50)


def test_unsuitable_requests_are_refused(photos: Folder) -> None:
    """Less than once, embeddings, and variants of another version are one sentence each."""
    with pytest.raises(InputError, match="times must be at least 1, got 0"):
        Enlarged(photos, 0)
    with pytest.raises(InputError, match="has its own embeddings"):
        Enlarged(FakeSource(5, n_features=3), 2)
    spec = Enlarged(photos, 2).spec()
    with pytest.raises(InputError, match="build the pool again"):
        open_source({**spec, "variants": 0})
