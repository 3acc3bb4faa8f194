"""Let uploads begin while a page runs.

Before a browser uploads files, it asks the server for their addresses. When a run of the page begins,
Streamlit discards the messages that wait to be sent, and the answer may be among them. The browser then waits
forever, and the uploader seems to have ignored the files.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamlit.runtime.forward_msg_queue import ForwardMsgQueue


def keep_upload_addresses() -> None:
    """Make Streamlit keep the addresses of uploads when it discards the messages of an earlier run."""
    from streamlit.runtime.forward_msg_queue import ForwardMsgQueue

    discard = ForwardMsgQueue.clear
    if hasattr(discard, "__wrapped__"):
        return

    @wraps(discard)
    def clear(
        queue: ForwardMsgQueue,
        retain_lifecycle_msgs: bool = False,
        fragment_ids_this_run: list[str] | None = None,
    ) -> None:
        waiting = [message for message in queue._queue if message.WhichOneof("type") == "file_urls_response"]
        discard(queue, retain_lifecycle_msgs, fragment_ids_this_run)
        if retain_lifecycle_msgs:
            queue._queue.extend(message for message in waiting if message not in queue._queue)

    ForwardMsgQueue.clear = clear  # type: ignore[assignment, method-assign]
