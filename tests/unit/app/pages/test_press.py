"""Buttons that create something: a double click creates it once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from closecall.app.pages import press
from closecall.app.pages.press import Press


def test_the_second_press_of_a_double_click_gets_what_the_first_made() -> None:
    """Even if it comes while the first is at work, in another thread."""
    last, begun, go_on, made = Press[int](), threading.Event(), threading.Event(), []

    def make() -> int:
        begun.set()
        assert go_on.wait(30)
        made.append(len(made))
        return made[-1]

    with ThreadPoolExecutor() as threads:
        first = threads.submit(last.once, "words", make)
        assert begun.wait(30)
        second = threads.submit(last.once, "words", make)
        go_on.set()
        assert (first.result(), second.result()) == (0, 0)
    assert last.is_recent
    assert last.once("other words", make) == 1


def test_a_press_that_failed_or_is_long_past_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is another press."""
    last = Press[str]()
    with pytest.raises(ZeroDivisionError):
        last.once("words", lambda: str(1 / 0))
    assert last.once("words", lambda: "made") == "made"
    monkeypatch.setattr(press, "AGAIN_SECONDS", 0.0)
    assert last.once("words", lambda: "made again") == "made again"
