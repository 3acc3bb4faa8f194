"""One of several servers of a project, without pages: it answers a browser's requests as JSON over HTTP.

``python -m tests.one_of_servers FOLDER`` prints its port once it serves.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from closecall.app.api.cards import submit
from closecall.app.sessions.registry import OpenProject
from closecall.storage import StorageError
from tests.projects import wait_for_index


def reply(project: OpenProject, asked: dict[str, Any]) -> dict[str, Any]:
    """What a browser needs of the card, after its answers were stored."""
    session = project.session(asked["session"], annotator=asked["annotator"])
    card = submit(session, asked["answers"])
    items = {word: view["item"] for word, view in card["next"].items()}
    return {
        "session": session.id,
        "acked": card["acked"],
        "refused": card["refused"],
        "item": _named(card["item"]),
        "next": {word: _named(item) for word, item in items.items()},
        "is_coming": card["next_is_coming"],
    }


def _named(item: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if item is None else {"id": item["id"], "selection": item["selection"]}


def main(folder: Path) -> None:
    """Serve until the process is killed."""
    project = OpenProject(folder, shared=True)
    wait_for_index(project, "margin-index")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                status, body = 200, reply(project, asked)
            except StorageError as error:
                status, body = 503, {"problem": str(error)}
            sent = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
