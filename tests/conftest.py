from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

import closecall.app  # noqa: F401  # BLAS on one thread, as in the program: numpy reads it when it loads
from tests import scale
from tests.folders import ROOT, remove_folders


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--scale", choices=scale.SCALES, default="quick", help="how much is tried (see tests/scale.py)"
    )


def pytest_configure(config: pytest.Config) -> None:
    scale.choose(config.getoption("scale"))


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


def pytest_unconfigure() -> None:
    """A worker of pytest-xdist ends without further ado."""
    remove_folders()
