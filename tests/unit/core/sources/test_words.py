from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.sources import Arrays, Digits, Enlarged, Folder, source_from


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a comma in its name, in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my, photos").mkdir()
    for i in range(4):
        Image.new("L", (5, 5)).save(tmp_path / "my, photos" / f"{i}.png")
    return tmp_path / "my, photos"


def test_digits_in_words() -> None:
    """A million by default, else as many as said, in any common way to write a number."""
    assert source_from("digits").spec() == Digits(1_000_000).spec()
    for word in ("digits:50000", "digits:50,000", "digits:50_000"):
        assert source_from(word).spec() == Digits(50_000).spec()
    assert source_from("digits:9", seed=4).spec() == Digits(9, seed=4).spec()


def test_folders_in_words(photos: Path) -> None:
    """Relative, absolute or marked as a folder, a path is a folder."""
    for word in ("my, photos", str(photos), "folder:my, photos", "./my, photos"):
        source = source_from(word)
        assert isinstance(source, Folder)
        assert source.path == photos.resolve()
    assert not source_from(str(photos), use_classes=False).use_classes


def test_a_folder_called_digits_can_be_reached(photos: Path) -> None:
    """The word digits means digits; a path with a slash, or folder:, means the folder."""
    photos.rename(photos.parent / "digits")
    assert isinstance(source_from("digits"), Digits)
    assert isinstance(source_from("./digits"), Folder)
    assert isinstance(source_from("folder:digits"), Folder)


def test_arrays_and_enlarged_sets_in_words(photos: Path) -> None:
    """Commas in names do no harm, and what is enlarged may be any word."""
    np.save(photos.parent / "x,y.npy", np.eye(4))
    arrays = source_from("arrays:x,y.npy,my, photos")
    assert isinstance(arrays, Arrays)
    assert len(arrays) == 4
    enlarged = source_from("enlarged:3:my, photos", seed=7)
    assert isinstance(enlarged, Enlarged)
    assert (len(enlarged), enlarged.times, enlarged.seed) == (12, 3, 7)
    assert source_from("enlarged:2:digits:10").spec() == Enlarged(Digits(10), 2).spec()


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("digits:", "needs a number of at least 1, got ''"),
        ("digits:0", "needs a number of at least 1, got '0'"),
        ("digits:many", "got 'many'"),
        ("digits:-5", "got '-5'"),
        ("nowhere", "there is no folder nowhere; a source is digits"),
        ("", "names no file or folder"),
        ("cifar10:", "names no file or folder"),
        ("tar:", "names no file or folder"),
        ("tar:nowhere.tar", "there is no file or folder"),
        ("images:", "names no file or folder"),
        ("images:nowhere.parquet,image", "there is no file or folder .*nowhere.parquet$"),
        ("images:nowhere", "there is no file or folder .*nowhere$"),
        ("video:", "names no file or folder"),
        ("video:nowhere.mp4", "there is no file or folder .*nowhere.mp4$"),
        ("video:2:", "names no file or folder"),
        ("video:-2:nowhere", "needs a number of frames a second, such as 2 or 0.5, got '-2'"),
        ("video:2x:nowhere", "needs a number of frames a second, such as 2 or 0.5, got '2x'"),
        ("video:0:nowhere", "rate must be from 0.001 to 1,000 frames a second, got 0"),
        ("tiny:", "names no file or folder"),
        ("tiny:0:nowhere.bin", "needs a number of at least 1, got '0'"),
        ("tiny:nowhere.bin", "there is no file"),
        ("cifar10:nowhere", "no folder or archive"),
        ("arrays:x.csv,photos", "needs a .npy, .parquet, .fvecs or .bvecs file, a comma"),
        ("arrays:x.npy", "needs a .npy, .parquet, .fvecs or .bvecs file, a comma"),
        ("arrays:x.npy,photos", "there is no file"),
        ("vectors:", "vectors needs a .npy, .parquet, .fvecs or .bvecs file"),
        ("vectors:x.csv", "vectors needs a .npy, .parquet, .fvecs or .bvecs file"),
        ("vectors:x.fvecs", "there is no file"),
        ("points:x.npy", "points needs a .npz file"),
        ("points:x.npz", "there is no file"),
        ("enlarged:x:digits", "got 'x'"),
        ("enlarged:2:", "names no file or folder"),
        ("enlarged:2:nowhere", "there is no folder nowhere"),
    ],
)
def test_words_that_name_no_source_are_refused(word: str, words: str) -> None:
    """One sentence says what is wrong, and what there is."""
    with pytest.raises(InputError, match=words) as caught:
        source_from(word)
    assert "\n" not in str(caught.value)
