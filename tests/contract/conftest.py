from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import closecall.core.linear.scoring
import closecall.core.selection.margin.index
from closecall.core.pool.pool import Pool
from tests.dask_cluster import cluster
from tests.pools import gapped_pool
from tests.waiting import until


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Pools of a few items, too, are scored in several blocks."""
    monkeypatch.setattr(closecall.core.linear.scoring, "_SCORES", 32)
    monkeypatch.setattr(closecall.core.linear.scoring, "_CACHED_ROWS", 8)


@pytest.fixture(autouse=True, scope="module")
def _no_least_budget():
    """On such pools, too, the margin index spends a budget on clusters."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(closecall.core.selection.margin.index, "LEAST_BUDGET", 1)
        yield


@pytest.fixture(scope="session")
def helped(tmp_path_factory) -> Iterator[Callable[..., Pool]]:
    """Makes pools that the workers of a Dask cluster help to search, with the ids that other pools have."""
    from closecall.core.workers.dask_crew import DaskCrew

    with cluster(4) as processes:
        crew = DaskCrew(processes.address, seconds=60.0)

        def make(n: int, d: int = 8, *, dtype: str = "float32") -> Pool:
            pool = gapped_pool(tmp_path_factory.mktemp("helped") / "pool", n, d, dtype=dtype)
            until(lambda: len(crew.ready(pool)) == 4)
            return pool.with_crew(crew)

        yield make
        crew.close()
