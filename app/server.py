"""Serves the pages: Streamlit's ASGI app inside this process, so that the workspace is a plain object."""

from __future__ import annotations

import contextlib
import errno
import json
import signal
import socket
import webbrowser
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import click

from app.theme import CONFIG
from core.errors import InputError

if TYPE_CHECKING:
    import streamlit as st
    from starlette.requests import Request
    from starlette.responses import Response

    from app.workspace import Workspace

MAIN = Path(__file__).parent / "pages" / "main.py"
"""Lies among the pages: beside a folder of that name Streamlit would take them for pages of its own kind."""

LARGEST_UPLOAD_MB = 20

_landing: str | None = None


def landing() -> str | None:
    """Key of the project that an address without a project means; None for the list of projects."""
    return _landing


def require_free_port(host: str, port: int) -> None:
    """Make sure that `port` on `host` can be listened on.

    Raises
    ------
    InputError
        If another program listens there, or if the address is none of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise InputError(f"{host!r} is no address of this machine: {error.strerror}") from None
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise InputError(_port_problem(host, port, error)) from None


def serve(workspace: Workspace, *, host: str, port: int, headless: bool, path: str = "") -> None:
    """Serve the pages of `workspace` until the process is told to stop.

    Parameters
    ----------
    workspace : Workspace
        What the pages show; already entered, so that `app.workspace.current` finds it.
    host : str
        Address to listen on.
    port : int
        Port to listen on.
    headless : bool
        Open no browser.
    path : str
        What stands behind the address; ``?project=KEY`` makes that project the first page.
    """
    global _landing
    signal.signal(signal.SIGTERM, _leave)
    _landing = next(iter(parse_qs(path.partition("?")[2]).get("project", ())), None)
    url = address(host, port) + path

    @contextlib.asynccontextmanager
    async def announce(_: st.App) -> AsyncIterator[None]:
        click.echo(f"Marginalia serves {workspace.folder} at {url}")
        click.echo("Stop with Ctrl+C.")
        if not headless:
            webbrowser.open(url)
        yield

    build_app(announce).run(config=server_config(host, port))


def build_app(lifespan: Any = None) -> st.App:
    """The ASGI application: the pages, and ``/healthz`` for whoever watches the server."""
    import streamlit as st
    from starlette.routing import Route

    return st.App(MAIN, lifespan=lifespan, routes=[Route("/healthz", _healthz)])


def server_config(host: str, port: int) -> Mapping[str, Any]:
    """Streamlit's options for serving on `host` and `port`; they outrank files and environment."""
    return {
        **CONFIG,
        "server.address": host,
        "server.port": port,
        "server.headless": True,
        "server.fileWatcherType": "none",
        "server.maxUploadSize": LARGEST_UPLOAD_MB,
        "browser.gatherUsageStats": False,
        "client.showErrorDetails": "type",
        "client.showErrorLinks": False,
        "logger.hideWelcomeMessage": True,
        "runner.magicEnabled": False,
    }


def address(host: str, port: int) -> str:
    """The page's address for a browser on this machine."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}/"


def _leave(*_: object) -> None:
    """End as after Ctrl+C: by leaving `serve`, so that whoever called it closes its projects and builders."""
    raise KeyboardInterrupt


async def _healthz(_: Request) -> Response:
    from starlette.responses import Response

    return Response(json.dumps({"status": "ok"}), media_type="application/json")


def _port_problem(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} on {host} is in use: stop the program that has it, or choose another with --port"
    if error.errno == errno.EACCES:
        return f"Port {port} on {host} needs rights that you do not have: choose one above 1023 with --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine: choose another with --host"
    return f"Port {port} on {host} cannot be listened on: {error.strerror}"
