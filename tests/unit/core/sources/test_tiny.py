from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.sources import TinyImages, open_source, source_from
from closecall.core.sources.images import grey_of


@pytest.fixture
def images() -> np.ndarray:
    """Seven random images as rows of pixels, of shape (7, 32, 32, 3)."""
    return np.random.default_rng(0).integers(0, 256, (7, 32, 32, 3), dtype=np.uint8)


@pytest.fixture
def file(tmp_path: Path, images: np.ndarray) -> Path:
    """These as the data set has them: plane by plane, column by column."""
    path = tmp_path / "tiny_images.bin"
    path.write_bytes(b"".join(image.tobytes("F") for image in images))
    return path


def test_images_are_those_of_the_file(file: Path, images: np.ndarray) -> None:
    """Upright, in their colours; grey as Pillow makes it; without truth."""
    source = TinyImages(file)
    assert len(source) == 7
    for item, image in enumerate(images):
        assert np.array_equal(np.asarray(source.image(item, 32)), image)
        grey, problems = source.grey(np.array([item]))
        assert np.array_equal(grey[0], grey_of(source.image(item, 32)))
        assert not problems
    assert source.image(3, 16).size == (16, 16)
    assert source.names(np.array([5, 0])) == ["tiny 5", "tiny 0"]
    assert source.classes == ()
    assert source.truth(np.arange(7)).tolist() == [-1] * 7


def test_the_first_images_alone(file: Path) -> None:
    """tiny:N:PATH has no others; a path that begins with a digit is a path all the same."""
    source = source_from(f"tiny:3:{file}")
    assert len(source) == 3
    with pytest.raises(InputError, match="item must be from 0 to 2"):
        source.image(3, 32)
    assert source_from(f"tiny:{file}").spec() == TinyImages(file).spec()


def test_a_spec_opens_the_same_images_as_long_as_they_are_there(file: Path) -> None:
    """More behind them do no harm; others in their place are noticed."""
    source = TinyImages(file)
    with file.open("ab") as more:
        more.write(bytes(3072))
    again = open_source(source.spec())
    assert again.spec() == source.spec()
    content = bytearray(file.read_bytes())
    content[0] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match="no longer has the images"):
        open_source(source.spec())


def test_what_cannot_be_used_is_said(tmp_path: Path, file: Path) -> None:
    """No file, no whole images, not enough of them."""
    with pytest.raises(InputError, match="there is no file"):
        TinyImages(tmp_path / "nowhere.bin")
    with pytest.raises(InputError, match=r"n_items must be from 1 to 7 for .*, got 8"):
        TinyImages(file, 8)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(InputError, match="21,503 bytes, not a multiple of 3,072: it is incomplete"):
        TinyImages(file)
    file.write_bytes(b"")
    with pytest.raises(InputError, match="it is incomplete"):
        TinyImages(file)
