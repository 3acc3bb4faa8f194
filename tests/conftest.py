from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image
from sqlalchemy import Connection, event

import closecall.app  # noqa: F401  # BLAS on one thread, as in the program: numpy reads it when it loads
from closecall.app.runtime.child import SAFE_PATH
from closecall.core.sources.digits import Digits
from closecall.storage import migrate
from tests import chromium, scale
from tests.folders import ROOT, remove_folders, write_to_memory
from tests.statements import compiled_once

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

MOST_DRAWN = 2000
"""Digits of up to 40 kB each that are kept."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--scale", choices=scale.SCALES, default="quick", help="how much is tried (see tests/scale.py)"
    )


def pytest_configure(config: pytest.Config) -> None:
    scale.choose(config.getoption("scale"))
    # The browser's tests take longest and leave much of a core idle: they begin first, as they are collected.
    config.option.loadscopereorder = False
    write_to_memory()  # workers of pytest-xdist have it from the process that starts them


def pytest_report_header() -> str:
    from tests.processors import in_force  # workers have no header

    return in_force()


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes too long, and keep a file's tests on one worker: they share what is set up."""
    for item in items:
        if not (item.get_closest_marker("xdist_group") or item.path.parent.name == "browser"):
            place = item.path.relative_to(ROOT / "tests").with_suffix("")
            item.add_marker(pytest.mark.xdist_group(place.as_posix().replace("test_", "")))
    left_out = [item for item in items if scale.left_out(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not scale.left_out(item)]


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten the names of tests about long texts, one of which has ten million characters."""
    return repr(val)[:50] if isinstance(val, str | bytes) and len(val) > 50 else None


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: while two wait for their pages, another computes."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: object, ids: Sequence[str]) -> None:
    """Where browser tests are torn apart, each worker makes its own servers and projects for a file."""
    if any(name.startswith("tests/browser/") and "@browser" not in name for name in ids):
        pytest.exit(
            "pytest-xdist keeps no groups together: run it with --dist loadgroup, and pytest below 9.2", 2
        )


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    """The only one of a worker: a thread cannot have two."""
    from playwright.sync_api import sync_playwright  # most workers drive no browser

    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """For contexts of a test's own; each begins with an empty cache."""
    started = playwright.chromium.launch(executable_path=chromium.find(), args=chromium.OPTIONS)
    yield started
    started.close()


@pytest.fixture(autouse=True, scope="module")
def put_back_safe_path() -> Iterator[None]:
    """What starts worker processes sets it for good, and children of later tests would not find `tests`."""
    before = os.environ.get(SAFE_PATH)
    yield
    if before is None:
        os.environ.pop(SAFE_PATH, None)
    else:
        os.environ[SAFE_PATH] = before


@pytest.fixture(autouse=True, scope="session")
def draw_digits_once() -> Iterator[None]:
    """Tests look at the same few hundred digits again and again, and drawing one takes 5 ms."""
    draw, drawn = Digits.image, {}

    def image(source: Digits, item: int, size: int) -> Image.Image:
        key = (source.seed, source.n_held_out, len(source), item, size)
        if (found := drawn.get(key)) is None:  # another thread may clear it in between
            if len(drawn) >= MOST_DRAWN:
                drawn.clear()
            found = drawn[key] = draw(source, item, size)
        return found.copy()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Digits, "image", image)
        yield


@pytest.fixture(autouse=True, scope="session")
def no_server_is_short() -> Iterator[None]:
    """No look-ahead is shed, and no selection hurried, because tests share a slow machine."""
    from closecall.app.engine import load

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "IN_TIME_SECONDS", math.inf)
        yield


@pytest.fixture(autouse=True, scope="session")
def compile_statements_once() -> Iterator[None]:
    """Each database would compile the same statements again."""
    with compiled_once():
        yield


@pytest.fixture(autouse=True, scope="session")
def migrate_once() -> Iterator[Callable[..., None]]:
    """An empty database gets the statements of all migrations at once, in a tenth of the time.

    Gives the function that runs the migrations.
    """
    upgrade, scripts = migrate.upgrade, migrate.SCRIPTS
    made: dict[str, list[tuple[str, Any]]] = {}

    def upgrade_or_repeat(connection: Connection, version: str = "head") -> None:
        if version != "head" or scripts != migrate.SCRIPTS or migrate.version_of(connection) is not None:
            upgrade(connection, version)
        elif (name := connection.dialect.name) in made:
            for statement, parameters in made[name]:
                connection.exec_driver_sql(statement, parameters)
        else:
            run: list[tuple[str, Any]] = []

            @event.listens_for(connection, "before_cursor_execute")
            def keep(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
                if not statement.lstrip().startswith(("SELECT", "PRAGMA")):
                    run.append((statement, parameters))

            upgrade(connection)
            event.remove(connection, "before_cursor_execute", keep)
            made[name] = run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "upgrade", upgrade_or_repeat)
        yield upgrade


def pytest_unconfigure() -> None:
    """A worker of pytest-xdist ends without further ado."""
    remove_folders()
