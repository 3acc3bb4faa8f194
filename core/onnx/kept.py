"""A cache for objects that are slow to load."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from copy import copy
from typing import Any, Generic, TypeVar

from closecall.core.errors import InputError

T = TypeVar("T")


class Kept(Generic[T]):
    """Cache that keeps the most recently used objects. An InputError is cached, too.

    Threads that need the same object wait for a single load. Loads of different objects run concurrently.

    Parameters
    ----------
    most : int
        Maximum number of objects in the cache.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._results: OrderedDict[Any, Future[T]] = OrderedDict()

    def get(self, key: Any, load: Callable[[], T]) -> T:
        """Return the object for a key. Call `load` unless the object is cached or is already being loaded."""
        with self._lock:
            result = self._results.get(key)
            is_new = result is None
            if result is None:
                result = self._results[key] = Future()
                while len(self._results) > self._most:
                    self._results.popitem(last=False)
            self._results.move_to_end(key)
        if is_new:
            try:
                result.set_result(load())
            except InputError as error:
                result.set_exception(_alone(error))
            except BaseException as error:
                with self._lock:  # the next call tries again
                    self._results.pop(key, None)
                result.set_exception(error)
                raise
        failure = result.exception()
        if isinstance(failure, InputError):
            raise _alone(failure)
        return result.result()


def _alone(error: InputError) -> InputError:
    """Return a copy without the traceback, which would keep the objects of the error's callers alive."""
    own = copy(error).with_traceback(None)  # libraries may make copies keep it, as tblib does for Dask
    own.__cause__ = own.__context__ = None
    return own
