"""A server whose application waits for the whole body of each request; it stops as the real one does."""

from __future__ import annotations

import asyncio
import sys

import uvicorn

from closecall.app.server import leaving


async def application(scope, receive, send) -> None:
    if scope["type"] == "lifespan":
        await receive()
        leaving.watch_signals()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        print("the application has ended", flush=True)
        await send({"type": "lifespan.shutdown.complete"})
        return
    print((await receive())["body"].decode(), flush=True)
    while not leaving.is_leaving():
        await asyncio.sleep(0.02)
    print("asked to stop", flush=True)
    await receive()


if __name__ == "__main__":
    leaving.PATIENCE_SECONDS = 1
    try:
        uvicorn.run(application, port=int(sys.argv[1]), log_level="critical")
    except KeyboardInterrupt:
        print(end="")
