"""Closecall behind Caddy and nginx as documented, over HTTPS, with sign-in, at the root and below a path."""

from __future__ import annotations

import csv
import io
import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from PIL import Image
from playwright.sync_api import Browser, Cookie, Page, Response, expect

from closecall.app.server.proxy import HEALTH, WITHOUT_UPGRADE
from tests import postgres, proxies
from tests.browser.alike import Alike
from tests.browser.labeling import Labeling
from tests.browser.served import Server, free_port, make_demo
from tests.browser.test_owners_trial import N_IMAGES, closecall, draw_leaves
from tests.openid import Account, serving
from tests.scale import thorough
from tests.waiting import until

SEVERAL = re.compile(r"[3-9]|\d\d+")

ADA = Account("ada@example.org", "Ada Lovelace")

WAYS = [
    ("nginx", "removed"),
    thorough(("nginx", "kept")),
    thorough(("nginx", "root")),
    thorough(("caddy", "removed")),
    thorough(("caddy", "kept")),
    thorough(("caddy", "root")),
]


@dataclass
class Behind(Server):
    """A server for people who have signed in, below a path."""

    prefix: str = ""

    def command(self) -> list[str]:
        below = ["--prefix", self.prefix] if self.prefix else []
        return ["serve", str(self.data), "--owner", ADA.email, *below, "--headless", "--port", str(self.port)]

    def is_ready(self) -> bool:
        return self.answers_health()


class Sharing(Server):
    """One of several servers of a project."""

    key = "herbarium"

    def command(self) -> list[str]:
        project = str(self.data / self.key)
        return ["serve", project, "--shared", "--headless", "--port", str(self.port)]


@contextmanager
def offered(
    name: proxies.Name, way: proxies.Way, like: Server, folder: Path, *, upgrade: bool = True
) -> Iterator[tuple[Behind, str]]:
    """A server with a copy of another's project, and the address at which a proxy offers it."""
    require(name)
    port, prefix = free_port(), proxies.prefix_of(way)
    address = f"https://localhost:{port}{prefix}"
    make_demo(folder / "projects", like)
    (folder / ".streamlit").mkdir()
    with pytest.MonkeyPatch.context() as patch, serving([ADA], [f"{address}/oauth2callback"]) as provider:
        (folder / ".streamlit" / "secrets.toml").write_text(provider.secrets_toml(), "utf-8")
        patch.setenv("HOME", str(folder))
        made = Behind(folder / "projects", items=like.items, port=free_port(), prefix=prefix)
        made.start()
        try:
            with proxies.running(name, way, port, made.port, folder, upgrade=upgrade):
                yield made, address
        finally:
            made.stop()


def require(name: proxies.Name) -> None:
    if proxies.find(name) is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{name} is not installed")
        pytest.skip(f"{name} {proxies.NOT_THERE}")


@pytest.fixture(params=WAYS, ids="-".join)
def behind(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Iterator[tuple[Behind, str]]:
    """The server, and the address at which the proxy offers it."""
    with offered(*request.param, server, tmp_path) as made:
        yield made


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    made = browser.new_context(viewport={"width": 1440, "height": 900}, ignore_https_errors=True)
    yield made.new_page()
    made.close()


def test_all_that_a_page_needs_passes_a_proxy(behind: tuple[Behind, str], page: Page, tmp_path: Path) -> None:
    """A deep link through the sign-in, labels, a reload, a race, an upload; no request fails."""
    server, address = behind
    responses: list[Response] = []
    page.on("response", lambda response: responses.append(response))

    page.goto(f"{address}/progress?project=digits")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name=ADA.name, exact=True).click()
    page.wait_for_url(f"{address}/progress?project=digits**", timeout=30_000)
    expect(page.get_by_test_id("stTopNav").get_by_role("link", name=ADA.name)).to_be_visible(timeout=30_000)

    labeling = Labeling(page, f"{address}/?project=digits&session=new")
    given = ["yes", "no", "yes", "no", "no"]
    for answer in given:
        labeling.press(answer[0])
    assert [row["answer"] for row in server.answers(labeling.session)] == given
    assert sum(is_of_a_card(response) for response in responses) >= len(given)
    item, session = labeling.item, labeling.session
    page.reload()
    labeling.wait()
    assert (labeling.item, labeling.session) == (item, session)

    page.goto(f"{address}/compare?project=digits&session={session}&view=race")
    expect(page.locator(".card.race[data-state=shown]")).to_be_visible(timeout=60_000)
    page.keyboard.press(" ")
    expect(page.locator(".card.race")).to_have_attribute("data-rounds", SEVERAL, timeout=60_000)

    (tmp_path / "sent").mkdir()
    Image.effect_noise((900, 700), 60).save(file := tmp_path / "sent" / "noise.png")
    assert file.stat().st_size > 1 << 18  # more than nginx takes at once
    Alike(page, f"{address}/similar?project=digits&session={session}").upload(file)

    cookies = page.context.cookies()
    page.goto(f"{address}/sign-in")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible(timeout=30_000)
    assert page.url.startswith(f"{address}/")

    failed = [response for response in responses if response.status >= 400 and not is_probe(response)]
    assert list(map(told, failed)) == []
    assert [cookie["name"] for cookie in cookies if not cookie["secure"]] == []
    assert any(map(is_of_sign_in, cookies))
    until(lambda: not any(map(is_of_sign_in, page.context.cookies())))


