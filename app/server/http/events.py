"""The route of server-sent events: what changed elsewhere."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(tags=["events"])
