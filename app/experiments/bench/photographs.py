"""Photographs of 12 megapixels, made of colors, shapes and noise, for measurements that need large images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from closecall.core.pool.build import build
from closecall.core.sources import source_from

WIDTH, HEIGHT = 4000, 3000
"""Size of a photograph in pixels."""

QUALITY = 90
"""Quality of the JPEG files, which have about 5 MB, as those of a camera."""

SHAPES = 60
"""Number of ellipses in a photograph."""

NOISE = 16
"""Largest change of a pixel's brightness by noise."""


def make_pool(folder: Path, n: int, seed: int) -> Path:
    """Make `n` photographs and a pool of them in `folder`; return the pool's folder."""
    images, pool = folder / "images", folder / "pool"
    images.mkdir(parents=True)
    for number, rng in enumerate(np.random.default_rng(seed).spawn(n)):
        photograph(rng).save(images / f"{number:04}.jpg", quality=QUALITY)
    build(source_from(str(images)), pool)
    return pool


def photograph(rng: np.random.Generator) -> Image.Image:
    """Draw a photograph of `WIDTH` × `HEIGHT` pixels."""
    ground = Image.fromarray(rng.integers(0, 256, (3, 4, 3), dtype=np.uint8))
    image = ground.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(image)
    for _ in range(SHAPES):
        x, y, across, down = (rng.random(4) * (WIDTH, HEIGHT, WIDTH / 5, HEIGHT / 5)).tolist()
        pen.ellipse((x, y, x + across, y + down), fill=tuple(rng.integers(0, 256, 3).tolist()))
    noise = rng.integers(-NOISE, NOISE + 1, (HEIGHT, WIDTH, 1), dtype=np.int16)
    return Image.fromarray(np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8))