@pytest.mark.parametrize("way", ["removed", thorough("kept"), thorough("root")])
def test_a_page_says_that_nginx_passes_on_no_websockets(
    way: proxies.Way, server: Server, page: Page, tmp_path: Path
) -> None:
    """Whichever page it is, and for as long as it looks for the server."""
    with offered("nginx", way, server, tmp_path, upgrade=False) as (_, address):
        for path in ("/", "/progress"):
            page.goto(f"{address}{path}?project=digits")
            said = page.get_by_role("dialog")
            expect(said).to_contain_text(WITHOUT_UPGRADE, timeout=60_000)
            for _ in range(3):
                with page.expect_response(lambda response: urlsplit(response.url).path.endswith(HEALTH)):
                    pass
                assert WITHOUT_UPGRADE in " ".join(said.inner_text().split())


def server_of_stranger(port: int) -> str:
    """Caddy's cookie with the server that it chose for a browser without this cookie."""
    anybody = ssl._create_unverified_context()
    with urlopen(f"https://localhost:{port}/healthz", context=anybody) as reply:
        return str(reply.headers["Set-Cookie"]).partition(";")[0]


@pytest.mark.thorough
@pytest.mark.skipif(postgres.find() is None, reason=postgres.NOT_RUN)
def test_a_session_goes_on_when_one_of_several_servers_is_killed(page: Page, tmp_path: Path) -> None:
    """Behind Caddy as documented, whichever server has it; no answer is lost or stored twice."""
    require("caddy")
    draw_leaves(tmp_path / "pictures")
    data, port, given = tmp_path / "projects", free_port(), list[tuple[str, str]]()
    project = str(data / Sharing.key)
    with postgres.running() as database:
        asked = ["--question", "Is it a leaf?", "--database", database.address]
        closecall("new", project, "--images", str(tmp_path / "pictures"), *asked)
        one, two = (Sharing(data, items=N_IMAGES, port=free_port()) for _ in range(2))
        one.start()
        two.start()
        try:
            with proxies.balancing(port, (one.port, two.port), tmp_path):
                labeling = Labeling(page, f"https://localhost:{port}/?project={Sharing.key}&session=new")

                def press(key: str, answer: str) -> None:
                    given.append((str(labeling.item), answer))
                    labeling.press(key)

                for killed in (one, two):
                    press("y", "yes")
                    press("n", "no")
                    killed.kill()
                    press("s", "skip")
                    press("n", "no")
                    killed.start()
                    until(lambda: len({server_of_stranger(port) for _ in range(4)}) == 2)
                assert "lb" in {cookie["name"] for cookie in page.context.cookies()}
                page.goto("about:blank")  # Caddy ends after its last connection
        finally:
            one.stop()
            two.stop()
        log = csv.DictReader(io.StringIO(closecall("export", project, "--log")))
        assert [(row["item"], row["answer"]) for row in log] == given


def is_of_a_card(response: Response) -> bool:
    """Whether it is the API's answer about an item to label, without which the page's script gives one."""
    return urlsplit(response.url).path.endswith("/card") and response.ok


def is_of_sign_in(cookie: Cookie) -> bool:
    return cookie["name"].startswith("_streamlit_user")


def is_probe(response: Response) -> bool:
    """Whether a page of Streamlit's looks for its server: it tries its own path first, then those above."""
    return urlsplit(response.url).path.endswith(("/_stcore/health", "/_stcore/host-config"))


def told(response: Response) -> str:
    return f"{response.status} {response.request.method} {response.url}"
