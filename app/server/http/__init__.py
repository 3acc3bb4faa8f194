"""The HTTP API under ``/api/v1``, for the labeling pages and for programs.

The routes check who asks, and call functions that take and return JSON: those of `app.api`, and those of
`app.exchange`. FastAPI makes the OpenAPI document from the routes.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI

ROOT = "/api/v1"
"""First part of the address of each route."""


def build_api() -> FastAPI:
    """Return the application with all routes; it is mounted at `ROOT`."""
    from fastapi import FastAPI

    from closecall.app.server.http import (
        concepts,
        events,
        exchange,
        items,
        labeling,
        problems,
        projects,
        webhooks,
    )
    from closecall.app.server.http.bounds import Bounds

    api = FastAPI(
        title="Closecall",
        version=version("closecall"),
        description="Label items, read labels, and add labels and predictions, while the project is served.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        servers=[{"url": ROOT}],
        responses=problems.RESPONSES,
    )
    problems.handle(api)
    for room in (projects, labeling, concepts, exchange, items, webhooks, events):
        api.include_router(room.router)
    api.add_middleware(Bounds)
    return api
