from __future__ import annotations

import os


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: while two wait for their pages, another computes."""
    return (os.cpu_count() or 1) + 1
