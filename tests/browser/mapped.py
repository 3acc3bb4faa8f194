"""A map of a server's pool, and a person who looks at it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Page, expect

import closecall.core.map.layout as laying_out
from closecall.core.map import build_map
from closecall.core.pool.pool import Pool


def make_map(pool: Path) -> None:
    """Make the map of a pool by its first two components: UMAP would compile for seconds."""

    def first_two(sample: NDArray[np.float32], *, seed: int) -> NDArray[np.float32]:
        return sample[:, :2]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(laying_out, "umap_positions", first_two)
        build_map(Pool.open(pool))


class Mapped:
    """The map page in one tab, with all tiles of the present hyperplane."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        page.goto(url)
        self.card = page.locator(".map")
        self.wait()

    def wait(self) -> None:
        """Until there is a hyperplane, and its tiles are there."""
        expect(self.card).to_have_attribute("data-hyperplane", "true", timeout=30_000)
        # The frame after news asks for their tiles: until then those of before count as all.
        self.page.evaluate("() => new Promise(requestAnimationFrame)")
        expect(self.card).to_have_attribute("data-settled", "true")

    @property
    def version(self) -> int:
        return int(self.card.get_attribute("data-version") or -1)

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Where on the page a place of the canvas is, given as fractions of its sides."""
        box = self.page.locator(".canvas").bounding_box()
        assert box is not None
        return box["x"] + x * box["width"], box["y"] + y * box["height"]

    def drag(self, *places: tuple[float, float]) -> None:
        """Press at the first place, go through the others, and let go."""
        mouse = self.page.mouse
        mouse.move(*self.place(*places[0]))
        mouse.down()
        for place in places[1:]:
            mouse.move(*self.place(*place), steps=4)
        mouse.up()

    def painted(self) -> tuple[int, int]:
        """How many bytes of the canvas are not 0, and a hash of all of them (FNV-1a)."""
        count, digest = self.page.evaluate(
            """() => {
                const host = document.querySelector('[data-testid=stBidiComponentIsolated]');
                const canvas = host.shadowRoot.querySelector('.canvas');
                const { width, height } = canvas;
                let count = 0, digest = 0x811c9dc5;
                for (const byte of canvas.getContext('2d').getImageData(0, 0, width, height).data) {
                    count += byte > 0;
                    digest = Math.imul(digest ^ byte, 0x01000193);
                }
                return [count, digest];
            }"""
        )
        return count, digest
