from __future__ import annotations

import gc
import weakref

import pytest

from closecall.core.errors import InputError
from closecall.core.onnx.kept import Kept
from closecall.core.sources.base import UnreadableImageError
from tests.waiting import until


class Held:
    """An object that a caller uses, such as a session."""


def test_a_cached_error_keeps_nothing_of_its_callers():
    """It is raised with the same words for each of them, and loaded once."""
    kept, loads = Kept[int](2), []

    def load() -> int:
        loads.append(1)
        raise UnreadableImageError("no model")

    def ask() -> weakref.ref[Held]:
        held = Held()
        with pytest.raises(UnreadableImageError, match=r"^no model$"):
            kept.get("a", load)
        return weakref.ref(held)

    held = [ask() for _ in range(3)]

    def are_gone() -> bool:
        gc.collect()
        return [one() for one in held] == [None] * 3

    until(are_gone)  # a thread of another test may hold this one's frame for a moment
    assert len(loads) == 1


def test_another_error_is_not_cached():
    kept = Kept[int](2)
    with pytest.raises(MemoryError):
        kept.get("a", lambda: (_ for _ in ()).throw(MemoryError))
    assert kept.get("a", lambda: 7) == kept.get("a", lambda: pytest.fail("loaded again")) == 7
    assert issubclass(UnreadableImageError, InputError)
