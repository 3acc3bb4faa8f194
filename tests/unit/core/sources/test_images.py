from __future__ import annotations

import io
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from closecall.core.onnx import resizing
from closecall.core.onnx.preprocessing import Preprocessing
from closecall.core.sources.images import (
    MAX_PIXELS,
    UnreadableImageError,
    _Room,
    grey_of,
    read_halved,
    read_image,
    read_resized,
    resolution_of,
)

# pytest shows every warning; the module itself silences those of Pillow.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")


def encoded(image: Image.Image, form: str = "PNG", **options: object) -> io.BytesIO:
    """The image as a file in memory."""
    file = io.BytesIO()
    image.save(file, form, **options)
    file.seek(0)
    return file


def halves(mode: str, left: object, right: object) -> Image.Image:
    """An image of 40 × 20 pixels, one colour on the left, another on the right."""
    image = Image.new(mode, (40, 20), left)
    image.paste(right, (20, 0, 40, 20))
    return image


def sixteen_bits(low: int, high: int) -> Image.Image:
    """The same in sixteen bits."""
    return Image.fromarray(np.repeat([[low, high]], 20, axis=0).repeat(20, axis=1).astype(np.uint16))


@pytest.mark.parametrize(
    ("image", "form"),
    [
        (halves("RGB", "black", "white"), "PNG"),
        (halves("L", 0, 255), "PNG"),
        (halves("1", 0, 1), "PNG"),
        (halves("P", 0, 1), "PNG"),
        (halves("CMYK", (0, 0, 0, 255), (0, 0, 0, 0)), "JPEG"),
        (halves("CMYK", (0, 0, 0, 255), (0, 0, 0, 0)), "TIFF"),
        (halves("LAB", (0, 128, 128), (255, 128, 128)), "TIFF"),
        (halves("RGBA", (0, 0, 0, 255), (9, 9, 9, 0)), "PNG"),
        (halves("LA", (0, 255), (9, 0)), "PNG"),
        (halves("I", 0, 60_000), "TIFF"),
        (halves("F", -1.5, 7.25), "TIFF"),
        (sixteen_bits(300, 4095), "PNG"),
        (sixteen_bits(0, 65_535), "TIFF"),
        (halves("RGB", "black", "white"), "WEBP"),
        (halves("RGB", "black", "white"), "BMP"),
        (halves("L", 0, 255), "PPM"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.mode,
)
def test_every_mode_is_shown_as_it_looks(image: Image.Image, form: str) -> None:
    """Dark on the left and light on the right stays so, whatever the file's mode; transparent is white."""
    if image.mode == "P":
        image.putpalette([0, 0, 0, 255, 255, 255])
    options = {"lossless": True} if form == "WEBP" else {}
    shown = read_image(encoded(image, form, **options), 64)
    assert shown.mode in ("RGB", "L")
    assert shown.size == (40, 20)
    grey = np.asarray(shown.convert("L"))
    assert grey[:, :18].max() <= 30
    assert grey[:, 22:].min() >= 225


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP", "TIFF"])
def test_the_first_frame_of_an_animation_is_shown(form: str) -> None:
    """What follows the first frame is left out."""
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("white", "black", "black")]
    shown = read_image(encoded(frames[0], form, save_all=True, append_images=frames[1:]), 64)
    assert np.asarray(shown.convert("L")).min() > 240


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize(
    "tail", [bytes(20), b"II*\0", b"II*\0\x08\0\0\0\xff"], ids=["zeros", "header", "cut"]
)
def test_an_image_with_damaged_exif_data_counts_as_upright(form: str, tail: bytes) -> None:
    """As in web browsers. Pillow reads the data only if the density of the pixels is given."""
    image = halves("RGB", "black", "white")
    file = encoded(image, form, dpi=(72, 72), exif=b"Exif\0\0" + tail)
    assert resolution_of(file) == (40, 20)
    plain, steps = encoded(image, form), Preprocessing(20, (18, 18))
    assert np.array_equal(read_image(file, 40), read_image(plain, 40))
    assert np.array_equal(*(read_resized(each, steps.resizing) for each in (file, plain)))


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_cameras_orientation_is_respected(orientation: int, form: str) -> None:
    """However the camera was held, the bright corner is shown at the top left of an upright picture."""
    upright = np.zeros((24, 48), dtype=np.uint8)
    upright[:12, :12] = 255
    as_stored: dict[int, Callable[[np.ndarray], np.ndarray]] = {
        1: lambda a: a,
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.T,
        6: lambda a: np.rot90(a),
        7: lambda a: a[::-1, ::-1].T,
        8: lambda a: np.rot90(a, -1),
    }
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(np.ascontiguousarray(as_stored[orientation](upright))).convert("RGB")
    assert resolution_of(encoded(stored, form, exif=exif)) == (48, 24)
    shown = read_image(encoded(stored, form, exif=exif), 48)
    assert shown.size == (48, 24)
    grey = np.asarray(shown.convert("L"), dtype=float)
    assert grey[2:10, 2:10].mean() > 200
    assert grey[14:, 14:].mean() < 50


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}], ids=str)
@pytest.mark.parametrize("times", range(1, 6))
@pytest.mark.parametrize("orientation", [1, 2, 3, 6, 8])
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_a_halved_jpeg_is_the_whole_one_made_smaller(
    mode: str, orientation: int, times: int, options: dict[str, Any]
) -> None:
    """However often it is halved, and of whichever size: to a grey level or two, on smooth ground.

    The pixels that are averaged are those of the image as it is stored, before it is turned upright.
    """
    rng = np.random.default_rng(times)
    ground = Image.fromarray(rng.integers(40, 215, (3, 4, 3), dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112] = orientation
    for size in ((640, 480), (401, 303), (97, 512)):
        image = ground.resize(size, Image.Resampling.BICUBIC).convert(mode)
        file = encoded(image, "JPEG", exif=exif, quality=95, **options)
        whole = read_image(encoded(image, "JPEG", quality=95, **options), 1000).reduce(2**times)
        whole.getexif()[0x0112] = orientation
        ImageOps.exif_transpose(whole, in_place=True)
        halved = read_halved(file, times)
        assert halved is not None
        assert (halved.mode, halved.size) == (whole.mode, whole.size)
        difference = np.asarray(halved, dtype=float) - np.asarray(whole, dtype=float)
        assert np.abs(difference).mean() < 2


@pytest.mark.parametrize("form", ["PNG", "WEBP", "TIFF", "GIF", "BMP"])
def test_other_formats_are_not_halved_while_decoding(form: str) -> None:
    """Their decoders have no such thing: the caller shrinks the whole image."""
    assert read_halved(encoded(Image.new("RGB", (64, 48)), form), 1) is None


@pytest.mark.parametrize("orientation", range(1, 10))
@pytest.mark.parametrize("mode", ["RGB", "L", "1", "P", "RGBA", "LA", "CMYK", "YCbCr", "I;16", "I", "F"])
def test_a_resized_image_is_that_of_the_whole_one(monkeypatch, mode: str, orientation: int) -> None:
    """Though it is made upright, opaque and colored a few rows at a time: bit for bit, in every mode."""
    monkeypatch.setattr(resizing, "MOST_COPIED", 100)
    rng = np.random.default_rng(0)
    bands = {"I;16": np.uint16, "I": np.int32, "F": np.float32}
    if mode in bands:
        values = rng.integers(300, 60_000, (31, 45)).astype(bands[mode])
        if mode == "F":
            values[3, 4:9] = np.nan, np.inf, -np.inf, -7.5, 1e6
        image = Image.fromarray(values)
    else:
        image = Image.fromarray(rng.integers(0, 256, (31, 45, 4), dtype=np.uint8)).convert(mode)
    exif = Image.Exif()
    exif[0x0112] = orientation
    form = "JPEG" if mode in ("CMYK", "YCbCr") else "TIFF" if mode in bands else "PNG"
    for steps in (Preprocessing(20, (18, 18)), Preprocessing((20, 20), None, resample=2, stretch=True)):
        whole = read_image(encoded(image, form, exif=exif), 1000, stretch=steps.stretch)
        resized = read_resized(encoded(image, form, exif=exif), steps.resizing)
        assert resized.tobytes() == steps.resizing(*whole.size).of(whole.convert("RGB")).tobytes()


@pytest.mark.parametrize("form", ["PNG", "TIFF", "JPEG2000", "PGM"])
def test_a_model_sees_the_same_in_16_bits_as_in_8(form: str) -> None:
    """A value is divided by 257, however dark or bright the image is; values between are rounded."""
    dark = np.random.default_rng(0).integers(30, 120, (31, 45), dtype=np.uint16)
    file = (
        io.BytesIO(b"P5 45 31 65535\n" + (257 * dark).astype(">u2").tobytes())
        if form == "PGM"
        else encoded(Image.fromarray(257 * dark), form)
    )
    plain = Image.fromarray(dark.astype(np.uint8))
    assert read_image(file, 1000, stretch=False).tobytes() == plain.tobytes()
    steps = Preprocessing(20, (18, 18))
    assert (
        read_resized(file, steps.resizing).tobytes()
        == steps.resizing(45, 31).of(plain.convert("RGB")).tobytes()
    )
    shown = np.asarray(read_image(file, 1000))
    assert (shown.min(), shown.max()) == (0, 255)
    between = read_image(encoded(sixteen_bits(257 * 7 + 128, 257 * 7 + 129)), 1000, stretch=False)
    assert between.getextrema() == (7, 8)


def test_a_transparent_color_is_white_in_a_resized_image_too(monkeypatch) -> None:
    """PNG files name it beside the palette or the colors."""
    monkeypatch.setattr(resizing, "MOST_COPIED", 100)
    palette = halves("RGB", "red", "blue").quantize(2)
    for image, color in ((palette, 1), (halves("L", 9, 9), 9), (halves("RGB", "red", "red"), (255, 0, 0))):
        resized = read_resized(encoded(image, transparency=color), Preprocessing((10, 20), None).resizing)
        assert np.asarray(resized)[:, -5:].min() == 255
        assert (np.asarray(resized)[:, :5].min() == 255) == (image is not palette)


def test_a_damaged_image_is_refused_alike_when_it_is_resized() -> None:
    """With the same sentence."""
    whole = encoded(Image.effect_noise((200, 200), 50), "JPEG").getvalue()
    for raw in (b"", b"no image", whole[:300], whole[: len(whole) // 2]):
        sentences = []
        for read in (
            lambda f: read_image(f, 1000),
            lambda f: read_resized(f, Preprocessing(20, None).resizing),
        ):
            with pytest.raises(UnreadableImageError) as refused:
                read(io.BytesIO(raw))
            sentences.append(str(refused.value))
        assert sentences[0] == sentences[1]


def test_images_wait_until_there_is_room() -> None:
    """Threads never hold more pixels than there is room for; one that exceeds all room goes alone."""
    room, held, most, lock = _Room(10), [0], [0], threading.Lock()

    def hold(pixels: int) -> None:
        with room.reserved(pixels):
            with lock:
                held[0] += min(pixels, 10)
                most[0] = max(most[0], held[0])
            time.sleep(0.001)
            with lock:
                held[0] -= min(pixels, 10)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(hold, [6, 3, 3, 25, 1, 9, 10, 2] * 5))
    assert held[0] == 0
    assert most[0] <= 10


def test_big_images_are_shown_small_and_small_ones_as_they_are() -> None:
    """The longest side is bounded, the shape kept, and nothing is ever blown up."""
    assert read_image(encoded(Image.new("RGB", (3000, 1000)), "JPEG"), 300).size == (300, 100)
    assert read_image(encoded(Image.new("I;16", (900, 300))), 300).size == (300, 100)
    assert read_image(encoded(Image.new("P", (300, 900))), 300).size == (100, 300)
    assert read_image(encoded(Image.new("RGB", (7, 3))), 300).size == (7, 3)
    assert read_image(encoded(Image.new("L", (1, 1))), 300).size == (1, 1)
    assert read_image(encoded(Image.new("L", (5000, 1))), 100).size == (100, 1)


def test_a_decompression_bomb_is_refused_before_it_is_decoded() -> None:
    """A small file that claims an enormous image is refused, and the limit is told."""
    side = int(MAX_PIXELS**0.5)
    whole = encoded(Image.new("1", (8, 8))).getvalue()
    for claimed in (side + 100, 60_000):
        header = b"IHDR" + claimed.to_bytes(4, "big") * 2 + whole[24:29]
        bomb = whole[:12] + header + zlib.crc32(header).to_bytes(4, "big") + whole[33:]
        with pytest.raises(UnreadableImageError, match=rf"pixels.*{MAX_PIXELS:,}|{MAX_PIXELS:,} pixels"):
            read_image(io.BytesIO(bomb), 64)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "TIFF", "WEBP", "BMP"])
