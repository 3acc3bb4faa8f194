from __future__ import annotations

import gc
import weakref

import pytest

from closecall.core.errors import InputError
from closecall.core.onnx.kept import Kept
from closecall.core.sources.base import UnreadableImageError


class Held:
    """An object that a caller uses, such as a session."""


class ClingingError(UnreadableImageError):
    """An error whose copies keep everything, as Dask makes all errors do while it is loaded."""

    def __copy__(self) -> ClingingError:
        own = ClingingError(*self.args).with_traceback(self.__traceback__)
        own.__cause__, own.__context__ = self.__cause__, self.__context__
        return own


@pytest.mark.parametrize("kind", [UnreadableImageError, ClingingError])
def test_a_cached_error_keeps_nothing_of_its_callers(kind):
    """It is raised with the same words for each of them, and loaded once."""
    kept, loads = Kept[int](2), []

    def load() -> int:
        loads.append(1)
        try:
            raise OSError
        except OSError as error:
            raise kind("no model") from error

    def ask() -> weakref.ref[Held]:
        held = Held()
        with pytest.raises(UnreadableImageError, match=r"^no model$"):
            kept.get("a", load)
        return weakref.ref(held)

    held = [ask() for _ in range(3)]
    gc.collect()
    assert [one() for one in held] == [None] * 3
    assert len(loads) == 1


def test_another_error_is_not_cached():
    kept = Kept[int](2)
    with pytest.raises(MemoryError):
        kept.get("a", lambda: (_ for _ in ()).throw(MemoryError))
    assert kept.get("a", lambda: 7) == kept.get("a", lambda: pytest.fail("loaded again")) == 7
    assert issubclass(UnreadableImageError, InputError)
