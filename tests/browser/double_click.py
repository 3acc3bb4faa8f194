"""A double click as a person makes it, however slow the machine is on which the tests run."""

from __future__ import annotations

import time

from playwright.sync_api import Locator

MOMENTS = (0.0, 0.06, 0.13, 0.19)
"""Seconds at which the button of the mouse goes down, up, down, and up."""


def double_click(target: Locator, slower: float = 0.0) -> None:
    """Two clicks in the middle of `target`, `slower` seconds later than a tenth of a second after each other.

    The browser is told when each happened, as the system tells it of a hand's clicks, rather than take the
    time at which it came to hear of them.
    """
    target.scroll_into_view_if_needed()
    target.hover()
    box = target.bounding_box()
    assert box is not None
    session = target.page.context.new_cdp_session(target.page)
    began = time.time()
    for number, moment in enumerate([*MOMENTS[:2], *(slower + moment for moment in MOMENTS[2:])]):
        event = {
            "type": "mouseReleased" if number % 2 else "mousePressed",
            "x": box["x"] + box["width"] / 2,
            "y": box["y"] + box["height"] / 2,
            "button": "left",
            "clickCount": 1 + number // 2,
            "timestamp": began + moment,
        }
        time.sleep(max(began + moment - time.time(), 0.0))
        session.send("Input.dispatchMouseEvent", event)
    session.detach()
