from __future__ import annotations

import sys

import pytest
from numba.core.dispatcher import Dispatcher

from core.build import build
from core.learner import Labels, is_positive, play_round
from core.search import STRUCTURES
from core.selection import STRATEGIES, make_strategy
from core.selection.hashed import HashedSearch
from core.sources import source_from
from core.warmup import warm_up


def compiled() -> dict[str, int]:
    """Every kernel of the program, and for how many combinations of types it is compiled."""
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] in ("app", "core")]
    return {
        f"{kernel.__module__}.{kernel.__name__}": len(kernel.signatures)
        for module in modules
        for kernel in vars(module).values()
        if isinstance(kernel, Dispatcher)
    }


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    warm_up()


@pytest.mark.parametrize("name", STRATEGIES)
def test_nothing_is_left_to_compile(name, tmp_path):
    """After the warm-up, building a pool, learning and selecting compile no kernel any more."""
    before = compiled()
    assert before["core.svm._sides"]
    assert before["core.scoring._move_bits"]
    pool = build(source_from("digits:900"), tmp_path / "pool")
    structures = STRUCTURES if issubclass(STRATEGIES[name], HashedSearch) else [None]
    labels = Labels.of(pool, pool.ids[:200], is_positive(pool.truth(pool.ids[:200]), 3))
    for structure in structures:
        params = {"structure": structure} if structure else {}
        strategy = make_strategy(name, **params).fit(pool.prefix(700))
        for index in (strategy, strategy.extended(pool)):
            play_round(pool, labels, index)
            index.select(play_round(pool, labels, index).trained.hyperplane, 12, exclude=range(50))
    assert compiled() == before
