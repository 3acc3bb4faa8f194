from __future__ import annotations

from collections.abc import Iterator

import pytest

from closecall.core.pool.pool import Pool
from tests.dask_cluster import Cluster, cluster
from tests.pools import gapped_pool


@pytest.fixture(scope="session", params=["float32", "byte"])
def pool(request, tmp_path_factory) -> Pool:
    return gapped_pool(tmp_path_factory.mktemp("workers") / request.param, 2000, 30, dtype=request.param)


@pytest.fixture(scope="session")
def byte_pool(tmp_path_factory) -> Pool:
    return gapped_pool(tmp_path_factory.mktemp("workers") / "bytes", 2000, 30, dtype="byte")


@pytest.fixture(scope="session")
def started() -> Iterator[Cluster]:
    """A cluster of four workers that no test harms."""
    with cluster(4) as processes:
        yield processes
