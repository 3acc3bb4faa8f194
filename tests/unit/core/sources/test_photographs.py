"""A real image model on real photographs, against a script that uses Pillow, NumPy and ONNX Runtime alone.

Neither the model nor the photographs are part of the project: CONTRIBUTING.md says how to name them.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image, ImageOps

from closecall.core.features import compute
from closecall.core.pool.build import build
from closecall.core.sources import source_from
from tests.pools import contents, killed_pools, small_pool
from tests.scale import scaled

MODEL, PHOTOGRAPHS = "IMAGE_MODEL", "PHOTOGRAPHS"
"""Environment variables: the folder of a model, and folders of photographs, joined as in ``PATH``."""

SAMPLED = scaled(quick=12, all=60, long=1000)
"""Photographs of each folder."""

KILLS = scaled(quick=2, all=20, long=100)

PRECISION = 2e-6
"""Of a feature of a vector of length 1, in float32."""


def named_folders(variable: str) -> list[Path]:
    """The folders in an environment variable; without it, the test is skipped."""
    if not (value := os.environ.get(variable)):
        pytest.skip(f"{variable} is not set: CONTRIBUTING.md says what it names")
    folders = [Path(folder).expanduser() for folder in value.split(os.pathsep)]
    for folder in folders:
        assert folder.is_dir(), f"{variable} names {folder}, which is no folder"
    return folders


@pytest.fixture(scope="module")
def model() -> Path:
    """The model's folder."""
    (folder,) = named_folders(MODEL)
    return folder


@pytest.fixture(scope="module")
def photographs() -> list[Path]:
    """Some photographs of each folder, in color."""
    rng, found = np.random.default_rng(0), []
    for folder in named_folders(PHOTOGRAPHS):
        files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in (".jpg", ".jpeg", ".png"))
        assert files, f"{folder} has no photographs"
        found += [files[i] for i in rng.permutation(len(files))[:SAMPLED]]
    return found


def copied(photographs: list[Path], folder: Path) -> Path:
    """A new folder of these photographs, with numbers as names."""
    folder.mkdir()
    for number, file in enumerate(photographs):
        (folder / f"{number}{file.suffix}").write_bytes(file.read_bytes())
    return folder


class PlainScript:
    """Features of image files, computed as one would without Closecall."""

    def __init__(self, folder: Path, output: str) -> None:
        self.session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
        self.config = json.loads((folder / "preprocessor_config.json").read_text())
        self.output = output

    def __call__(self, file: Path) -> np.ndarray:
        with Image.open(file) as image:
            picture = self.in_rgb(ImageOps.exif_transpose(image))
        short = self.config["size"]["shortest_edge"]
        width, height = (side * short // min(picture.size) for side in picture.size)
        picture = picture.resize((width, height), self.config["resample"])
        rows, columns = self.config["crop_size"]["height"], self.config["crop_size"]["width"]
        left, top = (width - columns) // 2, (height - rows) // 2
        pixels = np.asarray(picture.crop((left, top, left + columns, top + rows)), np.float32)
        scaled_ = pixels * np.float32(self.config["rescale_factor"])
        mean, deviation = (np.array(self.config[name], np.float32) for name in ("image_mean", "image_std"))
        batch = ((scaled_ - mean) / deviation).transpose(2, 0, 1)[None]
        (vectors,) = self.session.run([self.output], {self.session.get_inputs()[0].name: batch})
        vector = vectors[0].ravel().astype(np.float64)
        return vector / np.linalg.norm(vector)

    @staticmethod
    def in_rgb(image: Image.Image) -> Image.Image:
        if image.mode.startswith("I;16"):
            return Image.fromarray((np.asarray(image) / 257).round().astype(np.uint8)).convert("RGB")
        if "A" in image.getbands() or "transparency" in image.info:
            image = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
        return image.convert("RGB")


def in_16_bits(photo: Image.Image, file: Path) -> None:
    """Write a color PNG with 16 bits a channel, which Pillow can't."""
    values = 257 * np.asarray(photo).astype(">u2")
    header = struct.pack(">IIBBBBB", photo.width, photo.height, 16, 2, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in values)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


def translucent(photo: Image.Image) -> Image.Image:
    """The photograph, which fades from left to right."""
    alpha = np.broadcast_to(np.linspace(0, 255, photo.width).astype(np.uint8), photo.size[::-1])
    faded = photo.copy()
    faded.putalpha(Image.fromarray(np.ascontiguousarray(alpha)))
    return faded


def grey_in_16_bits(photo: Image.Image) -> Image.Image:
    """The photograph in gray, darker than it is, and without black."""
    return Image.fromarray(np.asarray(photo.convert("L")).astype(np.uint16) * 150 + 9_000)


STORED = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}
"""How a camera that was held in this EXIF orientation stores an upright picture."""


def write_turned(photo: Image.Image, file: Path, orientation: int) -> None:
    """Write a photograph as a camera stores it."""
    how, exif = STORED[orientation], Image.Exif()
    exif[0x0112] = orientation
    (photo if how is None else photo.transpose(how)).save(file, exif=exif)


Writer = Callable[[Image.Image, Path], object]

