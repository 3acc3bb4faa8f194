"""A server of S3's protocol on 127.0.0.1 that is slow, cuts responses, and refuses as the tests ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

SECRET = "s3cr3t"


class Storage:
    """An application of moto.

    Attributes
    ----------
    faults : dict
        What happens to a path, as with `tests.web_kit.Server`: 200, 403, or "cut" after half of the response.
    asked : list of str
        The paths asked for.
    delay : float
        Seconds before each response.
    """

    def __init__(self) -> None:
        self._app = _application()
        self.faults: dict[str, list[int | str]] = {}
        self.asked: list[str] = []
        self.delay = 0.0
        self.lock = threading.Lock()
        self.address = ""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"].encode("latin-1").decode()  # WSGI has each byte as a character
        with self.lock:
            self.asked.append(path)
            faults = self.faults.get(path, [200])
            fault = faults.pop(0) if len(faults) > 1 else faults[0]
        time.sleep(self.delay)
        if fault == 403:
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>AccessDenied</Code></Error>"]
        body = self._app(environ, start_response)
        if fault != "cut":
            return body
        whole = b"".join(body)
        return [whole[: len(whole) // 2]]  # less than the header promises


def _application() -> Any:
    server = pytest.importorskip("moto.moto_server.werkzeug_app")
    return server.DomainDispatcherApplication(server.create_backend_app)


@contextmanager
def serving_storage() -> Iterator[Storage]:
    """A server without buckets, in a thread."""
    storage = Storage()
    serving = pytest.importorskip("werkzeug.serving")
    handler = pytest.importorskip("moto.moto_server.werkzeug_app").MotoRequestHandler
    server = serving.make_server("127.0.0.1", 0, storage, threaded=True, request_handler=handler)
    storage.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield storage
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def client(address: str, patch: pytest.MonkeyPatch) -> Any:
    """A client of a server; the environment gets what a client needs."""
    for name, value in {
        "NO_PROXY": "*",
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        patch.setenv(name, value)
    return pytest.importorskip("boto3").client("s3")
