from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests import chromium
from tests.browser.labeling import Labeling
from tests.browser.served import Server, free_port

NOT_RUN = "no Chromium can be had here: browser tests did NOT run"
HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = [item for item in items if HERE in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.browser)
        item.add_marker(pytest.mark.xdist_group(f"browser {item.path.stem}"))
    if ours and chromium.find() is None:
        if os.environ.get("CI") == "true":
            raise pytest.UsageError(f"{NOT_RUN}, which is a failure under CI=true")
        for item in ours:
            item.add_marker(pytest.mark.skip(reason=NOT_RUN))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium.find(), args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests; each has a session of its own. A test that kills it starts it again."""
    made = Server(tmp_path_factory.mktemp("served") / "projects", items=2000, port=free_port())
    made.start()
    yield made
    made.stop()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A fresh browser profile."""
    made = browser.new_context(viewport={"width": 1440, "height": 900})
    yield made
    made.close()


@pytest.fixture
def labeling(server: Server, context: BrowserContext) -> Labeling:
    """The labeling page with its first image painted."""
    return Labeling(context.new_page(), f"{server.url}/?project=digits&session=new")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A picture of the page where a test failed."""
    outcome = yield
    report = outcome.get_result()
    context = getattr(item, "funcargs", {}).get("context")
    if report.when == "call" and report.failed and context is not None:
        for number, page in enumerate(context.pages):
            path = Path(item.config.rootpath) / ".pytest_cache" / f"{item.name}-{number}.png"
            page.screenshot(path=path)
            report.sections.append(("page in view", str(path)))
