"""An upload that begins just before the page runs gets its addresses."""

from __future__ import annotations

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue

from closecall.app.server.uploads import keep_upload_addresses


def answered() -> ForwardMsg:
    """The message that tells a browser where to send a file."""
    message = ForwardMsg()
    message.file_urls_response.response_id = "asked"
    message.file_urls_response.file_urls.add(file_id="1", upload_url="/there")
    return message


def drawn(fragment: str = "") -> ForwardMsg:
    """A part of a page."""
    message = ForwardMsg()
    message.metadata.delta_path[:] = [0, 1]
    message.delta.new_element.markdown.body = "old"
    message.delta.fragment_id = fragment
    return message


@pytest.fixture
def keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ForwardMsgQueue, "clear", ForwardMsgQueue.clear)  # restored after the test
    keep_upload_addresses()
    keep_upload_addresses()


def left(fragments: list[str] | None, *, retained: bool = True) -> list[ForwardMsg]:
    """What is still to be sent when a run of the page, or of these fragments, has begun."""
    queue = ForwardMsgQueue()
    for message in (drawn("a"), answered()):
        queue.enqueue(message)
    queue.clear(retained, fragments)
    return queue.flush()


def test_streamlit_forgets_the_addresses_of_uploads() -> None:
    """If it no longer does, `keep_upload_addresses` may go."""
    assert left(None) == []


@pytest.mark.usefixtures("keeping")
def test_addresses_stay_where_the_parts_of_an_earlier_run_go() -> None:
    """Once, also where Streamlit itself keeps them: when a fragment runs."""
    assert left(None) == [answered()]
    assert left(["a"]) == [answered()]
    assert left(["b"]) == [drawn("a"), answered()]


@pytest.mark.usefixtures("keeping")
def test_what_was_sent_is_not_sent_again() -> None:
    """Neither addresses nor parts."""
    assert left(None, retained=False) == []
    queue = ForwardMsgQueue()
    queue.enqueue(answered())
    assert queue.flush() == [answered()]
    queue.clear(retain_lifecycle_msgs=True)
    assert queue.flush() == []
