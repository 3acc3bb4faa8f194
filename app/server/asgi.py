"""Serve the pages with Streamlit's ASGI app, in this process, so that pages use the workspace directly."""

from __future__ import annotations

import contextlib
import errno
import logging
import re
import signal
import socket
import webbrowser
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

import click

from closecall.app.api.compare.race import find_race
from closecall.app.components import modules
from closecall.app.display.theme import CONFIG
from closecall.app.projects.oidc import SIGN_IN_DAYS, SignIn, secret_files
from closecall.app.runtime import collector
from closecall.app.runtime import event_log as events
from closecall.app.server.health import Health
from closecall.app.server.leaving import watch_signals
from closecall.app.server.origin_guard import OWN_NAMES, Guard
from closecall.app.server.proxy import BehindProxy
from closecall.app.server.startup_warnings import cautions, is_own_machine
from closecall.app.server.undelayed import send_at_once
from closecall.app.server.uploads import keep_upload_addresses
from closecall.core.errors import InputError

if TYPE_CHECKING:
    import streamlit as st
    from starlette.requests import Request
    from starlette.responses import Response

    from closecall.app.sessions.workspace import Workspace

MAIN = Path(__file__).parents[1] / "pages" / "main.py"
"""The main script. If it were beside the folder `pages`, Streamlit would add a navigation of its own."""

LARGEST_UPLOAD_MB = 20

LARGEST_MESSAGE_MB = 25
"""Maximum size of a message from a browser, in MB: enough for tens of thousands of queued answers."""

_health: Health | None = None


def project_path(key: str) -> str:
    """Return the URL path that opens the project with this key."""
    return f"?project={quote(key, safe='')}"


def project_in(path: str) -> str | None:
    """Return the project key in a path from `project_path`, or None for any other path."""
    return next(iter(parse_qs(path.partition("?")[2]).get("project", ())), None)


