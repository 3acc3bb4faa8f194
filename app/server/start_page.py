"""The start page below a prefix.

The script of a page looks for the server at the page's own path and one level above it, and shows the last
response. From the start page of the prefix ``/labels``, it would also look at the root of the host, where the
proxy may offer other programs. Their responses would hide that a proxy does not pass on WebSockets (see
`app.server.proxy`). Here, the start page looks for the server only below the prefix.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

SCRIPT = """<script>
  {
    const request = window.fetch;
    window.fetch = (address, ...options) => {
      const { pathname } = new URL(address, location);
      return request(pathname.startsWith("/_stcore/") ? PREFIX + pathname : address, ...options);
    };
  }
</script>
"""


def routes(prefix: str) -> list[Route]:
    """Return the route of the start page below `prefix`; none for the prefix ""."""
    from starlette.responses import HTMLResponse
    from starlette.routing import Route

    if not prefix:
        return []
    from streamlit import file_util

    html = (Path(file_util.get_static_dir()) / "index.html").read_text("utf-8")
    script = SCRIPT.replace("PREFIX", json.dumps(prefix))
    page = html.replace("<head>", f"<head>{script}", 1)

    async def show(_: Request) -> Response:
        return HTMLResponse(page, headers={"Cache-Control": "no-cache"})

    return [Route("/", show)]
