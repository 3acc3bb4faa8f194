"""A server whose project has photographs of many shapes, some with print too fine for the card's picture."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from click.testing import CliRunner
from PIL import Image

from closecall.app.cli.main import main
from closecall.app.sessions.workspace import Workspace
from tests.browser.served import Server, free_port

SHAPES = {
    "wide": (1600, 900),
    "usual": (1200, 900),
    "square": (900, 900),
    "upright": (900, 1200),
    "tall": (300, 1200),
    "long": (3000, 300),
    "tiny": (28, 28),
}
"""Width and height in pixels."""

PRINT = (4000, 3000)
"""Size of the photograph with fine print: 12 million pixels."""

STRIPE = 4
"""Width in pixels of the black and white stripes of the fine print: a card's picture shows grey."""


COPIES = 10
"""Number of copies of each photograph: each session finds one that no other session leases."""


class Photographs(Server):
    """``closecall serve photographs``."""

    key = "photographs"

    def command(self) -> list[str]:
        return ["serve", str(self.data / self.key), "--headless", "--port", str(self.port)]


@contextmanager
def photographs(
    folder: Path, questions: Sequence[str] = ("Is it nice?",), n_examples: int = 0
) -> Iterator[Photographs]:
    """A server of a project made here, whose questions have that many example images."""
    images, data = folder / "images", folder / "projects"
    images.mkdir(parents=True)
    data.mkdir()
    made = {name: photograph(*size) for name, size in SHAPES.items()} | {"print": fine_print()}
    for name, image in made.items():
        first = images / f"{name}-0.png"
        image.save(first, compress_level=1)
        for number in range(1, COPIES):
            shutil.copy(first, images / f"{name}-{number}.png")
    asked = [word for question in questions for word in ("--question", question)]
    words = ["new", str(data / Photographs.key), "--images", str(images), "--no-classes", *asked]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    if n_examples:
        examples = [(images / f"square-{number}.png").read_bytes() for number in range(n_examples)]
        with Workspace(data) as workspace:
            workspace.project(Photographs.key).session().add_examples(examples)
    server = Photographs(data, items=len(made) * COPIES, port=free_port())
    server.start()
    try:
        yield server
    finally:
        server.stop()


def photograph(width: int, height: int) -> Image.Image:
    """Something smooth whose colours differ from place to place and from size to size."""
    across, down = np.meshgrid(np.linspace(0, 6, width), np.linspace(0, 4, height))
    planes = [np.sin(across + width), np.cos(down + height), np.sin(across * down)]
    return Image.fromarray((127 + 120 * np.stack(planes, axis=2)).astype(np.uint8))


def fine_print() -> Image.Image:
    """Vertical stripes on the left half, horizontal ones on the right half."""
    width, height = PRINT
    across = np.broadcast_to(np.arange(width) // STRIPE % 2, (height, width))
    down = np.broadcast_to((np.arange(height) // STRIPE % 2)[:, None], (height, width))
    return Image.fromarray(np.where(np.arange(width) < width // 2, across, down).astype(np.uint8) * 255)
