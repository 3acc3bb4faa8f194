from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Playwright, expect

from tests import chromium
from tests.browser.labeling import Labeling
from tests.browser.served import Server, free_port
from tests.scale import scaled

expect.set_options(timeout=15_000)

NOT_RUN = "no Chromium can be had here: browser tests did NOT run"
HERE = Path(__file__).parent

FORGET = "location.protocol.startsWith('http') && localStorage.clear()"


def lanes() -> int:
    """Workers that drive browsers at once: more would wait for each other's pages, and each has a server."""
    return scaled(quick=1, all=2)


def n_items() -> int:
    """Digits of a server's project, each of which takes 10 ms to draw and describe."""
    return scaled(quick=800, all=2000)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)
            files.setdefault(item.path, []).append(item)
    sizes = [0] * lanes()
    for tests in sorted(files.values(), key=len, reverse=True):
        lane = sizes.index(min(sizes))
        sizes[lane] += len(tests)
        for item in tests:
            item.add_marker(pytest.mark.xdist_group(f"browser {lane}"))
    if files and chromium.find() is None:
        if os.environ.get("CI") == "true":
            raise pytest.UsageError(f"{NOT_RUN}, which is a failure under CI=true")
        for item in (item for tests in files.values() for item in tests):
            item.add_marker(pytest.mark.skip(reason=NOT_RUN))


@pytest.fixture(scope="session")
def profile(playwright: Playwright, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """A browser that keeps the page's scripts compiled, which is a third of what opening a page costs."""
    made = playwright.chromium.launch_persistent_context(
        tmp_path_factory.mktemp("profile"),
        executable_path=chromium.find(),
        args=chromium.OPTIONS,
        viewport={"width": 1440, "height": 900},
    )
    yield made
    made.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests; each has a session of its own. A test that kills it starts it again."""
    made = Server(tmp_path_factory.mktemp("served") / "projects", items=n_items(), port=free_port())
    made.start()
    yield made
    made.stop()


@pytest.fixture
def context(profile: BrowserContext) -> Iterator[BrowserContext]:
    """A browser that has been nowhere before, but for its cache."""
    yield profile
    for page in profile.pages:
        page.evaluate(FORGET)
    # The browser ends with its last page.
    profile.new_page()
    for page in profile.pages[:-1]:
        page.close()
    profile.clear_cookies()  # they hold for all servers on this machine


@pytest.fixture
def contexts(browser: Browser) -> Iterator[list[BrowserContext]]:
    """A browser each for two people."""
    made = [browser.new_context(viewport={"width": 1440, "height": 900}) for _ in range(2)]
    yield made
    for context in made:
        context.close()


@pytest.fixture
def labeling(server: Server, context: BrowserContext) -> Labeling:
    """The labeling page with its first image painted."""
    return Labeling(context.new_page(), f"{server.url}/?project=digits&session=new")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A picture of the page where a test failed, what its browser keeps, and what the server said last."""
    outcome = yield
    report = outcome.get_result()
    given = getattr(item, "funcargs", {})
    context, served = given.get("context"), given.get("server")
    if report.failed and isinstance(served, Server):
        report.sections.append(("server", served.last_words(2000)))
    if report.when == "call" and report.failed and context is not None:
        for number, page in enumerate(context.pages):
            path = Path(item.config.rootpath) / ".pytest_cache" / f"{item.name}-{number}.png"
            page.screenshot(path=path)
            kept = page.evaluate("location.protocol.startsWith('http') ? JSON.stringify(localStorage) : ''")
            report.sections.append((f"page in view: {page.url}", f"{path}\n{kept[:2000]}"))
