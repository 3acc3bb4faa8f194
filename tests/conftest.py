from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from tests.folders import remove_folders


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
