from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from closecall.core.sources import source_from
from closecall.core.sources.capture_time import seconds_of, taken_at

TIME, FRACTION = 0x9003, 0x9291


def taken(time: str) -> Image.Exif:
    """The EXIF data of a photograph taken at this time, such as "2024:02:29 23:59:07"."""
    exif = Image.Exif()
    exif.get_ifd(0x8769)[TIME] = time
    return exif


@pytest.fixture
def folder(tmp_path):
    """Photographs taken at the seconds of their names; others without a time, and one that is none."""
    for second in (7, 8, 59):
        exif = taken(f"2024:02:29 23:59:{second:02}")
        Image.new("RGB", (8, 8), (second, 0, 0)).save(tmp_path / f"{second}.jpg", exif=exif)
    Image.new("RGB", (8, 8)).save(tmp_path / "plain.jpg")
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8 none")
    cut = {"dpi": (72, 72), "exif": b"Exif\0\0II*\0"}
    Image.new("RGB", (8, 8)).save(tmp_path / "cut.jpg", **cut)
    return tmp_path


def test_photographs_know_when_they_were_taken(folder):
    """All others have no time, and none stops the rest."""
    source = source_from(str(folder))
    items = np.arange(len(source))
    times = dict(zip(source.names(items), taken_at(source, items), strict=True))
    assert times["8.jpg"] - times["7.jpg"] == 1
    assert times["59.jpg"] - times["7.jpg"] == 52
    assert np.isnan([times["plain.jpg"], times["broken.jpg"], times["cut.jpg"]]).all()


def test_items_without_a_file_have_no_time():
    """As drawn digits."""
    assert np.isnan(taken_at(source_from("digits:100"), np.arange(3))).all()


@pytest.mark.parametrize(
    ("exif", "seconds"),
    [
        ({TIME: "1970:01:02 00:00:01"}, 86401),
        ({TIME: "1970:01:01 00:00:01", FRACTION: "25"}, 1.25),
        ({TIME: "1970:01:01 00:00:01\0", FRACTION: "?"}, 1),
    ],
)
def test_a_time_in_seconds(exif, seconds):
    """With fractions, if they are numbers."""
    assert seconds_of(exif) == seconds


@pytest.mark.parametrize("text", ["", "0000:00:00 00:00:00", "yesterday", "2024:13:01 00:00:00", b"\xff", 7])
def test_a_time_that_is_none(text):
    """Cameras whose clock was never set write zeros."""
    assert np.isnan(seconds_of({TIME: text}))
