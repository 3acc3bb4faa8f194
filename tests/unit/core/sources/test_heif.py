"""HEIC images are read where their extra is installed; elsewhere, a sentence says how many there are."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.pool.build import build
from closecall.core.sources import Folder, images, source_from
from closecall.core.sources.base import UnreadableImageError
from closecall.core.sources.capture_time import taken_at
from closecall.core.sources.heif import CURE, can_read_heif, is_heif
from closecall.core.sources.images import read_image

HEADER = b"\0\0\0\x1cftypheic\0\0\0\0mif1heic" + bytes(40)
"""The beginning of a HEIC file."""


@pytest.fixture
def without_extra(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if pillow-heif were not installed."""
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    can_read_heif.cache_clear()
    images._formats.cache_clear()
    yield
    monkeypatch.undo()
    can_read_heif.cache_clear()
    images._formats.cache_clear()


def photograph(orientation: int = 1) -> bytes:
    """A HEIC file: red on the left, blue on the right, before the camera's orientation is applied."""
    pytest.importorskip("pillow_heif")
    assert can_read_heif()
    image = Image.new("RGB", (120, 80), "red")
    image.paste("blue", (60, 0, 120, 80))
    exif = image.getexif()
    exif[0x0112] = orientation
    exif.get_ifd(0x8769)[0x9003] = "2024:05:06 07:08:09"
    file = io.BytesIO()
    image.save(file, "HEIF", quality=95, exif=exif.tobytes())
    return file.getvalue()


def test_a_photograph_of_a_phone_is_read_upright() -> None:
    """A turned camera's image is higher than wide; red, which was on the left, is at the top."""
    assert np.asarray(read_image(io.BytesIO(photograph()), 64))[20, 5].argmax() == 0
    turned = read_image(io.BytesIO(photograph(6)), 60)
    assert turned.size == (40, 60)
    assert np.asarray(turned)[5, 20].argmax() == 0
    assert np.asarray(turned)[55, 20].argmax() == 2


def test_a_folder_of_them_becomes_a_pool(tmp_path: Path) -> None:
    """Whatever the letter case of the extension; with the time at which the photograph was taken."""
    for name in ("a.HEIC", "b.heif", "c.hif", "d.jpg"):  # phones also write HEIC into files called .jpg
        (tmp_path / name).write_bytes(photograph())
    source = Folder(tmp_path)
    pool = build(source, tmp_path / "pool")
    assert (len(pool), pool.n_unreadable, source.note_on_left_out()) == (4, 0, None)
    assert (taken_at(source, np.arange(4)) == 1714979289).all()


def test_another_process_reads_them_by_itself(tmp_path: Path) -> None:
    """The reader is registered in each process that opens images, such as a worker."""
    (tmp_path / "a.heic").write_bytes(photograph())
    script = (
        "from pathlib import Path; from closecall.core.sources.images import read_image; import sys; "
        "print(read_image(Path(sys.argv[1]), 60).size)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "a.heic")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(60, 40)"


def test_a_damaged_one_is_a_problem_of_the_pool(tmp_path: Path) -> None:
    """It is reported like any other damaged image."""
    whole = photograph()
    for content in (whole[: len(whole) // 2], HEADER):
        with pytest.raises(UnreadableImageError, match=r"damaged|not an image"):
            read_image(io.BytesIO(content), 64)


@pytest.mark.usefixtures("without_extra")
def test_without_the_extra_they_are_left_out_and_counted(tmp_path: Path) -> None:
    """The others become the pool. Once the extra is there, they are new images of the same folder."""
    Image.effect_noise((20, 20), 50).save(tmp_path / "a.png")
    source = Folder(tmp_path)
    assert source.note_on_left_out() is None
    for name in ("b.heic", "c.HEIC"):
        (tmp_path / name).write_bytes(HEADER)
    source = Folder(tmp_path)
    assert len(source) == 1
    assert source.note_on_left_out() == f"2 HEIC images are left out: they need {CURE}"
    assert source_from(f"edges:{tmp_path}").note_on_left_out() == source.note_on_left_out()
    assert source_from(f"enlarged:2:{tmp_path}").note_on_left_out() == source.note_on_left_out()
    assert source.without_folder_classes().note_on_left_out() == source.note_on_left_out()


@pytest.mark.usefixtures("without_extra")
def test_a_folder_of_nothing_else_names_the_extra(tmp_path: Path) -> None:
    """So does a HEIC image whose name or place hides that it is one."""
    (tmp_path / "b.heic").write_bytes(HEADER)
    with pytest.raises(
        InputError, match=r"has no other images, and 1 HEIC image is left out.*closecall\[heic\]"
    ):
        Folder(tmp_path)
    (tmp_path / "b.jpg").write_bytes(HEADER)
    assert is_heif(tmp_path / "b.jpg")
    for file in (tmp_path / "b.jpg", io.BytesIO(HEADER)):
        with pytest.raises(UnreadableImageError, match=r"a HEIC image, which needs pillow-heif.*\[heic\]"):
            read_image(file, 64)