def test_a_truncated_file_is_refused_with_a_reason(form: str) -> None:
    """Half an image is not shown as a whole one."""
    noise = Image.effect_noise((64, 64), 80).convert("RGB")
    whole = encoded(noise, form).getvalue()
    expected = "its file ends too early$" if form == "JPEG" else "damaged or incomplete|no image"
    with pytest.raises(UnreadableImageError, match=expected):
        read_image(io.BytesIO(whole[: len(whole) // 2]), 64)


def test_what_is_no_image_is_refused_with_a_reason(tmp_path: Path) -> None:
    """Text, nothing, a folder, a missing file and a program's input each have their own reason."""
    (tmp_path / "text.jpg").write_text("hello")
    (tmp_path / "empty.png").touch()
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "drawing.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n")
    reasons = {
        "text.jpg": "not an image of a supported format",
        "empty.png": "the file is empty",
        "folder.png": "it is a folder",
        "missing.png": "no longer exists",
        "drawing.jpg": "not an image of a supported format",
    }
    for name, reason in reasons.items():
        with pytest.raises(UnreadableImageError, match=reason):
            read_image(tmp_path / name, 64)


def test_damaged_bytes_never_raise_anything_else() -> None:
    """Images with random bytes overwritten are either shown or refused, whatever their decoder thinks."""
    rng = np.random.default_rng(0)
    picture = Image.effect_noise((24, 24), 60)
    whole = [
        encoded(picture.convert(mode), form).getvalue()
        for mode, form in [("RGB", "JPEG"), ("P", "GIF"), ("RGB", "PNG"), ("CMYK", "TIFF"), ("RGB", "WEBP")]
    ]
    reasons = []
    for _ in range(60):
        for original in whole:
            raw = bytearray(original)
            for place in rng.integers(0, min(len(raw), 400), 3):
                raw[place] = rng.integers(256)
            try:
                assert max(read_image(io.BytesIO(bytes(raw)), 32).size) <= 32
            except UnreadableImageError as error:
                reasons.append(str(error))
    assert len(reasons) > 10
    assert all(reasons)


def test_features_see_the_whole_picture_in_grey() -> None:
    """Any shape becomes a 32 × 32 square of 0 … 1 that keeps both halves."""
    for size in ((40, 20), (1, 1), (500, 30), (32, 32)):
        picture = Image.new("RGB", size, "black")
        picture.paste("white", (size[0] // 2, 0, size[0], size[1]))
        grey = grey_of(picture)
        assert grey.shape == (32, 32)
        assert grey.dtype == np.float32
        if size[0] > 1:
            assert grey[:, :14].max() < 0.1
            assert grey[:, 18:].min() > 0.9