def require_free_port(host: str, port: int) -> None:
    """Check that the server can listen on `port` of `host`.

    Raises
    ------
    InputError
        If the server can't listen there, for example because another program listens there already.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise InputError(f"{host!r} is not an address of this machine: {error.strerror}") from None
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise InputError(_port_problem(host, port, error)) from None


@dataclass(frozen=True)
class Listening:
    """The address on which the server listens, and settings for the browsers that connect to it.

    Parameters
    ----------
    host : str
        Address to listen on.
    port : int
        Port to listen on.
    headless : bool
        If true, don't open a browser.
    allow_hosts : sequence of str
        Host names of proxies in front of the server.
    prefix : str
        The path below which a proxy offers the server, such as "/labels"; "" for the root.
    sign_in_days : int
        Number of days after which people must sign in again.
    """

    host: str
    port: int
    headless: bool = False
    allow_hosts: Sequence[str] = ()
    prefix: str = ""
    sign_in_days: int = SIGN_IN_DAYS


def serve(workspace: Workspace, way: Listening, *, path: str = "", sign_in: SignIn | None = None) -> None:
    """Serve the pages of `workspace` until the process is asked to stop.

    Parameters
    ----------
    workspace : Workspace
        The workspace, already entered with ``with``, so that `app.sessions.workspace.current` finds it.
    way : Listening
        Where the server listens.
    path : str
        URL path of the first page; see `project_path`.
    sign_in : SignIn or None
        How people sign in; None if they don't.
    """
    global _health
    signal.signal(signal.SIGTERM, _leave)
    _health = Health(workspace)
    workspace.landing, workspace.sign_in = project_in(path), sign_in
    here = address(way.host, way.port)
    url = (sign_in.home if sign_in else here) + path
    for caution in cautions(workspace, way.host):
        if events.is_on():
            events.emit("caution", logging.WARNING, message=caution)
        else:
            click.echo(f"Warning: {caution}", err=True)

    @contextlib.asynccontextmanager
    async def announce(_: st.App) -> AsyncIterator[None]:
        server = watch_signals()
        if server is not None:
            send_at_once(server)
        collector.settle()
        if way.prefix:
            offer_sign_in_below(way.prefix)
        if events.is_on():
            events.emit("serving", version=version("closecall"), address=url)
        else:
            click.echo(f"Closecall serves {workspace.served_folder} at {url}")
            if sign_in:
                click.echo(f"People sign in there; it listens at {here}")
            click.echo("Stop with Ctrl+C.")
        if not way.headless:
            webbrowser.open(url)
        yield

    sites = [*way.allow_hosts, *([sign_in.name] if sign_in else [])]
    names = {way.host, *OWN_NAMES} if way.allow_hosts or is_own_machine(way.host) else None
    keep_upload_addresses()
    app = build_app(announce, names, sites, prefix=way.prefix, sign_in_days=way.sign_in_days)
    app.run(config=server_config(way.host, way.port, sites))


def offer_sign_in_below(prefix: str) -> None:
    """Make Streamlit's redirections and cookies for signing in contain the prefix.

    Call this after Streamlit has made its routes. The routes must not contain the prefix, because
    `BehindProxy` removes the prefix from the paths of requests.
    """
    from streamlit import config

    config.set_option("server.baseUrlPath", prefix)


def build_app(
    lifespan: Any = None,
    names: Iterable[str] | None = None,
    sites: Iterable[str] = (),
    *,
    prefix: str = "",
    sign_in_days: int = SIGN_IN_DAYS,
) -> st.App:
    """Return the ASGI application: pages and their scripts, the HTTP API, images, ``/healthz`` and others.

    The application answers only requests for the host names in `names` and `sites`; see `Guard`. For `prefix`
    and `sign_in_days`, see `BehindProxy`.
    """
    import streamlit as st
    from starlette.middleware import Middleware
    from starlette.routing import Mount, Route

    from closecall.app.pages.problems import on_script_error
    from closecall.app.server import images, start_page
    from closecall.app.server import map as map_routes
    from closecall.app.server.http import ROOT, build_api

    routes = [
        Mount(ROOT, build_api()),
        Route("/healthz", _healthz),
        Route("/race", _race),
        *map_routes.routes(),
        *images.routes(),
        *start_page.routes(prefix),
        Route(f"/{modules.ROOT}/{{digest}}/{{name:path}}", _module),
    ]
    middleware = [
        Middleware(BehindProxy, prefix=prefix, sign_in_days=sign_in_days),
        Middleware(Guard, names=names, sites=sites),
    ]
    if events.is_on():
        middleware.insert(0, Middleware(events.Requests))
    return st.App(
        MAIN, lifespan=lifespan, routes=routes, middleware=middleware, on_script_error=on_script_error
    )


def server_config(host: str, port: int, sites: Iterable[str] = ()) -> Mapping[str, Any]:
    """Return Streamlit's options for serving on `host` and `port`.

    These options override configuration files and environment variables. `sites` are the host names of
    proxies.
    """
    return {
        **CONFIG,
        "server.address": host,
        "server.port": port,
        "server.headless": True,
        "server.fileWatcherType": "none",
        "server.maxUploadSize": LARGEST_UPLOAD_MB,
        "server.maxWidgetStateSize": LARGEST_MESSAGE_MB,
        "server.enableCORS": True,
        "server.corsAllowedOrigins": [f"{scheme}://{site}" for site in sites for scheme in ("https", "http")],
        "server.enableXsrfProtection": True,
        "server.enableStaticServing": False,
        "server.enableAgentApi": False,
        "server.trustedUserHeaders": "{}",
        "client.allowedOrigins": [],
        "secrets.files": [str(path) for path in secret_files()],
        "browser.gatherUsageStats": False,
        "client.showErrorDetails": "type",
        "global.disableWidgetStateDuplicationWarning": True,  # see `app.pages.state.show_value`
        "client.showErrorLinks": False,
        "logger.hideWelcomeMessage": True,
        "logger.enableRich": False,  # writes past the log
        "runner.magicEnabled": False,
        # Collecting garbage after each run takes long in a large process, and Python collects it anyway.
        "runner.postScriptGC": False,
    }


def address(host: str, port: int) -> str:
    """Return the pages' address for a browser on this machine."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}/"


def _leave(*_: object) -> None:
    """Leave `serve` as Ctrl+C does, so that the caller of `serve` can close projects and builders."""
    raise KeyboardInterrupt


async def _healthz(_: Request) -> Response:
    """Report whether labels can be stored: with status 200, or 503 and the kind of problem."""
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse

    found = await run_in_threadpool(_health.look) if _health else {"status": "starting"}
    status = 200 if found["status"] == "ok" else 503
    return JSONResponse(found, status, headers={"Cache-Control": "no-store"})


async def _race(request: Request) -> Response:
    """Return the rounds of a race that the browser does not have yet, without a slow rerun of the page."""
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse

    asked = request.query_params
    race, since = find_race(asked.get("race", "")), asked.get("since", "")
    if race is None or not re.fullmatch(r"[0-9]{1,9}", since):
        return JSONResponse({"problem": "There is no such race"}, status_code=404)
    new = await run_in_threadpool(race.since, int(since), pictures="pictures" in asked)
    return JSONResponse(new, headers={"Cache-Control": "no-store"})


async def _module(request: Request) -> Response:
    """Return one of the pages' JavaScript modules, which browsers may cache forever."""
    from starlette.responses import PlainTextResponse, Response

    asked = request.path_params
    content = modules.contents().get(asked["name"])
    if content is None or asked["digest"] != modules.digest():
        return PlainTextResponse("There is no such module", status_code=404)
    for_good = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(content, media_type="text/javascript", headers=for_good)


def _port_problem(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} on {host} is in use: stop the program that has it, or choose another with --port"
    if error.errno == errno.EACCES:
        return f"Port {port} on {host} needs rights that you do not have: choose one above 1023 with --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine: choose another with --host"
    return f"Port {port} on {host} cannot be listened on: {error.strerror}"
