"""News reaches those who want it, and nobody's error keeps it from others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from closecall.app.runtime.news import News


def test_subscribers_get_what_is_published_until_they_end_it(caplog: pytest.LogCaptureFixture) -> None:
    """In order; a subscriber that fails is logged, and the others go on."""
    news, heard = News(), []

    def fail(kind: str, data: Mapping[str, Any]) -> None:
        raise ValueError(kind, data)

    news.subscribe(fail)
    end = news.subscribe(lambda kind, data: heard.append((kind, dict(data))))
    news.publish("pool", items=3, is_complete=False)
    news.publish("closed")
    end()
    end()
    news.publish("closed")
    assert heard == [("pool", {"items": 3, "is_complete": False}), ("closed", {})]
    assert len(caplog.records) == 3


def test_a_subscriber_may_subscribe_and_end_while_it_is_called() -> None:
    """No lock is held meanwhile."""
    news, heard = News(), []

    def once(kind: str, _: Mapping[str, Any]) -> None:
        end()
        news.subscribe(lambda kind, _: heard.append(f"later {kind}"))
        heard.append(kind)

    end = news.subscribe(once)
    news.publish("pool")
    news.publish("index")
    assert heard == ["pool", "later index"]