COPIES: dict[str, Writer] = {
    "color.png": lambda photo, file: photo.save(file),
    "translucent.png": lambda photo, file: translucent(photo).save(file),
    "translucent.webp": lambda photo, file: translucent(photo).save(file, quality=80),
    "palette.png": lambda photo, file: photo.quantize(100).save(file),
    "palette with a transparent color.png": lambda photo, file: photo.quantize(20).save(file, transparency=3),
    "animation.gif": lambda photo, file: photo.save(file, save_all=True, append_images=[photo.convert("1")]),
    "gray.png": lambda photo, file: photo.convert("L").save(file),
    "gray.jpg": lambda photo, file: photo.convert("L").save(file),
    "translucent gray.png": lambda photo, file: translucent(photo.convert("L")).save(file),
    "bits.png": lambda photo, file: photo.convert("1").save(file),
    "print.jpg": lambda photo, file: photo.convert("CMYK").save(file),
    "print.tiff": lambda photo, file: photo.convert("CMYK").save(file),
    "gray in 16 bits.png": lambda photo, file: grey_in_16_bits(photo).save(file),
    "gray in 16 bits.tiff": lambda photo, file: grey_in_16_bits(photo).save(file),
    "color in 16 bits.png": in_16_bits,
    "progressive.jpg": lambda photo, file: photo.save(file, progressive=True),
    "one pixel.png": lambda photo, file: photo.resize((1, 1)).save(file),
    "one row.png": lambda photo, file: photo.resize((99, 1)).save(file),
    "long.jpg": lambda photo, file: photo.resize((3000, 13)).save(file),
    "tall.png": lambda photo, file: photo.resize((17, 2500)).save(file),
    "large.jpg": lambda photo, file: photo.resize((3600, 2400)).save(file),
    **{
        f"held {n}.jpg": lambda photo, file, n=n: write_turned(photo, file, n)
        for n in STORED  # type: ignore[misc]
    },
}
"""Files of every kind that can be made from a photograph."""


@pytest.fixture(scope="module")
def photo(photographs: list[Path]) -> Image.Image:
    """The largest of the photographs."""
    images = []
    for file in photographs:
        with Image.open(file) as image:
            images.append(image.convert("RGB"))
    return max(images, key=lambda image: image.width * image.height)


def test_photographs_have_the_features_of_a_plain_script(
    model: Path, photographs: list[Path], tmp_path: Path
) -> None:
    """In the pool, to float32's precision."""
    folder = copied(photographs, tmp_path / "photos")
    pool = build(source_from(f"onnx:{model}:{folder}"), tmp_path / "pool")
    script = PlainScript(model, pool.source.spec()["output"]["name"])
    assert len(pool) == len(photographs)
    for name, row in zip(pool.source.names(pool.ids), pool.rows_of(pool.ids), strict=True):
        assert np.abs(row - script(folder / name)).max() < PRECISION, name


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_of_every_kind_has_the_features_of_a_plain_script(
    model: Path, photo: Image.Image, tmp_path: Path, name: str
) -> None:
    """Of any mode, depth, shape and orientation."""
    (tmp_path / "photos").mkdir()
    COPIES[name](photo, tmp_path / "photos" / name)
    source = source_from(f"onnx:{model}:{tmp_path / 'photos'}")
    X, _, problems = compute(source, np.arange(1))
    assert not problems
    expected = PlainScript(model, source.spec()["output"]["name"])(tmp_path / "photos" / name)
    assert np.abs(X[0] - expected).max() < PRECISION


def test_copies_that_look_alike_have_the_same_features(
    model: Path, photo: Image.Image, tmp_path: Path
) -> None:
    """Turned, opaque or in 16 bits: to the last bit."""
    folder = tmp_path / "photos"
    folder.mkdir()
    photo.save(folder / "color.png")
    photo.convert("RGBA").save(folder / "opaque.png")
    in_16_bits(photo, folder / "color in 16 bits.png")
    for n in STORED:
        write_turned(photo, folder / f"held {n}.png", n)
    gray = photo.convert("L")
    gray.save(folder / "gray.png")
    Image.fromarray(257 * np.asarray(gray).astype(np.uint16)).save(folder / "gray in 16 bits.png")
    source = source_from(f"onnx:{model}:{folder}")
    X, ids, _ = compute(source, np.arange(len(source)))
    of = dict(zip(source.names(ids), X, strict=True))
    grays = ("gray.png", "gray in 16 bits.png")
    assert np.array_equal(*(of[name] for name in grays))
    assert {name for name in of if not np.array_equal(of[name], of["color.png"])} == set(grays)


@pytest.mark.slow
def test_killed_builders_go_on_to_the_same_bits(model: Path, photographs: list[Path], tmp_path: Path) -> None:
    """Killed −9 at random moments, at last as one that nobody disturbed."""
    word = f"onnx:{model}:{copied(photographs[-60:], tmp_path / 'photos')}"
    whole = small_pool(tmp_path / "whole", source_from(word))
    for path in killed_pools(word, tmp_path, KILLS, longest=1.0):
        assert contents(path) == contents(whole.path)
