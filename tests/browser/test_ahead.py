"""The next image in the next frame, without waiting for the server, and every number true."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from closecall.core.pool.pool import Pool
from tests.browser.labeling import Labeling
from tests.browser.served import Server
from tests.browser.test_labeling import likeness
from tests.scale import thorough

NUMBERS = ".rows .value, .counts b, .chosen"


@pytest.fixture
def stopped(server: Server, labeling: Labeling) -> Iterator[Server]:
    """The server, held still as soon as the browser has what follows; it goes on after the test."""
    for key in "ynn":
        labeling.press(key)
    labeling.wait_for_what_follows()
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGSTOP)
    yield server
    os.kill(server.process.pid, signal.SIGCONT)
    labeling.wait()


@pytest.mark.parametrize("key", ["y", thorough("n"), thorough("s"), thorough("m")])
def test_the_next_image_needs_no_server(stopped: Server, labeling: Labeling, key: str) -> None:
    """It is painted, may be answered, and is what the stored selection showed; its numbers stay."""
    before, counts = labeling.item, labeling.page.locator(".counts").inner_text()
    labeling.page.keyboard.press(key)
    expect(labeling.card).to_have_attribute("data-answerable", "true")
    item, selection = labeling.item, labeling.selection
    assert item != before
    assert likeness(labeling.painted(), Pool.open(stopped.pool).source.image(item, 200)) > 0.95
    assert labeling.page.locator(".counts").inner_text() != counts
    shown = labeling.page.locator(NUMBERS).all_inner_texts()
    assert stopped.process is not None
    os.kill(stopped.process.pid, signal.SIGCONT)
    labeling.wait()
    labeling.wait_for_what_follows()
    assert (labeling.item, labeling.selection) == (item, selection)
    assert labeling.page.locator(NUMBERS).all_inner_texts() == shown
    labeling.press("n")
    stored = stopped.answers(labeling.session)[-1]
    assert (stored["selection_id"], stored["item"], stored["shown"]) == (selection, item, item)


@pytest.mark.thorough
def test_the_card_waits_for_whoever_is_faster_than_the_server(stopped: Server, labeling: Labeling) -> None:
    """Two answers can be given ahead of it; then the image is dimmed, and no key answers."""
    for key in "yn":
        expect(labeling.card).to_have_attribute("data-answerable", "true")
        labeling.page.keyboard.press(key)
    expect(labeling.card).to_have_attribute("data-waiting", "")
    item = labeling.item
    for key in "ynsm":
        labeling.page.keyboard.press(key)
    assert labeling.item == item
    expect(labeling.card).to_have_attribute("data-saving", "2")


WATCH_REQUESTS = """() => {
  window.sent = [];
  let frames = 0; // begun since the last key press
  addEventListener("keydown", () => { frames = 0; requestAnimationFrame(() => { frames += 1; }); }, true);
  const ask = window.fetch;
  window.fetch = (place, options) => {
    if (options?.method === "POST") window.sent.push(frames);
    return ask(place, options);
  };
}"""
"""Notes at each request whether a frame has begun since the key press."""


def test_the_server_hears_of_an_answer_once_the_next_is_drawn(server: Server, labeling: Labeling) -> None:
    """Its work would delay the drawing."""
    for key in "ynn":
        labeling.press(key)
    labeling.page.evaluate(WATCH_REQUESTS)
    for key in "yn":
        labeling.wait_for_what_follows()
        labeling.press(key)
    assert labeling.page.evaluate("sent") == [1, 1]
    assert len(server.answers(labeling.session)) == 5
