"""Closecall behind Caddy and nginx as documented, over HTTPS, with sign-in, at the root and below a path."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from PIL import Image
from playwright.sync_api import Browser, Cookie, Page, Response, expect

from tests import proxies
from tests.browser.alike import Alike
from tests.browser.labeling import Labeling
from tests.browser.served import Server, free_port, make_demo
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


@pytest.fixture(params=WAYS, ids="-".join)
def behind(
    request: pytest.FixtureRequest, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Behind, str]]:
    """The server, and the address at which the proxy offers it."""
    name, way = request.param
    if proxies.find(name) is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{name} is not installed")
        pytest.skip(f"{name} {proxies.NOT_THERE}")
    port, prefix = free_port(), proxies.prefix_of(way)
    address = f"https://localhost:{port}{prefix}"
    make_demo(tmp_path / "projects", server)
    (tmp_path / ".streamlit").mkdir()
    with serving([ADA], [f"{address}/oauth2callback"]) as provider:
        (tmp_path / ".streamlit" / "secrets.toml").write_text(provider.secrets_toml(), "utf-8")
        monkeypatch.setenv("HOME", str(tmp_path))
        made = Behind(tmp_path / "projects", items=server.items, port=free_port(), prefix=prefix)
        made.start()
        try:
            with proxies.running(name, way, port, made.port, tmp_path):
                yield made, address
        finally:
            made.stop()


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
