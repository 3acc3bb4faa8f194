"""Thumbnails: small images as they are, larger ones in few bytes."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
from PIL import Image

from closecall.app.display.thumbnails import THUMBNAIL_SIZE, Pictures
from closecall.core.sources import source_from


def decoded(url: str) -> tuple[str, bytes, Image.Image]:
    head, body = url.split(",", 1)
    raw = base64.b64decode(body)
    return head, raw, Image.open(io.BytesIO(raw))


def test_small_images_are_sent_without_loss_and_larger_ones_in_few_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    small = Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8))
    small.save(tmp_path / "a.png")
    coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
    coarse.resize((1600, 1200), Image.Resampling.BICUBIC).save(tmp_path / "b.png")
    pictures = Pictures(source_from(str(tmp_path)))

    head, _, image = decoded(pictures.thumbnail(0))
    assert head == "data:image/png;base64"
    assert np.array_equal(np.asarray(image.convert("RGB")), np.asarray(small))

    head, raw, image = decoded(pictures.thumbnail(1))
    assert head == "data:image/jpeg;base64"
    assert image.size == (THUMBNAIL_SIZE, THUMBNAIL_SIZE * 3 // 4)
    expected = np.asarray(coarse.resize(image.size, Image.Resampling.BICUBIC), dtype=float)
    assert np.abs(np.asarray(image, dtype=float) - expected).mean() < 8
    assert len(raw) < 8_000
