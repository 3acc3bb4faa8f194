"""Fingers on the image, as the browser hears them from a screen."""

from __future__ import annotations

from tests.browser.labeling import Labeling

STEPS = 8
FRAME_MS = 16


class Fingers:
    """What touches the middle of the image in view."""

    def __init__(self, labeling: Labeling) -> None:
        self._page = labeling.page
        self._devtools = labeling.page.context.new_cdp_session(labeling.page)
        box = labeling.page.locator(".frame").bounding_box()
        assert box is not None
        self._centre = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        self._at: tuple[float, float] | None = None

    def pull(self, dx: float, dy: float) -> None:
        """Move one finger to `dx`, `dy` from the middle; it stays down."""
        if self._at is None:
            self._at = (0, 0)
            self._touch("touchStart", self._at)
        (x, y), self._at = self._at, (dx, dy)
        for step in range(1, STEPS + 1):
            share = step / STEPS
            self._touch("touchMove", (x + share * (dx - x), y + share * (dy - y)))
            self._page.wait_for_timeout(FRAME_MS)

    def pinch(self, apart: float, to: float) -> None:
        """Two fingers, `apart` pixels from each other, move `to` another distance and are lifted."""
        self._touch("touchStart", (-apart / 2, 0), (apart / 2, 0))
        for step in range(1, STEPS + 1):
            now = apart + (to - apart) * step / STEPS
            self._touch("touchMove", (-now / 2, 0), (now / 2, 0))
            self._page.wait_for_timeout(FRAME_MS)
        self.lift()

    def lift(self) -> None:
        """Take all fingers off."""
        self._at = None
        self._touch("touchEnd")

    def _touch(self, kind: str, *points: tuple[float, float]) -> None:
        x, y = self._centre
        touched = [{"x": x + dx, "y": y + dy, "id": finger} for finger, (dx, dy) in enumerate(points)]
        self._devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touched})
