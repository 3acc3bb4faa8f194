"""Statements compiled once for all databases of a process: the tests open thousands of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from sqlalchemy import Engine, create_engine
from sqlalchemy.util import LRUCache

from closecall.storage import postgres, sqlite


class Statements(LRUCache[Any, Any]):
    """Compiled statements of all databases of one kind: their dialects are alike."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get((type(key[0]), *key[1:]), default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__((type(key[0]), *key[1:]), value)


@contextmanager
def compiled_once() -> Iterator[None]:
    """Let all databases that are opened inside share their statements."""
    statements = Statements(2000)

    def create(*args: Any, **kwargs: Any) -> Engine:
        engine = create_engine(*args, **kwargs)
        engine._compiled_cache = statements
        return engine

    with ExitStack() as patched:
        for module in (sqlite, postgres):
            patched.enter_context(mock.patch.object(module, "create_engine", create))
        yield
