"""Send every part of a response at once.

By default, TCP delays a small packet until the receiver has acknowledged those before it (Nagle's
algorithm), and receivers delay their acknowledgement by up to 40 ms. asyncio turns this off for connections
that it recognizes as TCP. But Streamlit opens the server's socket without naming the protocol, so asyncio
does not recognize its connections, and the end of many responses would come 40 ms late.
"""

from __future__ import annotations

import asyncio
import socket

import uvicorn


def send_at_once(server: uvicorn.Server) -> None:
    """Turn the delay off for all later connections of a server."""
    given = server.config.http_protocol_class

    class Undelayed(given):  # type: ignore[valid-type, misc]
        """The server's protocol, on a connection without the delay."""

        def connection_made(self, transport: asyncio.Transport) -> None:
            connection = transport.get_extra_info("socket")
            if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            super().connection_made(transport)

    server.config.http_protocol_class = Undelayed
