"""A real Label Studio for the tests; ``python -m tests.peers.label_studio`` installs one where there is none.

It has a virtual environment of its own, because it needs other versions of many packages.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.browser.served import free_port
from tests.folders import ROOT, fresh_folder
from tests.peers.program import Program

VERSION = "1.23.2"
HOME = ROOT / "build" / "label-studio"
"""The virtual environment that `install` makes."""

PASSWORD = "of-some-length"
TOKEN = "0123456789abcdef0123456789abcdef01234567"
START_SECONDS = 900


def install() -> None:
    """Install Label Studio into `HOME`, which takes about a gigabyte."""
    venv.create(HOME, with_pip=True)
    pip = [HOME / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"label-studio=={VERSION}"], check=True)


PROGRAM = Program(
    "Label Studio",
    "LABEL_STUDIO",
    (str(HOME / "bin" / "label-studio"), "label-studio"),
    "label-studio",
    install,
)


@dataclass
class User:
    """Somebody who is signed in, by a token or by a form."""

    address: str
    headers: dict[str, str] = field(default_factory=dict)
    cookies: CookieJar = field(default_factory=CookieJar)

    def raw(self, method: str, path: str, body: bytes | None = None, **headers: str) -> bytes:
        """The content of the answer to a request."""
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))
        csrf = next((cookie.value for cookie in self.cookies if cookie.name == "csrftoken"), None)
        sent = {**self.headers, "Referer": self.address, **({"X-CSRFToken": csrf} if csrf else {}), **headers}
        request = urllib.request.Request(self.address + path, body, sent, method=method)
        try:
            with opener.open(request, timeout=120) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read()[:2_000]!r}") from None

    def call(self, method: str, path: str, given: object = None) -> Any:
        """The JSON that answers a request with JSON."""
        body = None if given is None else json.dumps(given).encode()
        answer = self.raw(method, path, body, **({"Content-Type": "application/json"} if body else {}))
        return json.loads(answer) if answer else None


@dataclass
class Server:
    """A running Label Studio, and its first user."""

    address: str
    documents: Path
    admin: User

    def new_user(self, email: str) -> tuple[User, int]:
        """Sign somebody up, and return them with their number."""
        token = self.admin.call("GET", "/api/invite")["token"]
        user, form = User(self.address), f"/user/signup/?token={token}"
        field_of = re.search(rb'name="csrfmiddlewaretoken" value="([^"]+)"', user.raw("GET", form))
        assert field_of is not None
        given = {"csrfmiddlewaretoken": field_of[1].decode(), "email": email, "password": PASSWORD}
        user.raw("POST", form, urlencode(given | {"allow_newsletters": "false"}).encode())
        return user, int(user.call("GET", "/api/current-user/whoami")["id"])

    def new_project(self, interface: str, tasks: list[dict[str, Any]], folder: Path | None = None) -> int:
        """Make a project with these tasks, and with a storage for the images in a folder."""
        made = self.admin.call("POST", "/api/projects", {"title": "a trial", "label_config": interface})
        if folder is not None:
            storage = {"project": made["id"], "title": "images", "path": str(folder), "use_blob_urls": True}
            self.admin.call("POST", "/api/storages/localfiles", storage)
        self.admin.call("POST", f"/api/projects/{made['id']}/import", tasks)
        return int(made["id"])

    def tasks(self, project: int) -> dict[int, dict[str, Any]]:
        """The tasks of a project by their items, each with its annotations in order."""
        found = self.admin.call("GET", f"/api/tasks?project={project}&fields=all&page_size=1000")["tasks"]
        for task in found:
            task["annotations"].sort(key=lambda annotation: annotation["id"])
        return {task["data"]["item"]: task for task in found}

    def exported(self, project: int, kind: str = "JSON", *, all_tasks: bool = True) -> bytes:
        """A project's export, as the button there makes it, or with all tasks."""
        more = "&download_all_tasks=true" if all_tasks else ""
        return self.admin.raw("GET", f"/api/projects/{project}/export?exportType={kind}{more}")


@contextmanager
def running(program: Path) -> Iterator[Server]:
    """Start Label Studio on a database of its own, which takes a minute or more."""
    folder, port = fresh_folder(), free_port()
    documents = folder / "documents"
    documents.mkdir()
    address = f"http://127.0.0.1:{port}"
    settings = {
        "LABEL_STUDIO_BASE_DATA_DIR": str(folder / "data"),
        "LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED": "true",
        "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT": str(documents),
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        "COLLECT_ANALYTICS": "false",
        "LATEST_VERSION_CHECK": "false",
        "SENTRY_DSN": "",
        "FRONTEND_SENTRY_DSN": "",
    }
    first = ["--username", "owner@example.org", "--password", PASSWORD, "--user-token", TOKEN]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "start", "--no-browser", "--port", str(port), *first],
            env=os.environ | settings,
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        admin = User(address, {"Authorization": f"Token {TOKEN}"})
        deadline = time.monotonic() + START_SECONDS
        while not _answers(address):
            assert process.poll() is None, (folder / "log").read_text()[-3_000:]
            assert time.monotonic() < deadline, "Label Studio does not start"
            time.sleep(1)
        yield Server(address, documents, admin)
    finally:
        process.terminate()
        process.wait()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    PROGRAM.provide()
