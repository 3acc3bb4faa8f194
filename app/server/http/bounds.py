"""ASGI middleware that refuses bodies that are too large, before they are in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from closecall.app.server.http.problems import respond

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 25 * 1024 * 1024
"""Maximum size of a request's body: enough for tens of thousands of queued answers."""


class Bounds:
    """Middleware that responds with status 413 to a request whose body has more than `MOST_BYTES` bytes.

    Parameters
    ----------
    app : ASGI application
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection; see the ASGI specification."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        received, is_over, has_begun = 0, False, False

        async def bounded() -> Message:
            nonlocal received, is_over
            message = await receive()
            received += len(message.get("body", b""))
            if received > MOST_BYTES:
                is_over = True
                return {"type": "http.disconnect"}
            return message

        async def sending(message: Message) -> None:
            nonlocal has_begun
            if not is_over:
                has_begun = True
                await send(message)

        length = dict(scope["headers"]).get(b"content-length", b"0")
        if length.isdigit() and int(length) > MOST_BYTES:
            is_over = True
        else:
            try:
                await self._app(scope, bounded, sending)
            except Exception:
                if not is_over:
                    raise
        if is_over and not has_begun:
            sentence = f"A request may have {MOST_BYTES:,} bytes at most: send less at once"
            await respond(413, sentence)(scope, receive, send)
        return None
